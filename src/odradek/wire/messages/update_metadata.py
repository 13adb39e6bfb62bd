"""UpdateMetadata, key 6: send cluster metadata to brokers. Versions 0 to 8; between brokers."""

from __future__ import annotations

from odradek.wire.schema import array, boolean, int8, int16, int32, int64, message, string, structure, uuid


@structure
class UpdateMetadataPartitionState:
    topic_name: str = string(until=4, ignorable=True)
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    zk_version: int = int32()
    replicas: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, since=4, ignorable=True)


@structure
class UpdateMetadataTopicState:
    topic_name: str = string()
    topic_id: bytes = uuid(since=7, ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState)


@structure
class UpdateMetadataEndpoint:
    port: int = int32()
    host: str = string()
    listener: str = string(since=3, ignorable=True)
    security_protocol: int = int16()


@structure
class UpdateMetadataBroker:
    id: int = int32()
    v0_host: str = string(until=0, ignorable=True)
    v0_port: int = int32(until=0, ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, since=1, ignorable=True)
    rack: str | None = string(since=2, nullable_since=0, ignorable=True)


@message(versions=range(0, 9), flexible=6)
class UpdateMetadataRequest:
    """v0 has one address per broker, later versions a list of endpoints; v2 adds racks, v3 listener names,
    v4 offline replicas, v5 the broker epoch and grouping by topic; v6 is flexible; v7 adds topic ids,
    v8 adds is_kraft_controller.
    """

    controller_id: int = int32()
    is_kraft_controller: bool = boolean(since=8)
    type: int = int8(since=8, tag=0)
    controller_epoch: int = int32()
    broker_epoch: int = int64(since=5, default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(
        UpdateMetadataPartitionState, until=4
    )
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, since=5)
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker)


@message(versions=range(0, 9), flexible=6)
class UpdateMetadataResponse:
    """v6 is flexible."""

    error_code: int = int16()
