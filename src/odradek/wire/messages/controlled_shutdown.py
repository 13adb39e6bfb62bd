"""ControlledShutdown, key 7: move a broker's leaderships before it stops. Versions 0 to 3; between
brokers.

Version 0 has a request header without client id.
"""

from __future__ import annotations

from odradek.wire.schema import array, int16, int32, int64, message, string, structure


@message(versions=range(0, 4), flexible=3)
class ControlledShutdownRequest:
    """v2 adds the broker epoch; v3 is flexible."""

    broker_id: int = int32()
    broker_epoch: int = int64(since=2, default=-1, ignorable=True)


@structure
class RemainingPartition:
    topic_name: str = string()
    partition_index: int = int32()


@message(versions=range(0, 4), flexible=3)
class ControlledShutdownResponse:
    """The partitions the broker still leads. v3 is flexible."""

    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)
