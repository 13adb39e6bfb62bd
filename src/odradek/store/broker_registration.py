"""How a broker finds out who it is and says so: cluster id, broker id, its node under ``/brokers/ids``.

Broker ids. An id that is configured must be the one its directories were made with. ``broker.id=-1`` with
``broker.id.generation.enable`` means: keep the id of the directories, or else draw one above
``reserved.broker.max.id``, so that drawn and configured ids never meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from odradek.model.errors import ConfigError
from odradek.model.uuids import random_uuid, uuid_text
from odradek.ports.entropy import Entropy
from odradek.store import znode_paths
from odradek.store.meta_properties import MetaProperties, agree
from odradek.store.port import NodeExists, NoNode, Store, StoreError
from odradek.store.znodes import (
    BrokerRegistration,
    decode_broker,
    decode_cluster_id,
    encode_broker,
    encode_cluster_id,
)

_ATTEMPTS_MAX: Final = 10


class BrokerIdTaken(StoreError):
    what = "another broker is registered with this id"


@dataclass(frozen=True, slots=True)
class BrokerIdRules:
    """The settings that decide a broker's id."""

    configured: int = -1
    generation_enabled: bool = True
    reserved_max: int = 1000


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """A broker as others see it. The epoch is the zxid of its node's creation."""

    broker_id: int
    broker_epoch: int
    registration: BrokerRegistration


async def create_top_level_paths(store: Store) -> None:
    """Make the nodes that must be there before anything else."""
    for path in znode_paths.PERSISTENT:
        await store.ensure_path(path)


async def read_cluster_id(store: Store) -> str | None:
    """The cluster's id; None if the store has none yet."""
    try:
        return decode_cluster_id(znode_paths.CLUSTER_ID, (await store.get(znode_paths.CLUSTER_ID))[0])
    except NoNode:
        return None


async def create_or_get_cluster_id(store: Store, entropy: Entropy) -> str:
    """The cluster's id; the first broker of a cluster draws it."""
    for _ in range(_ATTEMPTS_MAX):
        found = await read_cluster_id(store)
        if found is not None:
            return found
        await store.ensure_path(znode_paths.CLUSTER)
        cluster_id = uuid_text(random_uuid(entropy.uuid))
        try:
            await store.create(znode_paths.CLUSTER_ID, encode_cluster_id(cluster_id))
        except NodeExists:
            continue  # another broker was quicker; its id counts
        return cluster_id
    raise StoreError(znode_paths.CLUSTER_ID, f"kept coming and going in {_ATTEMPTS_MAX} attempts to read it")


def decide_broker_id(rules: BrokerIdRules, found: Mapping[str, MetaProperties]) -> int | None:
    """The broker's id from settings and the files found in its directories; None: draw one.

    ``ConfigError`` or ``StorageError`` if they contradict each other or themselves.
    """
    configured, reserved_max = rules.configured, rules.reserved_max
    if not rules.generation_enabled and configured < 0:
        raise ConfigError(
            [f"broker.id: is {configured}, must be 0 or more while broker.id.generation.enable is false"]
        )
    if rules.generation_enabled and not -1 <= configured <= reserved_max:
        raise ConfigError(
            [
                f"broker.id: is {configured}, must be from -1 to reserved.broker.max.id ({reserved_max}): "
                "ids above are drawn. Choose a lower one, raise reserved.broker.max.id, or set "
                "broker.id.generation.enable=false"
            ]
        )
    stored = agree(found).broker_id
    if stored is None:
        return configured if configured >= 0 else None
    if configured not in (-1, stored):
        path = next(path for path, meta in found.items() if meta.broker_id == stored)
        raise ConfigError(
            [
                f"broker.id: is {configured}, but the data was written by broker {stored}, says {path}. "
                f"To go on with this data set broker.id={stored}; for a new broker {configured} use empty "
                "log.dirs"
            ]
        )
    return stored


async def resolve_broker_id(store: Store, rules: BrokerIdRules, found: Mapping[str, MetaProperties]) -> int:
    """As ``decide_broker_id``, drawing an id from the store where one is to be drawn."""
    decided = decide_broker_id(rules, found)
    return await generate_broker_id(store, rules.reserved_max) if decided is None else decided


async def generate_broker_id(store: Store, reserved_max: int) -> int:
    """An id no broker had before: each write to ``/brokers/seqid`` gives it a version of its own."""
    await store.ensure_path(znode_paths.BROKER_SEQUENCE_ID)
    return reserved_max + (await store.set(znode_paths.BROKER_SEQUENCE_ID, b"")).version


async def register_broker(store: Store, broker_id: int, registration: BrokerRegistration) -> int:
    """Say that this broker is alive, for as long as the session is; give its broker epoch.

    ``BrokerIdTaken`` if another session holds the id.
    """
    path = znode_paths.broker(broker_id)
    with suppress(NodeExists):  # whose it is decides below: it may be this session's own
        await store.create(path, encode_broker(registration), ephemeral=True)
    stat = await store.exists(path)
    if stat is None:
        raise StoreError(
            path, "vanished while it was being made: the session has ended, or someone deleted it"
        )
    if stat.ephemeral_owner != store.session_id:
        raise BrokerIdTaken(
            path,
            f"session {stat.ephemeral_owner:#x} holds it. Either two brokers are configured with broker.id="
            f"{broker_id}, or this one was restarted before its old session timed out: then wait for "
            "zookeeper.session.timeout.ms and start it again",
        )
    return stat.czxid


async def update_registration(store: Store, broker_id: int, registration: BrokerRegistration) -> None:
    """Replace what is known of a registered broker; its epoch stays."""
    await store.set(znode_paths.broker(broker_id), encode_broker(registration))


async def read_brokers(store: Store) -> dict[int, RegisteredBroker]:
    """All brokers alive, by id."""
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
