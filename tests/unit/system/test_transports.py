"""Client connections: multiple addresses, receive buffers."""

from __future__ import annotations

import asyncio
import socket

import pytest

from odradek.system.transports import TransportNetwork


class Resolving(asyncio.SelectorEventLoop):
    """A loop with fixed host addresses; connecting to port 1 never completes."""

    def __init__(self, addresses):
        super().__init__()
        self.addresses = addresses

    async def getaddrinfo(self, host, port, **how):
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", address) for address in self.addresses]

    async def sock_connect(self, sock, address):
        if address[1] == 1:
            await asyncio.sleep(3600)
        await super().sock_connect(sock, address)


class Silent:
    """A receiver that expects no data."""

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


def test_next_address_is_tried_after_a_timeout(listening):
    assert dial([("127.0.0.1", 1), listening], 200)


def test_next_address_is_tried_after_a_refusal(listening, refusing):
    assert dial([refusing, listening], 1000)


def test_first_error_is_raised_if_all_addresses_fail(refusing):
    with pytest.raises(ConnectionRefusedError):
        dial([refusing, ("127.0.0.1", 1)], 100)
    with pytest.raises(TimeoutError):
        dial([("127.0.0.1", 1)], 100)


def received_by(listening, asked_bytes):
    """Return the receive buffer size of a connection."""

    async def main():
        network = TransportNetwork(receive_buffer_bytes=asked_bytes)
        connection = await network.dial("name", 9092, lambda _: Silent(), 1000)
        assert connection._transport is not None
        sock = connection._transport.get_extra_info("socket")
        size = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        connection.close()
        await asyncio.sleep(0)
        return size

    with asyncio.Runner(loop_factory=lambda: Resolving([listening])) as runner:
        return runner.run(main())


def test_receive_buffer_is_only_enlarged(listening):
    with socket.socket() as sock:
        given_bytes = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2 * given_bytes)
        larger_bytes = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    assert received_by(listening, 4096) >= given_bytes
    assert received_by(listening, -1) >= given_bytes
    assert received_by(listening, 2 * given_bytes) >= larger_bytes > given_bytes
