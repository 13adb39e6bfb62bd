"""Clients that leave in mid-request, stall or send garbage: others are served, nothing is kept of them."""

import asyncio

import pytest

from odradek.testing.entropy import SeededEntropy
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.metadata import MetadataRequest
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

STEPS = 60


def begin(town, client, chance, make_batch):
    """One request of some kind; its answer may never come."""
    match chance.below(4):
        case 0:
            task = client.begin(3, 12, MetadataRequest(None))
        case 1:
            wait_ms = chance.below(2000)
            task = client.begin(1, 17, town.fetch_request("orders", max_wait_ms=wait_ms, min_bytes=1 << 20))
        case 2:
            wish = CreatableTopic(f"t{chance.below(10)}", 1, 1)
            task = client.begin(19, 7, CreateTopicsRequest([wish], 1000))
        case _:
            data = TopicProduceData(
                "orders", [PartitionProduceData(0, make_batch(bytes(chance.below(5000))))]
            )
            task = client.begin(0, 11, ProduceRequest(None, -1, 1000, [data]))
    task.add_done_callback(lambda done: done.cancelled() or done.exception())


def misbehave(client, chance):
    match chance.below(6):
        case 0:
            client.close()
        case 1:
            client.connection.reset()
        case 2:
            client.send_bytes(b"\x00\x00\x00\x05junk!")
        case 3:
            client.connection.pause()
        case 4:
            client.connection.hold()
        case _:
            client.send_bytes(b"\x00\x00\x03\xe8half a frame")


@pytest.mark.parametrize("seed", range(15))
def test_nothing_of_them_is_left(play, seed, make_batch):
    async def scenario(town):
        await town.create("orders")
        chance = SeededEntropy(seed)
        clients, everyone = [], []
        for _ in range(STEPS):
            if len(clients) < 3 or chance.below(4) == 0:
                clients.append(await town.memory.connect())
                everyone.append(clients[-1])
            client = clients[chance.below(len(clients))]
            for _ in range(chance.below(6)):
                begin(town, client, chance, make_batch)
            if chance.below(5) == 0:
                misbehave(client, chance)
                clients.remove(client)
            clients = [one for one in clients if one.is_open]
            await asyncio.sleep(chance.below(200) / 1000)
        well = await town.memory.connect()
        assert (await well.request(3, 12, MetadataRequest(None))).topics
        for client in everyone:
            if client.is_open:
                client.connection.reset()
        await asyncio.sleep(30)
        broker = town.broker
        assert broker._listening._limits.total == 2, "the well-behaved one, and the town's own"
        assert all(session.under_way == 0 for listener in broker._listening for session in listener.sessions)
        assert broker._replicas._fetches.delayed == 0
        assert not broker._dispatcher._tasks
        assert not broker._queue.is_full

    play(scenario, seed=seed, delay_max_ms=10, splits=True)
