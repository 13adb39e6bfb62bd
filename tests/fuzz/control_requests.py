"""Requests of a controller that leave the canary alone.

An accepted LeaderAndIsr, StopReplica or UpdateMetadata request changes what the broker does, as it should.
So that the canary's partition stays, and topics can still be created, generated ones have the epoch of the
broker's own controller or an older one, name other topics, and list this broker among the live ones. Mutated
ones are only sent if the broker cannot accept them.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from odradek.cluster.topic_names import is_legal_topic_name
from odradek.model.errors import RemoteProtocolViolation
from odradek.wire.apis import API_BY_KEY
from odradek.wire.headers import decode_request_header
from odradek.wire.message_codecs import decoder
from odradek.wire.messages.controlled_shutdown import ControlledShutdownRequest
from odradek.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)

CONTROL_KEYS: Final = frozenset({4, 5, 6})
"""LeaderAndIsr, StopReplica, UpdateMetadata."""
CONTROLLER_EPOCH: Final = 1
"""Epoch of the controller of a new broker."""
CONTROLLED_SHUTDOWN: Final = 7
OLDER_EPOCHS: Final = (0, -1, -(2**31))
MOVED_TOPICS: Final = [f"moved-{number}" for number in range(4)]
"""Topics of control requests. The broker's own controller does not know them: it would wait, for as long as a
request says, for changes of topics that another controller has changed."""
MOVED_TOPIC_IDS: Final = [bytes(16), *(topic.encode().ljust(16) for topic in MOVED_TOPICS)]
UNKNOWN_BROKER_EPOCH: Final = -1
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By their number in requests."""


class OwnBroker(NamedTuple):
    """The broker under test, as its controller announces it."""

    id: int
    host: str
    port: int
    ports: Mapping[str, int] = MappingProxyType({})
    """Ports of all listeners, whose names are protocols; by default only PLAINTEXT."""


def restrict(request: Any, rng: random.Random, own: OwnBroker) -> None:
    """Change a request with random values so that it leaves the canary alone; half stay acceptable."""
    is_accepted = rng.random() < 0.5
    request.controller_epoch = CONTROLLER_EPOCH if is_accepted else rng.choice(OLDER_EPOCHS)
    if is_accepted and rng.random() < 0.9:
        request.broker_epoch = UNKNOWN_BROKER_EPOCH
    for states in (
        getattr(request, name, ())
        for name in ("topic_states", "ungrouped_partition_states", "topics", "ungrouped_partitions")
    ):
        for state in states:
            _restrict_state(state, rng, own)
    if isinstance(request, UpdateMetadataRequest):
        others = [broker for broker in request.live_brokers if broker.id != own.id]
        request.live_brokers = [_own_broker(own), *others]


def _restrict_state(state: Any, rng: random.Random, own: OwnBroker) -> None:
    for name in ("topic_name", "name"):
        topic = getattr(state, name, None)
        if topic is not None and (is_legal_topic_name(topic) or rng.random() < 0.8):
            setattr(state, name, rng.choice(MOVED_TOPICS))
    if hasattr(state, "topic_id"):
        # Never the id of another topic: requests that name topics by id would mean these.
        state.topic_id = rng.choice(MOVED_TOPIC_IDS)
    for partition in [state, *getattr(state, "partition_states", ())]:
        if hasattr(partition, "partition_index") and rng.random() < 0.9:
            partition.partition_index = rng.randrange(3)
        if hasattr(partition, "leader"):
            _restrict_leader(partition, rng, own)
        if hasattr(partition, "leader_epoch") and rng.random() < 0.5:
            partition.leader_epoch = rng.randrange(1000)


def _restrict_leader(partition: Any, rng: random.Random, own: OwnBroker) -> None:
    if rng.random() < 0.5:
        partition.leader = own.id
    if partition.leader == own.id:
        # Markers and records would wait for followers, as long as request.timeout.ms.
        partition.replicas = partition.isr = [own.id]
    elif rng.random() < 0.5:
        partition.replicas = [own.id, *partition.replicas]


def _own_broker(own: OwnBroker) -> UpdateMetadataBroker:
    endpoints = [
        UpdateMetadataEndpoint(port, own.host, name, PROTOCOLS.index(name))
        for name, port in (own.ports or {"PLAINTEXT": own.port}).items()
    ]
    return UpdateMetadataBroker(own.id, own.host, own.port, endpoints)


def spare(request: ControlledShutdownRequest, own: OwnBroker) -> None:
    """Name another broker: one that is shutting down leads no partitions until it has restarted."""
    if request.broker_id == own.id:
        request.broker_id += 1


def is_acceptable(frame: bytes, own: OwnBroker) -> bool:
    """Return whether the frame decodes as a request that would take partitions away from the broker."""
    if len(frame) < 4 or struct.unpack_from(">h", frame)[0] not in (*CONTROL_KEYS, CONTROLLED_SHUTDOWN):
        return False
    try:
        header, position = decode_request_header(memoryview(frame))
        api = API_BY_KEY[header.api_key]
        if header.api_version not in api.versions:
            return False
        request, _ = decoder(api.request, header.api_version)(memoryview(frame), position)
    except RemoteProtocolViolation:
        return False
    if isinstance(request, ControlledShutdownRequest):
        return request.broker_id == own.id
    return bool(request.controller_epoch >= CONTROLLER_EPOCH)
