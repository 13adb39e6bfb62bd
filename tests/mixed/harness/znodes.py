"""Znodes of a cluster: read, compared with those of other clusters, and the controller's taken away."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

NO_BROKER = -1
CONNECT_SECONDS_MAX = 15.0
CONTROLLER = "/controller"
VOLATILE = frozenset({"timestamp", "topic_id", "id", "port", "endpoints", "controller_epoch"})
"""Fields whose values differ from cluster to cluster."""
BROKER_PATHS = ("/brokers/ids/", "/config/brokers/2")


class Znode(NamedTuple):
    data: bytes
    version: int
    czxid: int

    @property
    def fields(self) -> dict[str, Any]:
        """The JSON object; empty if the node has none."""
        return dict(json.loads(self.data)) if self.data.startswith(b"{") else {}


class Znodes:
    """A ZooKeeper session of the tests."""

    def __init__(self, connect_string: str) -> None:
        self._client = KazooClient(connect_string, timeout=CONNECT_SECONDS_MAX)
        self._client.start(CONNECT_SECONDS_MAX)

    def close(self) -> None:
        self._client.stop()
        self._client.close()

    def read(self, path: str) -> Znode | None:
        try:
            data, stat = self._client.get(path)
        except NoNodeError:
            return None
        return Znode(data or b"", stat.version, stat.czxid)

    def children(self, path: str) -> list[str]:
        """Return the names below a node; none if there is no such node."""
        try:
            return sorted(self._client.get_children(path))
        except NoNodeError:
            return []

    def fields(self, path: str) -> dict[str, Any]:
        """Return the JSON object of a node; empty if there is no such node."""
        node = self.read(path)
        return {} if node is None else node.fields

    def create(self, path: str) -> None:
        """Create a node without data."""
        self._client.create(path)

    def delete(self, path: str) -> None:
        """Delete a node if it exists, with everything below."""
        try:
            self._client.delete(path, recursive=True)
        except NoNodeError:
            return

    def controller(self) -> int:
        return int(self.fields(CONTROLLER).get("brokerid", NO_BROKER))

    def broker_epoch(self, broker: int) -> int | None:
        """Return the broker epoch, the czxid of the registration; None without one."""
        node = self.read(f"/brokers/ids/{broker}")
        return None if node is None else node.czxid

    def partition_state(self, topic: str, partition: int = 0) -> dict[str, Any]:
        return self.fields(f"/brokers/topics/{topic}/partitions/{partition}/state")

    def topic(self, topic: str) -> dict[str, Any]:
        return self.fields(f"/brokers/topics/{topic}")

    def tree(self, root: str = "/") -> dict[str, Znode]:
        """Return all nodes below and including the root."""
        return dict(self._walk(root))

    def _walk(self, path: str) -> Iterator[tuple[str, Znode]]:
        node = self.read(path)
        if node is None:
            return
        yield path, node
        for name in self.children(path):
            yield from self._walk(f"{path.rstrip('/')}/{name}")


def comparable(
    tree: Mapping[str, Znode],
    topics: Iterable[str],
    random_topics: Iterable[str] = (),
    volatile: Collection[str] = (),
) -> dict[str, str]:
    """Return nodes of brokers, features and topics as texts that do not vary from cluster to cluster.

    Replicas of random topics were chosen by the broker: their order and the leader are left out. So are
    the values of ``volatile`` keys.
    """
    fixed_names, random_names = set(topics), set(random_topics)
    texts: dict[str, str] = {}
    for path, node in tree.items():
        parts = set(path.split("/"))
        if parts & random_names:
            texts[path] = _mask(node, volatile, is_random=True)
        elif parts & fixed_names or path == "/feature" or path.startswith(BROKER_PATHS):
            texts[path] = _mask(node, volatile, is_random=False)
    return texts


def _mask(node: Znode, volatile: Collection[str], *, is_random: bool) -> str:
    """Return the JSON, in its order of keys, without values that vary."""
    if not node.data.startswith(b"{"):
        return node.data.decode()
    fields = {
        key: "…" if key in volatile else _mask_value(key, value, is_random)
        for key, value in node.fields.items()
    }
    return json.dumps(fields)


def _mask_value(key: str, value: Any, is_random: bool) -> Any:
    if key in VOLATILE or (is_random and key == "leader"):
        return "…"
    if is_random and key == "isr":
        return sorted(value)
    if is_random and key == "partitions":
        return {number: sorted(replicas) for number, replicas in value.items()}
    return value


def shape(data: bytes) -> str:
    """Return keys in order, without optional ones, types of values, and ``version`` and ``features``."""
    kept = {
        key: value if key in ("version", "features") else type(value).__name__
        for key, value in json.loads(data).items()
        if key != "rack"
    }
    return json.dumps(kept)
