"""AddOffsetsToTxn, key 25: add a group's offsets to a transaction. Versions 0 to 4."""

from __future__ import annotations

from odradek.wire.schema import int16, int32, int64, message, string


@message(versions=range(0, 5), flexible=3)
class AddOffsetsToTxnRequest:
    """v2 clients handle PRODUCER_FENCED; v3 is flexible; v4 clients handle TRANSACTION_ABORTABLE."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


@message(versions=range(0, 5), flexible=3)
class AddOffsetsToTxnResponse:
    """v3 is flexible; v2 and v4 have new errors only."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
