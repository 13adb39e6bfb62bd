"""Contents of the znodes: values, and their encoding byte for byte as Kafka 3.9 writes it.

The field order is Kafka's too (the iteration order of Scala's maps), so that nodes can be compared;
partitions of a topic are ordered by number. Decoding accepts every older version that Kafka 3.9 reads, and
raises ``BadPayload`` with the path for anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from odradek.model.ids import TopicId, TopicPartition
from odradek.model.uuids import parse_uuid, uuid_text
from odradek.store.layout.json_fields import Fields, read_json, write_json
from odradek.store.port import BadPayload

BROKER_VERSION: Final = 5
NO_HOST: Final = (None, -1)
_ENDPOINT: Final = re.compile(r"([A-Za-z0-9_.\-]*)://(?:\[([0-9A-Fa-f:.%\w]*)\]|([^:\[\]]*)):(-?\d{1,5})")
_NUMBER: Final = re.compile(rb"-?\d{1,19}")


@dataclass(frozen=True, slots=True)
class RegisteredEndpoint:
    listener: str
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """``/brokers/ids/N``. ``features`` are supported (min, max) versions by name."""

    endpoints: tuple[RegisteredEndpoint, ...]
    timestamp_ms: int
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    jmx_port: int = -1


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """Replicas in order of preference, and the adding and removing replicas of a reassignment."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """``/brokers/topics/T``. The topic id is None only in nodes written before Kafka 2.8."""

    topic_id: TopicId | None
    partitions: Mapping[int, ReplicaAssignment]


@dataclass(frozen=True, slots=True)
class LeaderIsrAndControllerEpoch:
    """``/brokers/topics/T/partitions/N/state``."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    is_recovering: bool = False


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    """``/controller``."""

    broker_id: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """``/latest_producer_id_block``: the ids ``first`` to ``last``, inclusive, belong to the broker."""

    broker_id: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class FinalizedFeatures:
    """``/feature``: max finalized version by name.

    Kafka writes node version 2 from inter-broker protocol 3.3-IV0 on, and version 1 below.
    """

    is_enabled: bool
    versions: Mapping[str, int]
    node_version: int = 2


def encode_broker(broker: BrokerRegistration) -> bytes:
    # Clients older than the endpoint list use the host and port of a PLAINTEXT listener.
    plain = [(e.host, e.port) for e in broker.endpoints if e.security_protocol == "PLAINTEXT"]
    host, port = plain[0] if plain else NO_HOST
    features = {
        name: {"min_version": lowest, "max_version": highest}
        for name, (lowest, highest) in broker.features.items()
    }
    return write_json(
        {
            "features": features,
            "listener_security_protocol_map": {e.listener: e.security_protocol for e in broker.endpoints},
            "endpoints": [str(e) for e in broker.endpoints],
            **({} if broker.rack is None else {"rack": broker.rack}),
            "jmx_port": broker.jmx_port,
            "port": port,
            "host": host,
            "version": BROKER_VERSION,
            "timestamp": str(broker.timestamp_ms),
        }
    )


def decode_broker(path: str, data: bytes) -> BrokerRegistration:
    """Decode versions 1 (host and port only) to 5."""
    fields = read_json(path, data)
    version = fields.integer("version")
    if version < 1:
        fields.fail(f"version must be >= 1, got {version}")
    if version == 1:
        endpoints = [
            RegisteredEndpoint("PLAINTEXT", "PLAINTEXT", fields.text("host"), fields.integer("port"))
        ]
    else:
        protocols = fields.inside("listener_security_protocol_map")
        endpoints = [_decode_endpoint(fields, text, protocols) for text in fields.texts("endpoints")]
    features = fields.inside("features")
    return BrokerRegistration(
        tuple(endpoints),
        fields.number_in_text("timestamp", -1),
        fields.text("rack") if "rack" in fields else None,
        {name: _decode_range(features.inside(name)) for name in features.names()},
        fields.integer("jmx_port", -1),
    )


def _decode_endpoint(fields: Fields, text: str, protocols: Fields) -> RegisteredEndpoint:
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        fields.fail(f"endpoint must be LISTENER://host:port, got {text[:80]!r}")
    listener, host_6, host, port = match.groups()
    # Before version 4 a listener was named after its security protocol.
    return RegisteredEndpoint(listener, protocols.text(listener, listener), host_6 or host or "", int(port))


def _decode_range(feature: Fields) -> tuple[int, int]:
    return feature.integer("min_version"), feature.integer("max_version")


def encode_topic(topic: TopicAssignment) -> bytes:
    partitions = sorted(topic.partitions.items())
    return write_json(
        {
            "partitions": {str(n): p.replicas for n, p in partitions},
            **({} if topic.topic_id is None else {"topic_id": uuid_text(topic.topic_id)}),
            "adding_replicas": {str(n): p.adding for n, p in partitions if p.adding},
            "removing_replicas": {str(n): p.removing for n, p in partitions if p.removing},
            "version": 3,
        }
    )


def decode_topic(path: str, data: bytes) -> TopicAssignment:
    """Decode versions 1 to 3: 2 added adding and removing replicas, 3 the topic id."""
    fields = read_json(path, data)
    topic_id = None
    if "topic_id" in fields:
        try:
            topic_id = parse_uuid(fields.text("topic_id"))
        except ValueError as bad:
            raise BadPayload(path, f"topic_id: {bad}") from bad
    replicas, adding, removing = map(fields.inside, ("partitions", "adding_replicas", "removing_replicas"))
    partitions = {}
    for name in replicas.names():
        if not (name.isascii() and name.isdecimal()):
            fields.fail(f"partition must be a number, got {name[:40]!r}")
        partitions[int(name)] = ReplicaAssignment(
            replicas.integers(name),
            adding.integers(name) if name in adding else (),
            removing.integers(name) if name in removing else (),
        )
    return TopicAssignment(topic_id, partitions)


def encode_partition_state(state: LeaderIsrAndControllerEpoch) -> bytes:
    return write_json(
        {
            "controller_epoch": state.controller_epoch,
            "leader": state.leader,
            "version": 1,
            **({"leader_recovery_state": 1} if state.is_recovering else {}),
            "leader_epoch": state.leader_epoch,
            "isr": state.isr,
        }
    )


def decode_partition_state(path: str, data: bytes) -> LeaderIsrAndControllerEpoch:
    fields = read_json(path, data)
    recovery = fields.integer("leader_recovery_state", 0)
    if recovery not in (0, 1):
        fields.fail(f"leader_recovery_state must be 0 or 1, got {recovery}")
    return LeaderIsrAndControllerEpoch(
        fields.integer("leader"),
        fields.integer("leader_epoch"),
        fields.integers("isr"),
        fields.integer("controller_epoch"),
        recovery == 1,
    )


def encode_config(config: Mapping[str, str]) -> bytes:
    return write_json({"version": 1, "config": dict(config)})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    """Decode configs; an empty node has none."""
    if not data:
        return {}
    config = read_json(path, data).inside("config")
    return {name: config.text(name) for name in config.names()}


def encode_config_change(entity_path: str) -> bytes:
    """``entity_path`` is relative to ``/config``: ``topics/orders``."""
    return write_json({"version": 2, "entity_path": entity_path})


def decode_config_change(path: str, data: bytes) -> str:
    """Decode versions 1 (entity type and name) and 2 (entity path)."""
    fields = read_json(path, data)
    version = fields.integer("version")
    if version == 1:
        return f"{fields.text('entity_type')}/{fields.text('entity_name')}"
    if version != 2:
        fields.fail(f"version must be 1 or 2, got {version}")
    return fields.text("entity_path")


def encode_controller(controller: ControllerRegistration) -> bytes:
    return write_json(
        {
            "version": 2,
            "brokerid": controller.broker_id,
            "timestamp": str(controller.timestamp_ms),
            "kraftControllerEpoch": -1,
        }
    )


def decode_controller(path: str, data: bytes) -> ControllerRegistration:
    fields = read_json(path, data)
    return ControllerRegistration(fields.integer("brokerid"), fields.number_in_text("timestamp", -1))


def encode_number(number: int) -> bytes:
    """Encode ``/controller_epoch`` or a consumer offset: decimal digits, not JSON."""
    return b"%d" % number


def decode_number(path: str, data: bytes) -> int:
    if not _NUMBER.fullmatch(data):
        raise BadPayload(path, f"must be a number, got {data[:40]!r}")
    return int(data)


def encode_cluster_id(cluster_id: str) -> bytes:
    return write_json({"version": "1", "id": cluster_id})


def decode_cluster_id(path: str, data: bytes) -> str:
    return read_json(path, data).text("id")


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    return write_json(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )


def decode_producer_id_block(path: str, data: bytes) -> ProducerIdBlock:
    fields = read_json(path, data)
    block = ProducerIdBlock(
        fields.integer("broker"), fields.number_in_text("block_start"), fields.number_in_text("block_end")
    )
    if not 0 <= block.first <= block.last < 1 << 63:
        fields.fail(f"invalid block of producer ids {block.first} to {block.last}")
    return block


def encode_features(features: FinalizedFeatures) -> bytes:
    levels = ("max_version_level", "min_version_level")[: 3 - features.node_version]
    versions = {name: dict.fromkeys(levels, version) for name, version in features.versions.items()}
    status = int(features.is_enabled)
    return write_json({"features": versions, "version": features.node_version, "status": status})


def decode_features(path: str, data: bytes) -> FinalizedFeatures:
    """Decode versions 1 (with min version levels, ignored, and written as the max) and 2."""
    fields = read_json(path, data)
    version, status = fields.integer("version"), fields.integer("status")
    if version not in (1, 2) or status not in (0, 1):
        fields.fail(f"version must be 1 or 2 and status 0 or 1, got version {version} and status {status}")
    features = fields.inside("features")
    versions = {name: features.inside(name).integer("max_version_level") for name in features.names()}
    if any(highest < 1 for highest in versions.values()):
        fields.fail("finalized versions must be >= 1")
    return FinalizedFeatures(status == 1, versions, version)


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode an ISR change notification or ``/admin/preferred_replica_election``."""
    listed = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    return write_json({"version": 1, "partitions": listed})


def decode_partitions(path: str, data: bytes) -> list[TopicPartition]:
    items = read_json(path, data).objects("partitions")
    return [TopicPartition(item.text("topic"), item.integer("partition")) for item in items]


def encode_reassignment(targets: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
    """Encode ``/admin/reassign_partitions``."""
    listed = [{"topic": t, "partition": p, "replicas": replicas} for (t, p), replicas in targets.items()]
    return write_json({"version": 1, "partitions": listed})


def decode_reassignment(path: str, data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    return {
        TopicPartition(item.text("topic"), item.integer("partition")): item.integers("replicas")
        for item in read_json(path, data).objects("partitions")
    }


def encode_log_dir_event(broker_id: int) -> bytes:
    """Encode a log directory failure of this broker (event 1, the only one)."""
    return write_json({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(path: str, data: bytes) -> int:
    return read_json(path, data).integer("broker")
