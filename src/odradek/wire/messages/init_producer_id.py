"""InitProducerId, key 22: assign a producer id and epoch. Versions 0 to 5."""

from __future__ import annotations

from odradek.wire.schema import int16, int32, int64, message, string


@message(versions=range(0, 6), flexible=2)
class InitProducerIdRequest:
    """v2 is flexible; v3 adds the current id and epoch, so that a producer can recover; v4 clients
    handle PRODUCER_FENCED, v5 clients TRANSACTION_ABORTABLE.
    """

    transactional_id: str | None = string(nullable_since=0)
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(since=3, default=-1)
    producer_epoch: int = int16(since=3, default=-1)


@message(versions=range(0, 6), flexible=2)
class InitProducerIdResponse:
    """The assigned id and epoch. v2 is flexible; v4 and v5 have new errors only."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
