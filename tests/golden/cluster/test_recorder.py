"""The recorder's own parts: ZooKeeper's log, timelines, and the selection of messages."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.golden.cluster.recordings import HERE, SCENARIOS, events
from tests.support.interbroker.exchange import Exchange
from tests.support.interbroker.selection import select
from tests.support.interbroker.timeline import Message, format_timeline
from tests.support.interbroker.zookeeper_log import Znode, read_writes

CREATE, DELETE, SET, CHECK, MULTI, ERROR, CLOSE = 1, 2, 5, 13, 14, -1, -11


def text(value: str | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value.encode()


def create(path: str, data: str | None, *, ephemeral: bool = False) -> tuple[int, bytes]:
    access = struct.pack(">ii", 1, 31) + text("world") + text("anyone")
    return CREATE, text(path) + text(data) + access + struct.pack(">?i", ephemeral, 1)


def set_data(path: str, data: str, version: int) -> tuple[int, bytes]:
    return SET, text(path) + text(data) + struct.pack(">i", version)


def multi(*parts: tuple[int, bytes]) -> tuple[int, bytes]:
    body = b"".join(struct.pack(">ii", kind, len(data)) + data for kind, data in parts)
    return MULTI, struct.pack(">i", len(parts)) + body


def write_log(directory: Path, *transactions: tuple[int, int, bytes]) -> None:
    """Write a log of (session, type, body), with zxids from 1 and preallocated space at the end."""
    log = b"ZKLG" + struct.pack(">iq", 2, 0)
    for zxid, (session, kind, body) in enumerate(transactions, 1):
        entry = struct.pack(">qiqqi", session, 0, zxid, 1000 + zxid, kind) + body
        log += struct.pack(">qi", 0, len(entry)) + entry + b"B"
    folder = directory / "version-2"
    folder.mkdir()
    (folder / "log.1").write_bytes(log + bytes(100))


def test_log_gives_writes_and_the_tree(tmp_path: Path) -> None:
    write_log(
        tmp_path,
        (7, *create("/a", None)),
        (7, *multi((CHECK, text("/a") + struct.pack(">i", 1)), set_data("/a", "one", 1))),
        (7, *create("/e", "x", ephemeral=True)),
    )
    writes, tree = read_writes(tmp_path)
    assert [(w.zxid, w.operation, w.path, w.version, w.data) for w in writes] == [
        (1, "create", "/a", 0, None),
        (2, "check", "/a", 0, None),
        (2, "set", "/a", 1, b"one"),
        (3, "create-ephemeral", "/e", 0, b"x"),
    ]
    assert tree.nodes == {"/a": Znode(b"one", 1, 1, 0), "/e": Znode(b"x", 0, 3, 7)}


def test_end_of_a_session_deletes_its_ephemeral_nodes(tmp_path: Path) -> None:
    write_log(
        tmp_path,
        (7, *create("/e", "x", ephemeral=True)),
        (8, *create("/f", "y", ephemeral=True)),
        (7, CLOSE, b""),
    )
    writes, tree = read_writes(tmp_path)
    assert [(w.operation, w.path) for w in writes[2:]] == [("delete", "/e")]
    assert list(tree.nodes) == ["/f"]


def test_failed_multi_writes_nothing(tmp_path: Path) -> None:
    failed = multi(create("/a", "x"), (ERROR, struct.pack(">i", -101)))
    write_log(tmp_path, (7, *failed), (7, *create("/b", "y")), (7, DELETE, text("/b")))
    writes, tree = read_writes(tmp_path)
    assert [(w.operation, w.path) for w in writes] == [("create", "/b"), ("delete", "/b")]
    assert tree.nodes == {}


@pytest.mark.parametrize(("ibp", "scenario"), SCENARIOS)
def test_timelines_are_read_and_written_alike(ibp: str, scenario: str) -> None:
    written = (HERE / ibp / f"{scenario}.txt").read_text(encoding="utf-8")
    head, _, lines = written.partition("\n")
    assert head.startswith("# ")
    assert format_timeline(events(ibp, scenario)) == lines


def test_selection_of_a_selection_changes_nothing() -> None:
    recorded = [event for event in events("3.9", "creation") if isinstance(event, Message) and event.frame]
    assert select(recorded) == recorded


def test_selection_drops_repeated_fetches_and_the_bytes_of_repeated_requests() -> None:
    kept = [event for event in events("3.9", "creation") if isinstance(event, Message) and event.frame]
    repeated = [*kept, *(message._replace(number=message.number + 10_000) for message in kept)]
    selected = select(repeated)
    later = [message for message in selected if message.number >= 10_000]
    assert all(message.kind == "request" and message.api != "Fetch" for message in later if not message.frame)
    assert not any(message.api == "Fetch" for message in later)
    assert any(not message.frame for message in later)


@pytest.mark.parametrize(
    ("client_id", "source"), [("0", "0"), ("broker-1-fetcher-0", "1"), ("AddPartitionsManager-client-2", "2")]
)
def test_sender_is_in_the_client_id(client_id: str, source: str) -> None:
    frame = struct.pack(">hhih", 1, 17, 5, len(client_id)) + client_id.encode()
    exchange = Exchange(0, 0, frame)
    assert (exchange.api_key, exchange.version, exchange.source) == (1, 17, source)
