"""Polls that end before the steps they started: timeouts, wakeups, cancellation, slow listeners."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.simulation.consumer_fixture import ConsumerFixture, play, read_some, values_of

from odradek.client.blocking.loop_thread import LoopThread, on_caller
from odradek.client.consumer.consumer import Consumer
from odradek.client.consumer.poller import Poller
from odradek.client.values import OffsetAndMetadata
from odradek.model.client_errors import WakeupError
from odradek.model.ids import TopicPartition
from odradek.wire.messages.delete_topics import DeleteTopicsRequest

A0 = TopicPartition("a", 0)
DELETE_TOPICS = 20
RECORDS = 50
BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
}


def member(fixture: ConsumerFixture, **options: Any) -> Consumer:
    return fixture.consumer(**{"group_id": "g", "auto_offset_reset": "earliest", **options})


def test_committed_offsets_are_fetched_again_after_reassignment() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"0", b"1", b"2")
        reader, other = member(fixture), member(fixture)
        reader.assign([A0])
        assert await reader.poll(0) == []
        await asyncio.sleep(5)  # the request was in flight, and nothing is committed yet
        await reader.unsubscribe()
        other.assign([A0])
        await other.commit({A0: 2})
        reader.assign([A0])
        assert values_of(await reader.poll(10)) == [b"2"]

    play(scenario, BROKER)


class SlowListener:
    """Sleeps for ``delay_s`` when partitions are assigned."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.is_called = asyncio.Event()

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None: ...

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.is_called.set()
        await asyncio.sleep(self.delay_s)


async def reader_with_slow_listener(
    fixture: ConsumerFixture, **options: Any
) -> tuple[Consumer, SlowListener]:
    """Return a member that has read one record of fifty, and whose listener is about to be called."""
    await fixture.create("a")
    await fixture.write(A0, *(b"%d" % number for number in range(RECORDS)))
    strategy = "cooperative-sticky"
    reader = member(fixture, partition_assignment_strategy=strategy, max_poll_records=1, **options)
    listener = SlowListener()
    reader.subscribe(["a"], listener=listener)
    assert values_of(await reader.poll(10)) == [b"0"]
    listener.is_called.clear()
    reader.enforce_rebalance("call the listener")
    await asyncio.sleep(1)
    return reader, listener


def test_outcome_of_earlier_poll_is_not_reused() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        reader, listener = await reader_with_slow_listener(
            fixture, max_poll_interval_ms=20_000, session_timeout_ms=10_000, enable_auto_commit=False
        )
        listener.delay_s = 1.0
        while not listener.is_called.is_set():
            await reader.poll(0.3)
            await asyncio.sleep(0.1)
        await asyncio.sleep(60)
        # The member has been expired from its group.
        other = member(fixture)
        other.subscribe(["a"])
        assert len(await read_some(other, RECORDS)) == RECORDS
        await other.close()
        listener.delay_s = 0.0
        assert await reader.poll(10) == []

    play(scenario, BROKER)


def test_unfinished_poll_does_not_commit_returned_records() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        reader, listener = await reader_with_slow_listener(fixture, auto_commit_interval_ms=1500)
        listener.delay_s = 3.0
        while not listener.is_called.is_set():
            await asyncio.sleep(0.1)
            records = await reader.poll(0.3)
        await asyncio.sleep(10)  # the application processes the records, and may fail
        watcher = member(fixture)
        committed = (await watcher.committed(A0))[A0]
        first_returned = int(records[0].value or b"") if records else RECORDS
        assert committed is not None
        assert committed.offset <= first_returned

    play(scenario, BROKER)


def test_unsubscribe_during_join_does_not_rejoin() -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.write(A0, b"0")
        reader = member(fixture, heartbeat_interval_ms=3000)
        reader.subscribe(["a"])
        poll = asyncio.create_task(reader.poll(10))
        await asyncio.sleep(1)  # waits for the initial rebalance delay
        reader.wakeup()
        with pytest.raises(WakeupError):
            await poll
        await reader.unsubscribe()
        await asyncio.sleep(20)
        assert reader.group_metadata().generation_id == -1
        reader.assign([A0])
        assert values_of(await reader.poll(10)) == [b"0"]

    play(scenario, {**BROKER, "group.initial.rebalance.delay.ms": "3000"})


@pytest.mark.parametrize("trigger", ["rebalance", "close"])
def test_deleted_topic_does_not_delay_last_commit(trigger: str) -> None:
    async def scenario(fixture: ConsumerFixture) -> None:
        await fixture.create("a")
        await fixture.create("b")
        b0 = TopicPartition("b", 0)
        for partition in (A0, b0):
            await fixture.write(partition, b"0")
        reader = member(fixture, auto_commit_interval_ms=3_600_000, allow_auto_create_topics=False)
        reader.subscribe(["a", "b"])
        assert len(await read_some(reader, 2, 10)) == 2
        response = await fixture.ask(
            DELETE_TOPICS, 4, DeleteTopicsRequest(topic_names=["a"], timeout_ms=5000)
        )
        assert response.responses[0].error_code == 0
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        if trigger == "close":
            await reader.close()
        else:
            reader.enforce_rebalance("topic deleted")
            await fixture.write(b0, b"1")
            await asyncio.sleep(1)
            assert values_of(await reader.poll(60)) == [b"1"]
        assert loop.time() - began_s < 5
        assert await member(fixture).committed(b0) == {b0: OffsetAndMetadata(1, "", 0)}

    play(scenario, BROKER)


def test_callback_scheduled_at_end_of_poll_runs_in_next_call() -> None:
    """The poll ends after the callback is scheduled and before it starts."""
    unused: Any = None
    poller = Poller(
        unused, unused, unused, unused, unused, unused, unused, on_caller=on_caller, retry_backoff_ms=100
    )
    calling: list[asyncio.Task[Any]] = []

    async def poll_that_ends_first() -> None:
        with poller.inside_call():
            callback = poller.call_back(threading.get_ident)
            calling.append(asyncio.get_running_loop().create_task(callback))
            await asyncio.sleep(0)

    async def next_poll() -> Any:
        with poller.inside_call():
            return await asyncio.wait_for(calling[0], 10)

    thread = LoopThread("consumer-1")
    try:
        thread.call(poll_that_ends_first)
        assert thread.call(next_poll) == threading.get_ident()
    finally:
        thread.close()
