"""AllocateProducerIds, key 67: the controller gives a broker a block of producer ids. Version 0, flexible;
between brokers.
"""

from __future__ import annotations

from odradek.wire.schema import int16, int32, int64, message


@message(versions=range(0, 1), flexible=0)
class AllocateProducerIdsRequest:
    """The broker and its broker epoch, which must be the current one."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@message(versions=range(0, 1), flexible=0)
class AllocateProducerIdsResponse:
    """The first id of the block and the number of ids."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()
