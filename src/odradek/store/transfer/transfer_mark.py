"""The mark of a transfer, ``/odradek_transfer``: brokers do not start on a store that has it.

An adoption marks both ends. ZooKeeper loses its mark in the write that creates the cluster id, the last of
the adoption, so it is either incomplete and marked or complete. The embedded store keeps the mark, so no
broker can change it any more. A release marks ZooKeeper only, and for good: the embedded store then has the
state.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from odradek.store.layout.json_fields import read_json, write_json
from odradek.store.port import NoNode, Store, StoreError

TRANSFER: Final = "/odradek_transfer"
_VERSION: Final = 1


class TransferKind(enum.Enum):
    ADOPTION = "adoption"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class TransferMark:
    """``broker_id`` becomes ``new_broker_id``.

    ``replaces`` says that ZooKeeper had the state of this cluster from before a release: nodes that the
    embedded store does not have are deleted.
    """

    kind: TransferKind
    cluster_id: str
    broker_id: int
    new_broker_id: int
    replaces: bool = False


class TransferIncomplete(StoreError):
    what = "the state of the cluster is elsewhere"


def encode_mark(mark: TransferMark) -> bytes:
    return write_json(
        {
            "version": _VERSION,
            "kind": mark.kind.value,
            "cluster_id": mark.cluster_id,
            "broker": mark.broker_id,
            "new_broker": mark.new_broker_id,
            "replaces": int(mark.replaces),
        }
    )


def decode_mark(path: str, data: bytes) -> TransferMark:
    fields = read_json(path, data)
    version, kind = fields.integer("version"), fields.text("kind")
    if version != _VERSION or kind not in [member.value for member in TransferKind]:
        fields.fail(f"version must be {_VERSION} and kind adoption or release, got {version} and {kind!r}")
    return TransferMark(
        TransferKind(kind),
        fields.text("cluster_id"),
        fields.integer("broker"),
        fields.integer("new_broker"),
        fields.integer("replaces") == 1,
    )


async def read_mark(store: Store) -> TransferMark | None:
    """Return the mark of a store; None without a transfer."""
    try:
        data, _ = await store.get(TRANSFER)
    except NoNode:
        return None
    return decode_mark(TRANSFER, data)


async def check_unmarked(store: Store, *, is_shared: bool) -> None:
    """Reject a store that a transfer has marked; ``is_shared`` says that it is ZooKeeper."""
    mark = await read_mark(store)
    if mark is None:
        return
    if mark.kind is TransferKind.RELEASE:
        raise TransferIncomplete(
            TRANSFER,
            f"cluster {mark.cluster_id} was released to the embedded store of broker {mark.broker_id}. Unset "
            "zookeeper.connect, or carry the state back with `odradek cluster adopt`",
        )
    remedy = "; to keep the embedded store instead, `odradek cluster adopt --cancel`" if not is_shared else ""
    raise TransferIncomplete(
        TRANSFER,
        f"cluster {mark.cluster_id} is being carried over to ZooKeeper. Complete it with `odradek cluster "
        f"adopt`, and start the broker with zookeeper.connect{remedy}",
    )
