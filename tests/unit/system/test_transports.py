"""A name with many addresses: a silent one, or one that refuses, does not keep the others from answering."""

from __future__ import annotations

import asyncio
import socket

import pytest

from odradek.system.transports import TransportNetwork


class Resolving(asyncio.SelectorEventLoop):
    """A loop whose names have the addresses that a test wants; connecting to port 1 never ends."""

    def __init__(self, addresses):
        super().__init__()
        self.addresses = addresses

    async def getaddrinfo(self, host, port, **how):
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", one) for one in self.addresses]

    async def sock_connect(self, sock, address):
        if address[1] == 1:
            await asyncio.sleep(3600)
        await super().sock_connect(sock, address)


class Silent:
    """A receiver that expects nothing."""

    def receive_buffer(self):
        return memoryview(bytearray(16))

    def bytes_received(self, count):
        pass

    def output_drained(self):
        pass

    def connection_lost(self, reason):
        pass


def dial(addresses, timeout_ms):
    async def main():
        connection = await TransportNetwork().dial("name", 9092, lambda _: Silent(), timeout_ms)
        connection.close()
        await asyncio.sleep(0)
        return True

    with asyncio.Runner(loop_factory=lambda: Resolving(addresses)) as runner:
        return runner.run(main())


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


@pytest.fixture
def refusing():
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        yield unheard.getsockname()


def test_the_next_address_is_tried_if_one_is_silent(listening):
    assert dial([("127.0.0.1", 1), listening], 200)


def test_the_next_address_is_tried_if_one_refuses(listening, refusing):
    assert dial([refusing, listening], 1000)


def test_if_none_answers_the_first_reason_is_told(refusing):
    with pytest.raises(ConnectionRefusedError):
        dial([refusing, ("127.0.0.1", 1)], 100)
    with pytest.raises(TimeoutError):
        dial([("127.0.0.1", 1)], 100)
