"""The controller on an embedded store: events, write conflicts, retries, resignation."""

import asyncio

import pytest
from tests.unit.controller.controller_fixture import ORDERS, assignment, registration

from odradek.controller.actions import (
    SendLeaderAndIsr,
)
from odradek.controller.controller import RETRY_WAITS_MS
from odradek.controller.machine import turns
from odradek.model.ids import TopicPartition
from odradek.store.broker_registration import register_broker
from odradek.store.controller_election import elect
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import (
    LeaderIsrAndControllerEpoch,
    encode_partition_state,
)
from odradek.store.partition_states import read_partition_states
from odradek.store.port import Unavailable
from odradek.store.topics import create_topic, mark_for_deletion, read_topics, write_assignment


def test_controller_elects_leaders_of_existing_and_new_topics(run_scenario):
    async def scenario(fixture):
        await create_topic(fixture.store, "orders", assignment(), {})
        await fixture.start()
        assert fixture.channel.partition_states[ORDERS].leader == 1
        await create_topic(fixture.store, "later", assignment(2), {})
        await fixture.run_loop()
        assert {
            TopicPartition("later", 0),
            TopicPartition("later", 1),
        } <= fixture.channel.partition_states.keys()
        states = await read_partition_states(fixture.store, [TopicPartition("later", 1)])
        assert states[TopicPartition("later", 1)].leader_and_isr.leader == 1

    run_scenario(scenario)


def test_added_partitions_come_online(run_scenario):
    async def scenario(fixture):
        await create_topic(fixture.store, "orders", assignment(), {})
        await fixture.start()
        for count in (2, 3, 5):
            await write_assignment(fixture.store, "orders", assignment(count))
            await fixture.run_loop()
            assert len(fixture.channel.partition_states) == count

    run_scenario(scenario)


@pytest.mark.parametrize("count", [turns.TURN_PARTITIONS - 1, turns.TURN_PARTITIONS])
def test_event_of_many_partitions_gives_others_a_turn(run_scenario, monkeypatch, count):
    async def scenario(fixture):
        turns_given = []
        sleep = asyncio.sleep

        async def note_turn(seconds):
            turns_given.append(seconds)
            await sleep(seconds)

        await fixture.start()
        await create_topic(fixture.store, "orders", assignment(count), {})
        monkeypatch.setattr("odradek.controller.controller.asyncio.sleep", note_turn)
        await fixture.controller.settle()
        for _ in range(200):
            await sleep(0)
        assert len(fixture.channel.partition_states) == count
        assert bool(turns_given) == (count == turns.TURN_PARTITIONS)

    run_scenario(scenario)


def test_topic_marked_for_deletion_is_deleted(run_scenario):
    async def scenario(fixture):
        await create_topic(fixture.store, "orders", assignment(2), {"retention.ms": "1"})
        await fixture.start()
        await mark_for_deletion(fixture.store, "orders")
        await fixture.run_loop()
        assert len(fixture.channel.stopped) == 2
        assert fixture.channel.deleted_topics == {"orders"}
        assert await read_topics(fixture.store) == {}
        assert await fixture.store.exists(znode_paths.delete_topic("orders")) is None
        await create_topic(fixture.store, "orders", assignment(), {})
        fixture.channel.partition_states.clear()
        await fixture.run_loop()
        assert ORDERS in fixture.channel.partition_states, "the recreated topic has a leader"

    run_scenario(scenario)


def test_deletion_mark_of_unknown_topic_is_removed(run_scenario):
    async def scenario(fixture):
        await fixture.start()
        await mark_for_deletion(fixture.store, "ghost")
        await fixture.run_loop()
        assert await fixture.store.exists(znode_paths.delete_topic("ghost")) is None

    run_scenario(scenario)


def test_unfinished_deletion_resumes_at_startup(run_scenario):
    async def scenario(fixture):
        await create_topic(fixture.store, "orders", assignment(), {})
        await mark_for_deletion(fixture.store, "orders")
        await fixture.start()
        assert await read_topics(fixture.store) == {}

    run_scenario(scenario)


def test_concurrently_written_partition_state_is_adopted(run_scenario):
    async def scenario(fixture):
        await create_topic(fixture.store, "orders", assignment(replicas=(1, 2)), {})
        existing = LeaderIsrAndControllerEpoch(1, 7, (1,), 0)

        class ConflictingStore:
            """A store in which another writer always creates partition states first."""

            def __getattr__(self, name):
                return getattr(fixture.store, name)

            async def multi(self, ops):
                if any(getattr(op, "path", "") == znode_paths.partition_state(ORDERS) for op in ops):
                    await fixture.store.ensure_path(znode_paths.partition(ORDERS))
                    if await fixture.store.exists(znode_paths.partition_state(ORDERS)) is None:
                        path = znode_paths.partition_state(ORDERS)
                        await fixture.store.create(path, encode_partition_state(existing))
                return await fixture.store.multi(ops)

        fixture.controller = fixture.make_controller(ConflictingStore())
        await fixture.start()
        assert fixture.channel.partition_states[ORDERS].leader_epoch == 7

    run_scenario(scenario)


def test_replaced_controller_stops_writing(run_scenario):
    async def scenario(fixture):
        await fixture.start()
        await fixture.store.delete(znode_paths.CONTROLLER)
        assert await elect(fixture.ensemble.connect(), 2, 0) is not None
        await create_topic(fixture.store, "orders", assignment(), {})
        await fixture.run_loop()
        assert fixture.channel.partition_states == {}
        assert await read_partition_states(fixture.store, [ORDERS]) == {}
        assert fixture.controller._task.done()

    run_scenario(scenario)


def test_broker_failure_and_return_change_leaders(run_scenario):
    async def scenario(fixture):
        await create_topic(fixture.store, "orders", assignment(replicas=(2, 1)), {})
        other = fixture.ensemble.connect()
        await register_broker(other, 2, registration(9093))
        await fixture.start()
        assert fixture.channel.partition_states[ORDERS].leader == 2
        await fixture.ensemble.expire(other.session_id)
        await fixture.run_loop()
        assert fixture.channel.partition_states[ORDERS].leader == 1
        assert fixture.channel.partition_states[ORDERS].leader_epoch == 1
        assert set(fixture.channel.metadata_updates[-1].brokers) == {1}
        await register_broker(fixture.ensemble.connect(), 2, registration(9093))
        await fixture.run_loop()
        assert set(fixture.channel.metadata_updates[-1].brokers) == {1, 2}

    run_scenario(scenario)


class FailingStore:
    """A store that fails some writes of partition states."""

    def __init__(self, store, failures):
        self._store = store
        self._left = failures

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def multi(self, ops):
        if self._left and any(getattr(op, "path", "") == znode_paths.partition_state(ORDERS) for op in ops):
            self._left -= 1
            raise Unavailable("the store", "cannot be written: disk full")
        return await self._store.multi(ops)


@pytest.mark.parametrize("failures", [1, 3, len(RETRY_WAITS_MS)])
def test_unavailable_store_is_retried(run_scenario, failures):
    async def scenario(fixture):
        failing_store = FailingStore(fixture.store, failures)
        fixture.controller = fixture.make_controller(failing_store)
        await fixture.start()
        await create_topic(fixture.store, "orders", assignment(), {})
        await fixture.clock.sleep_ms(sum(RETRY_WAITS_MS) + 1000)
        assert fixture.channel.partition_states[ORDERS].leader == 1
        assert ORDERS in await read_partition_states(fixture.store, [ORDERS])

    run_scenario(scenario)


def test_controller_fails_after_the_last_retry(run_scenario):
    async def scenario(fixture):
        failing_store = FailingStore(fixture.store, len(RETRY_WAITS_MS) + 1)
        fixture.controller = fixture.make_controller(failing_store)
        failures = []
        fixture.controller.on_failed = lambda: failures.append(1)
        await fixture.start()
        await create_topic(fixture.store, "orders", assignment(), {})
        await fixture.clock.sleep_ms(sum(RETRY_WAITS_MS) + 1000)
        assert failures == [1]
        assert ORDERS not in fixture.channel.partition_states
        # It is ahead of the store: another one reads all state.
        await create_topic(fixture.store, "others", assignment(), {})
        await fixture.clock.sleep_ms(1000)
        assert TopicPartition("others", 0) not in fixture.channel.partition_states
        await fixture.controller.stop()
        fixture.controller = fixture.make_controller(failing_store)
        await fixture.start()
        assert {ORDERS, TopicPartition("others", 0)} <= fixture.channel.partition_states.keys()

    run_scenario(scenario)


def test_controller_survives_a_store_error(run_scenario):
    async def scenario(fixture):
        await fixture.start()
        await fixture.store.create(znode_paths.topic("damaged"), b"no json")
        await fixture.run_loop()
        assert not fixture.controller._task.done()
        await fixture.store.delete(znode_paths.topic("damaged"))
        await fixture.run_loop()
        await create_topic(fixture.store, "orders", assignment(), {})
        await fixture.run_loop()
        assert ORDERS in fixture.channel.partition_states

    run_scenario(scenario)


def test_request_that_fails_for_good_ends_the_controller(run_scenario):
    async def scenario(fixture):
        failures = []
        fixture.controller.on_failed = lambda: failures.append(1)
        await fixture.start()

        send = fixture.channel.send

        async def crash(request):
            if isinstance(request, SendLeaderAndIsr):
                raise ZeroDivisionError
            return await send(request)

        fixture.channel.send = crash
        await create_topic(fixture.store, "orders", assignment(), {})
        await fixture.run_loop()
        assert failures == [1]
        updates = len(fixture.channel.metadata_updates)
        await create_topic(fixture.store, "others", assignment(), {})
        await fixture.run_loop()
        assert len(fixture.channel.metadata_updates) == updates, "nothing is sent after a failure"
        with pytest.raises(ZeroDivisionError):
            await fixture.controller.settle()

    run_scenario(scenario)


def test_resigned_controller_handles_no_more_events(run_scenario):
    async def scenario(fixture):
        await fixture.start()
        await create_topic(fixture.store, "orders", assignment(), {})
        fixture.controller.resign()
        await fixture.run_loop()
        assert fixture.channel.partition_states == {}
        assert await read_partition_states(fixture.store, [ORDERS]) == {}

    run_scenario(scenario)
