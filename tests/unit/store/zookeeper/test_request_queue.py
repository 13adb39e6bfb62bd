"""The window of requests, and requests without a connection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, NoNodeError

from odradek.store.port import NoNode, SessionExpired, Unavailable
from odradek.store.zookeeper.client import Deliver
from odradek.store.zookeeper.request_queue import RequestQueue


class Server:
    """Requests in the order of their arrival, each with the callback of its response."""

    def __init__(self) -> None:
        self.requests: list[tuple[Any, Deliver]] = []

    def send(self, body: Any, deliver: Deliver) -> None:
        self.requests.append((body, deliver))

    @property
    def bodies(self) -> list[Any]:
        return [body for body, _ in self.requests]

    def respond(self, value: Any = None, exception: Exception | None = None) -> None:
        _, deliver = self.requests.pop(0)
        deliver(value, exception)


def test_window_is_bounded_and_keeps_call_order() -> None:
    async def body() -> None:
        server = Server()
        queue = RequestQueue(server.send, in_flight_max=2, wait_s=100)
        queue.connect()
        futures = [queue.submit(number, "/a") for number in range(5)]
        assert server.bodies == [0, 1]
        server.respond("first")
        assert server.bodies == [1, 2]
        while server.requests:
            server.respond("later")
        assert [future.result() for future in futures] == ["first", *["later"] * 4]

    asyncio.run(body())


def test_nothing_is_sent_without_a_connection() -> None:
    async def body() -> None:
        server = Server()
        queue = RequestQueue(server.send, in_flight_max=2, wait_s=100)
        future = queue.submit(1, "/a")
        assert server.bodies == []
        queue.connect()
        assert server.bodies == [1]
        server.respond(exception=ConnectionLoss())
        assert not queue.is_connected
        queue.disconnect()
        with pytest.raises(Unavailable, match="/a"):
            await future
        queue.submit(2, "/a").cancel()
        queue.submit(3, "/a")
        queue.connect()
        assert server.bodies == [3]  # nobody waits for the second

    asyncio.run(body())


def test_request_without_a_connection_is_given_up() -> None:
    async def body() -> None:
        server = Server()
        queue = RequestQueue(server.send, in_flight_max=1, wait_s=0)
        queue.connect()
        in_flight, waiting = queue.submit(1, "/a"), queue.submit(2, "/b")
        queue.disconnect()
        for future, path in ((in_flight, "/a"), (waiting, "/b")):
            with pytest.raises(Unavailable, match=f"{path}: no connection"):
                await future
        late = queue.submit(3, "/c")
        queue.connect()
        server.respond("too late")
        assert server.bodies == [3]
        server.respond("in time")
        assert await late == "in time"

    asyncio.run(body())


def test_response_is_registered_when_it_arrives() -> None:
    async def body() -> None:
        server = Server()
        queue = RequestQueue(server.send, in_flight_max=9, wait_s=100)
        queue.connect()
        registered: list[Any] = []
        future = queue.submit(1, "/a", registered.append)
        cancelled = queue.submit(2, "/a", registered.append)
        failed = queue.submit(3, "/a", registered.append)
        cancelled.cancel()
        server.respond("value")
        assert registered == ["value"]
        server.respond("nobody waits")
        server.respond(exception=NoNodeError())
        assert registered == ["value"]
        assert await future == "value"
        with pytest.raises(NoNode):
            await failed

    asyncio.run(body())


def test_end_fails_all_requests() -> None:
    async def body() -> None:
        server = Server()
        queue = RequestQueue(server.send, in_flight_max=1, wait_s=100)
        queue.connect()
        futures = [queue.submit(number, "/a") for number in range(3)]
        queue.end(SessionExpired(detail="session 1"))
        server.respond(exception=ConnectionLoss())  # comes after the news of the end
        for future in futures:
            with pytest.raises(SessionExpired, match="session 1"):
                await future
        assert server.bodies == []

    asyncio.run(body())


def test_response_given_twice_counts_once() -> None:
    async def body() -> None:
        server = Server()
        queue = RequestQueue(server.send, in_flight_max=1, wait_s=100)
        queue.connect()
        future = queue.submit(1, "/a")
        queue.submit(2, "/a")
        _, deliver = server.requests[0]
        server.respond("value")
        deliver(None, ConnectionLoss())
        assert await future == "value"
        assert server.bodies == [2]

    asyncio.run(body())
