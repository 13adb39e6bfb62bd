"""The recorded events of a scenario as lines of text, in the order in which they happened.

::

    ms source>target request number API version hex
    ms source>target response number API version hex
    ms broker write zxid operation path version =data

A response has the number of its request. Frames include their header, without the length; ``-`` stands for
bytes that were left out. A write without ``=`` has no data; writes with the same zxid are one multi.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tests.support.interbroker.exchange import Exchange
from tests.support.interbroker.zookeeper_log import Tree, Write

from odradek.wire.apis import API_BY_KEY


class Message(NamedTuple):
    ms: int
    source: str
    target: str
    kind: str
    """``request`` or ``response``."""
    number: int
    api: str
    version: int
    frame: bytes
    """Empty if the bytes were left out."""

    @property
    def line(self) -> str:
        head = f"{self.ms} {self.source}>{self.target} {self.kind} {self.number}"
        return f"{head} {self.api} {self.version} {self.frame.hex() or '-'}"


class ZnodeWrite(NamedTuple):
    ms: int
    broker: str
    zxid: int
    operation: str
    path: str
    version: int
    data: bytes | None

    @property
    def line(self) -> str:
        data = "" if self.data is None else f" ={self.data.decode()}"
        return f"{self.ms} {self.broker} write {self.zxid} {self.operation} {self.path} {self.version}{data}"


Event = Message | ZnodeWrite


def messages_of(exchanges: Iterable[Exchange], start_ms: int) -> list[Message]:
    """Return requests and responses of the exchanges by time, with times since the start."""
    messages = []
    for number, exchange in enumerate(exchanges):
        source, target = exchange.source, str(exchange.target)
        name, version = API_BY_KEY[exchange.api_key].name, exchange.version
        ms = exchange.requested_ms - start_ms
        messages.append(Message(ms, source, target, "request", number, name, version, exchange.request))
        if exchange.response is not None and exchange.responded_ms is not None:
            ms, frame = exchange.responded_ms - start_ms, exchange.response
            messages.append(Message(ms, target, source, "response", number, name, version, frame))
    return sorted(messages, key=_order)


def znode_writes_of(writes: Iterable[Write], brokers: Mapping[int, str], start_ms: int) -> list[ZnodeWrite]:
    """``brokers`` are the broker ids by session."""
    return [
        ZnodeWrite(
            write.time_ms - start_ms,
            brokers.get(write.session, "?"),
            *(write.zxid, write.operation, write.path, write.version, write.data),
        )
        for write in writes
    ]


def brokers_by_session(writes: Iterable[Write]) -> dict[int, str]:
    """Return the sessions of the brokers, by their registrations."""
    return {
        write.session: write.path.rpartition("/")[2]
        for write in writes
        if write.operation == "create-ephemeral" and write.path.startswith("/brokers/ids/")
    }


def format_timeline(events: Iterable[Event]) -> str:
    """Return the lines by time; within a millisecond writes first, and requests before responses."""
    return "".join(f"{event.line}\n" for event in sorted(events, key=_order))


def _order(event: Event) -> tuple[int, int]:
    return event.ms, {"request": 1, "response": 2}[event.kind] if isinstance(event, Message) else 0


def parse_timeline(text: str) -> list[Event]:
    """Return the events of a recorded scenario; lines that begin with ``#`` are comments."""
    return [_parse_line(line) for line in text.splitlines() if not line.startswith("#")]


def _parse_line(line: str) -> Event:
    ms, who, kind, rest = line.split(" ", 3)
    if kind == "write":
        place, _, data = rest.partition(" =")
        zxid, operation, path, version = place.split(" ")
        content = data.encode() if " =" in rest else None
        return ZnodeWrite(int(ms), who, int(zxid), operation, path, int(version), content)
    source, _, target = who.partition(">")
    number, api, version, text = rest.split(" ")
    frame = b"" if text == "-" else bytes.fromhex(text)
    return Message(int(ms), source, target, kind, int(number), api, int(version), frame)


def format_tree(tree: Tree, brokers: Mapping[int, str]) -> str:
    """Return a line ``path version czxid owner =data`` for each node; the owner of a persistent one is -."""
    lines = []
    for path, node in sorted(tree.nodes.items()):
        owner = brokers.get(node.owner, "?") if node.owner else "-"
        data = "" if node.data is None else f" ={node.data.decode()}"
        lines.append(f"{path} {node.version} {node.czxid} {owner}{data}\n")
    return "".join(lines)
