"""Partitions of the network in memory, in both directions and in one."""

import asyncio

import pytest

from odradek.testing.clock import run_virtually
from odradek.testing.entropy import SeededEntropy
from odradek.testing.network import MemoryNetwork

PORT = 9092


class Inbox:
    """Receiver that keeps what it gets."""

    def __init__(self):
        self.data = b""
        self._buffer = bytearray(1024)

    def receive_buffer(self):
        return memoryview(self._buffer)

    def bytes_received(self, count):
        self.data += self._buffer[:count]

    def output_drained(self):
        pass

    def connection_lost(self, reason):
        pass


async def connect(network):
    """Return both ends of a connection from a to b, with their inboxes."""
    accepted = []

    def accept(connection):
        accepted.append((connection, Inbox()))
        return accepted[-1][1]

    await network.host("b").listen("b", PORT, accept)
    inbox = Inbox()
    dialled = await network.host("a").dial("b", PORT, lambda _: inbox, 1000)
    return (dialled, inbox), accepted[0]


def exchanged(inject):
    """Return what a and b receive while a fault lasts, and after it is healed."""

    async def main():
        network = MemoryNetwork(SeededEntropy(1))
        (a, a_inbox), (b, b_inbox) = await connect(network)
        inject(network)
        a.send([b"to b"])
        b.send([b"to a"])
        await asyncio.sleep(1)
        during = a_inbox.data, b_inbox.data
        network.heal()
        await asyncio.sleep(1)
        return during, (a_inbox.data, b_inbox.data)

    return run_virtually(main)


@pytest.mark.parametrize(
    ("inject", "during"),
    [
        (lambda network: None, (b"to a", b"to b")),
        (lambda network: network.partition("a", "b"), (b"", b"")),
        (lambda network: network.block("a", "b"), (b"to a", b"")),
        (lambda network: network.block("b", "a"), (b"", b"to b")),
    ],
)
def test_partition_stops_its_directions_until_it_is_healed(inject, during):
    assert exchanged(inject) == (during, (b"to a", b"to b"))


@pytest.mark.parametrize(("sender", "receiver"), [("a", "b"), ("b", "a")])
def test_no_connection_is_made_while_either_direction_is_blocked(sender, receiver):
    async def main():
        network = MemoryNetwork(SeededEntropy(1))
        await network.host("b").listen("b", PORT, lambda _: Inbox())
        network.block(sender, receiver)
        with pytest.raises(TimeoutError):
            await network.host("a").dial("b", PORT, lambda _: Inbox(), 1000)

    run_virtually(main)


def test_one_direction_of_a_partition_can_end_alone():
    async def main():
        network = MemoryNetwork(SeededEntropy(1))
        (a, a_inbox), (b, b_inbox) = await connect(network)
        network.partition("a", "b")
        a.send([b"to b"])
        b.send([b"to a"])
        network.unblock("a", "b")
        await asyncio.sleep(1)
        assert (a_inbox.data, b_inbox.data) == (b"", b"to b")

    run_virtually(main)
