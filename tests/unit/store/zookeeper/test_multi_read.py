"""Reads of many nodes by few requests, and by one each where the server does not know them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, NoAuthError, NoNodeError, UnimplementedError
from kazoo.protocol.serialization import GetData
from kazoo.protocol.states import ZnodeStat

from odradek.store.port import Unavailable
from odradek.store.zookeeper import session
from odradek.store.zookeeper.client import Deliver, MultiRead, SessionListener
from odradek.store.zookeeper.connect_string import parse_connect_string
from odradek.store.zookeeper.errors import AccessDenied
from odradek.store.zookeeper.options import ZooKeeperOptions

STAT = ZnodeStat(1, 2, 3, 4, 5, 6, 7, 0, 8, 9, 10)
OPTIONS = ZooKeeperOptions(parse_connect_string("zookeeper:2181/root"), 6_000, 6_000, 10)
PATHS = [f"/n{number}" for number in range(120)]

Respond = Callable[[str], bytes | Exception]


class Server:
    """Answers reads of a session; ``version`` 3.5 does not know ``MultiRead``, and closes the connection."""

    session = (1, b"password")
    problem = ""

    def __init__(self, listener: SessionListener, respond: Respond, version: float) -> None:
        self.requests: list[int] = []
        self._listener = listener
        self._respond = respond
        self._version = version
        self._is_closing = False

    def start(self) -> None:
        self._listener.on_connected()

    def send(self, request: Any, deliver: Deliver) -> None:
        asyncio.get_running_loop().call_soon(self._answer, request, deliver)

    def _answer(self, request: Any, deliver: Deliver) -> None:
        if self._is_closing:
            self._is_closing = False
            deliver(None, ConnectionLoss())
            self._listener.on_disconnected(0)
            self._listener.on_connected()
            return
        self.requests.append(request.type)
        if isinstance(request, MultiRead):
            if self._version < 3.6:
                self._is_closing = True
                deliver(None, UnimplementedError())
            else:
                deliver([self._value(path) for path in request._paths], None)
        elif isinstance(request, GetData):
            value = self._value(request.path)
            deliver(*((None, value) if isinstance(value, Exception) else (value, None)))

    def _value(self, path: str) -> Any:
        value = self._respond(path)
        return value if isinstance(value, Exception) else (value, STAT)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[bytes | None], list[int]]]:
    def run(
        respond: Respond, paths: Sequence[str] = PATHS, version: float = 3.6
    ) -> tuple[list[bytes | None], list[int]]:
        async def scenario() -> tuple[list[bytes | None], list[int]]:
            servers: list[Server] = []

            def connect(_: ZooKeeperOptions, listener: SessionListener) -> Server:
                servers.append(Server(listener, respond, version))
                return servers[0]

            monkeypatch.setattr(session, "ZooKeeperClient", connect)
            store = session.ZooKeeperStore(OPTIONS)
            servers[0].start()
            nodes = await store.get_many(paths)
            return [None if node is None else node[0] for node in nodes], servers[0].requests

        return asyncio.run(scenario())

    return run


def test_many_nodes_are_read_by_few_requests(read):
    nodes, requests = read(lambda path: NoNodeError() if path == "/root/n7" else path.encode())
    assert nodes == [None if path == "/n7" else f"/root{path}".encode() for path in PATHS]
    assert requests == [MultiRead.type] * 3


def test_few_nodes_are_read_by_one_request_each(read):
    _, requests = read(str.encode, PATHS[: session.PATHS_PER_READ])
    assert requests == [GetData.type] * session.PATHS_PER_READ


def test_other_errors_fail_the_read(read):
    with pytest.raises(AccessDenied, match="/n70"):
        read(lambda path: NoAuthError() if path == "/root/n70" else b"")
    with pytest.raises(Unavailable):
        read(lambda path: ConnectionLoss() if path == "/root/n70" else b"")


def test_server_that_does_not_know_the_request(read):
    nodes, requests = read(str.encode, version=3.5)
    assert nodes == [f"/root{path}".encode() for path in PATHS]
    assert requests.count(MultiRead.type) == 1


def test_request_as_the_server_reads_it():
    assert MultiRead(["/a", "/bc"]).serialize() == (
        b"\0\0\0\4\0\xff\xff\xff\xff\0\0\0\2/a\0"
        b"\0\0\0\4\0\xff\xff\xff\xff\0\0\0\3/bc\0"
        b"\xff\xff\xff\xff\1\xff\xff\xff\xff"
    )


def test_response_with_a_missing_node():
    stat = b"".join(
        number.to_bytes(size) for number, size in zip(STAT, (8, 8, 8, 8, 4, 4, 4, 8, 4, 4, 8), strict=True)
    )
    response = (
        b"\0\0\0\4\0\0\0\0\0"
        + b"\0\0\0\1x"
        + stat
        + b"\xff\xff\xff\xff\0\xff\xff\xff\x9b"
        + b"\xff\xff\xff\x9b"
        + b"\xff\xff\xff\xff\1\xff\xff\xff\xff"
    )
    node, missing = MultiRead.deserialize(b"head" + response, 4)
    assert node == (b"x", STAT)
    assert isinstance(missing, NoNodeError)
