"""Clients that disconnect mid-request, stall or send garbage."""

import asyncio
from typing import Any

import pytest

from odradek.testing.entropy import SeededEntropy
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.metadata import MetadataRequest
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

STEPS = 60


def begin(harness, client, randomness, make_batch):
    """Send a random request; its response may never come."""
    match randomness.below(4):
        case 0:
            task = client.send(3, 12, MetadataRequest(None))
        case 1:
            wait_ms = randomness.below(2000)
            task = client.send(1, 17, harness.fetch_request("orders", max_wait_ms=wait_ms, min_bytes=1 << 20))
        case 2:
            request = CreatableTopic(f"t{randomness.below(10)}", 1, 1)
            task = client.send(19, 7, CreateTopicsRequest([request], 1000))
        case _:
            data = TopicProduceData(
                "orders", [PartitionProduceData(0, make_batch(bytes(randomness.below(5000))))]
            )
            task = client.send(0, 11, ProduceRequest(None, -1, 1000, [data]))
    task.add_done_callback(lambda done: done.cancelled() or done.exception())


def misbehave(client, randomness):
    match randomness.below(6):
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
def test_misbehaving_clients_leave_no_state(run_scenario, seed, make_batch):
    async def scenario(harness):
        await harness.create("orders")
        randomness = SeededEntropy(seed)
        clients: list[Any] = []
        everyone: list[Any] = []
        for _ in range(STEPS):
            if len(clients) < 3 or randomness.below(4) == 0:
                clients.append(await harness.memory_broker.connect())
                everyone.append(clients[-1])
            client = clients[randomness.below(len(clients))]
            for _ in range(randomness.below(6)):
                begin(harness, client, randomness, make_batch)
            if randomness.below(5) == 0:
                misbehave(client, randomness)
                clients.remove(client)
            clients = [client for client in clients if client.is_open]
            await asyncio.sleep(randomness.below(200) / 1000)
        well = await harness.memory_broker.connect()
        assert (await well.request(3, 12, MetadataRequest(None))).topics
        for client in everyone:
            if client.is_open:
                client.connection.reset()
        await asyncio.sleep(30)
        broker = harness.broker
        assert broker._socket_server._quotas.total == 2, "the well-behaved client and the harness's own"
        assert all(
            session.in_flight == 0 for listener in broker._socket_server for session in listener.sessions
        )
        assert broker._replica_manager._fetches.delayed == 0
        assert not broker._dispatcher._tasks
        assert not broker._request_queue.is_full

    run_scenario(scenario, seed=seed, delay_max_ms=10, splits=True)
