"""Cluster id, broker id, and the broker's registration under ``/brokers/ids``.

A configured broker id must match the one in its log directories. ``broker.id=-1`` with
``broker.id.generation.enable`` means: use the id of the directories, or else generate one above
``reserved.broker.max.id``, so that generated and configured ids never collide.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from odradek.model.errors import ConfigError
from odradek.model.uuids import random_uuid, uuid_text
from odradek.ports.entropy import Entropy
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import (
    BrokerRegistration,
    decode_broker,
    decode_cluster_id,
    encode_broker,
    encode_cluster_id,
)
from odradek.store.meta_properties import MetaProperties, agree
from odradek.store.port import (
    CreateOp,
    NodeExists,
    NoNode,
    SetDataOp,
    Stat,
    Store,
    StoreError,
    Unavailable,
)

_ATTEMPTS_MAX: Final = 10


class BrokerIdTaken(StoreError):
    what = "another broker is registered with this id"


@dataclass(frozen=True, slots=True)
class BrokerIdRules:
    """The settings that determine a broker's id."""

    configured: int = -1
    generation_enabled: bool = True
    reserved_max: int = 1000


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """A registered broker. The broker epoch is the czxid of its node."""

    broker_id: int
    broker_epoch: int
    registration: BrokerRegistration


async def create_top_level_paths(store: Store) -> None:
    """Create the persistent top-level nodes."""
    for path in znode_paths.PERSISTENT:
        await store.ensure_path(path)


async def read_cluster_id(store: Store) -> str | None:
    """Return the cluster id; None if the store has none yet."""
    try:
        return decode_cluster_id(znode_paths.CLUSTER_ID, (await store.get(znode_paths.CLUSTER_ID))[0])
    except NoNode:
        return None


async def create_or_get_cluster_id(store: Store, entropy: Entropy) -> str:
    """Return the cluster id; the first broker of a cluster generates it."""
    for _ in range(_ATTEMPTS_MAX):
        existing = await read_cluster_id(store)
        if existing is not None:
            return existing
        await store.ensure_path(znode_paths.CLUSTER)
        cluster_id = uuid_text(random_uuid(entropy.uuid))
        try:
            await store.create(znode_paths.CLUSTER_ID, encode_cluster_id(cluster_id))
        except NodeExists:
            continue  # another broker was first: use its id
        return cluster_id
    raise StoreError(
        znode_paths.CLUSTER_ID, f"created and deleted in each of {_ATTEMPTS_MAX} attempts to read it"
    )


def decide_broker_id(rules: BrokerIdRules, meta_properties: Mapping[str, MetaProperties]) -> int | None:
    """Return the broker id from settings and the directories' files; None if one must be generated.

    Raises ``ConfigError`` or ``StorageError`` on a contradiction.
    """
    configured, reserved_max = rules.configured, rules.reserved_max
    if not rules.generation_enabled and configured < 0:
        raise ConfigError(
            [f"broker.id: must be >= 0 while broker.id.generation.enable is false, got {configured}"]
        )
    if rules.generation_enabled and not -1 <= configured <= reserved_max:
        raise ConfigError(
            [
                f"broker.id: must be between -1 and reserved.broker.max.id={reserved_max}, got {configured}. "
                "Larger ids are generated: choose a smaller one, increase reserved.broker.max.id, or set "
                "broker.id.generation.enable=false"
            ]
        )
    stored_id = agree(meta_properties).broker_id
    if stored_id is None:
        return configured if configured >= 0 else None
    if configured not in (-1, stored_id):
        path = next(path for path, meta in meta_properties.items() if meta.broker_id == stored_id)
        raise ConfigError(
            [
                f"broker.id: must match the log directories, got {configured}, but {path} has "
                f"broker.id={stored_id}. To keep the data set broker.id={stored_id}; for a new broker "
                f"{configured} use empty log.dirs"
            ]
        )
    return stored_id


async def resolve_broker_id(
    store: Store, rules: BrokerIdRules, meta_properties: Mapping[str, MetaProperties]
) -> int:
    """Like ``decide_broker_id``, but generate an id where none is determined."""
    broker_id = decide_broker_id(rules, meta_properties)
    return await generate_broker_id(store, rules.reserved_max) if broker_id is None else broker_id


async def generate_broker_id(store: Store, reserved_max: int) -> int:
    """Return a new broker id: each write to ``/brokers/seqid`` has a unique version."""
    await store.ensure_path(znode_paths.BROKER_SEQUENCE_ID)
    return reserved_max + (await store.set(znode_paths.BROKER_SEQUENCE_ID, b"")).version


async def register_broker(
    store: Store,
    broker_id: int,
    registration: BrokerRegistration,
    previous_session_ids: Collection[int] = (),
) -> int:
    """Create the broker's ephemeral node; return its broker epoch.

    The epoch comes from the transaction that creates the node, or is read together with its owner: it is
    always that of this session's node. A node left by ``previous_session_ids``, expired sessions of this
    process, is replaced. Raises ``BrokerIdTaken`` if any other session holds the id.
    """
    path, data = znode_paths.broker(broker_id), encode_broker(registration)
    for _ in range(_ATTEMPTS_MAX):
        # If the response is lost, the node may exist all the same: its owner is checked below.
        with suppress(NodeExists, Unavailable):
            # As in Kafka, in two steps: only the second returns the czxid.
            _, stat = await store.multi([CreateOp(path, b"", ephemeral=True), SetDataOp(path, data, 0)])
            assert isinstance(stat, Stat)
            return stat.czxid
        existing = await store.exists(path)
        if existing is None:
            continue  # deleted since: its session has ended
        if existing.ephemeral_owner == store.session_id:
            # Created by an earlier attempt, perhaps with other endpoints.
            return (await store.set(path, data)).czxid
        if existing.ephemeral_owner not in previous_session_ids:
            raise BrokerIdTaken(
                path,
                f"held by session {existing.ephemeral_owner:#x}. Either two brokers are configured with "
                f"broker.id={broker_id}, or this broker was restarted before its old session expired: then "
                "wait for zookeeper.session.timeout.ms and start it again",
            )
        with suppress(NoNode):
            await store.delete(path)
    raise StoreError(path, f"was deleted during each of {_ATTEMPTS_MAX} attempts to register")


def check_endpoints(
    registration: BrokerRegistration, broker_id: int, brokers: Mapping[int, RegisteredBroker]
) -> None:
    """Reject endpoints that another live broker advertises."""
    addresses = {(endpoint.host, endpoint.port) for endpoint in registration.endpoints}
    for broker in brokers.values():
        if broker.broker_id == broker_id:
            continue
        for endpoint in broker.registration.endpoints:
            if (endpoint.host, endpoint.port) in addresses:
                raise ConfigError(
                    [
                        f"advertised.listeners: {endpoint.host}:{endpoint.port} is already registered by "
                        f"broker {broker.broker_id}"
                    ]
                )


async def update_registration(store: Store, broker_id: int, registration: BrokerRegistration) -> None:
    """Update the registration of a registered broker; its broker epoch stays."""
    await store.set(znode_paths.broker(broker_id), encode_broker(registration))


async def read_brokers(store: Store) -> dict[int, RegisteredBroker]:
    """Return all live brokers, by id."""
    try:
        names = await store.children(znode_paths.BROKER_IDS)
    except NoNode:
        return {}
    ids = sorted(int(name) for name in names if name.isascii() and name.isdecimal())
    nodes = await store.get_many(map(znode_paths.broker, ids))
    return {
        broker_id: RegisteredBroker(
            broker_id, node[1].czxid, decode_broker(znode_paths.broker(broker_id), node[0])
        )
        for broker_id, node in zip(ids, nodes, strict=True)
        if node is not None
    }
