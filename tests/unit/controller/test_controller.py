"""The controller at work on a store: what it follows, lost races, and stepping down when replaced."""

import asyncio

import pytest

from odradek.controller.actions import SendLeaderAndIsr, SendUpdateMetadata
from odradek.controller.controller import RETRY_WAITS_MS, Controller
from odradek.model.ids import TopicPartition
from odradek.store import znode_paths
from odradek.store.broker_registration import register_broker
from odradek.store.controller_election import elect
from odradek.store.embedded.database import MEMORY
from odradek.store.embedded.ensemble import EmbeddedEnsemble
from odradek.store.partition_states import read_partition_states
from odradek.store.port import Unavailable
from odradek.store.topics import create_topic, mark_for_deletion, read_topics, write_assignment
from odradek.store.znodes import (
    BrokerRegistration,
    LeaderIsrAndControllerEpoch,
    RegisteredEndpoint,
    ReplicaAssignment,
    TopicAssignment,
    encode_partition_state,
)
from odradek.testing.clock import VirtualClock, run_virtually

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = b"o" * 16


class Channel:
    """Keeps what brokers are told."""

    def __init__(self):
        self.partition_states = {}
        self.news = []
        self.gone = set()
        self.stopped = []

    async def leader_and_isr(self, order: SendLeaderAndIsr) -> None:
        self.partition_states.update(order.partition_states)

    async def update_metadata(self, news: SendUpdateMetadata) -> None:
        self.news.append(news)
        self.gone |= news.deleted_topics

    async def stop_replica(self, order):
        self.stopped += order.partitions
        return order.partitions


def assignment(partitions=1, replicas=(1,)):
    return TopicAssignment(TOPIC_ID, {number: ReplicaAssignment(replicas) for number in range(partitions)})


def registration(port=9092):
    return BrokerRegistration((RegisteredEndpoint("PLAINTEXT", "PLAINTEXT", "h", port),), 0)


class Office:
    def __init__(self, ensemble, clock):
        self.ensemble = ensemble
        self.clock = clock
        self.store = ensemble.connect()
        self.channel = Channel()
        self.controller = None

    async def open(self):
        await self.store.ensure_path(znode_paths.BROKER_IDS)
        await register_broker(self.store, 1, registration())
        self.fence = await elect(self.store, 1, 0)
        self.controller = Controller(self.store, self.fence, self.channel, self.clock.sleep_ms)

    async def settle(self):
        for _ in range(200):
            await asyncio.sleep(0)


@pytest.fixture
def play():
    def run(scenario):
        async def main():
            clock = VirtualClock(asyncio.get_running_loop())
            ensemble = EmbeddedEnsemble(MEMORY, clock)
            office = Office(ensemble, clock)
            try:
                await office.open()
                await scenario(office)
            finally:
                await office.controller.stop()
                await ensemble.close()

        run_virtually(main)

    return run


def test_controller_elects_leaders_of_existing_and_new_topics(play):
    async def scenario(office):
        await create_topic(office.store, "orders", assignment(), {})
        await office.controller.start()
        assert office.channel.partition_states[ORDERS].leader == 1
        await create_topic(office.store, "later", assignment(2), {})
        await office.settle()
        assert {
            TopicPartition("later", 0),
            TopicPartition("later", 1),
        } <= office.channel.partition_states.keys()
        states = await read_partition_states(office.store, [TopicPartition("later", 1)])
        assert states[TopicPartition("later", 1)].state.leader == 1

    play(scenario)


def test_added_partitions_come_online(play):
    async def scenario(office):
        await create_topic(office.store, "orders", assignment(), {})
        await office.controller.start()
        for count in (2, 3, 5):
            await write_assignment(office.store, "orders", assignment(count))
            await office.settle()
            assert len(office.channel.partition_states) == count

    play(scenario)


def test_topic_marked_for_deletion_is_deleted(play):
    async def scenario(office):
        await create_topic(office.store, "orders", assignment(2), {"retention.ms": "1"})
        await office.controller.start()
        await mark_for_deletion(office.store, "orders")
        await office.settle()
        assert len(office.channel.stopped) == 2
        assert office.channel.gone == {"orders"}
        assert await read_topics(office.store) == {}
        assert await office.store.exists(znode_paths.delete_topic("orders")) is None
        await create_topic(office.store, "orders", assignment(), {})
        office.channel.partition_states.clear()
        await office.settle()
        assert ORDERS in office.channel.partition_states, "made again, it is led again"

    play(scenario)


def test_deletion_mark_of_unknown_topic_is_removed(play):
    async def scenario(office):
        await office.controller.start()
        await mark_for_deletion(office.store, "ghost")
        await office.settle()
        assert await office.store.exists(znode_paths.delete_topic("ghost")) is None

    play(scenario)


def test_unfinished_deletion_resumes_at_startup(play):
    async def scenario(office):
        await create_topic(office.store, "orders", assignment(), {})
        await mark_for_deletion(office.store, "orders")
        await office.controller.start()
        assert await read_topics(office.store) == {}

    play(scenario)


def test_concurrently_written_partition_state_is_adopted(play):
    async def scenario(office):
        await create_topic(office.store, "orders", assignment(replicas=(1, 2)), {})
        found = LeaderIsrAndControllerEpoch(1, 7, (1,), 0)

        class Racing:
            """A store in which somebody is always a little quicker with partition states."""

            def __getattr__(self, name):
                return getattr(office.store, name)

            async def multi(self, ops):
                if any(getattr(op, "path", "") == znode_paths.partition_state(ORDERS) for op in ops):
                    await office.store.ensure_path(znode_paths.partition(ORDERS))
                    if await office.store.exists(znode_paths.partition_state(ORDERS)) is None:
                        path = znode_paths.partition_state(ORDERS)
                        await office.store.create(path, encode_partition_state(found))
                return await office.store.multi(ops)

        office.controller = Controller(Racing(), office.fence, office.channel, office.clock.sleep_ms)
        await office.controller.start()
        assert office.channel.partition_states[ORDERS].leader_epoch == 7

    play(scenario)


def test_replaced_controller_stops_writing(play):
    async def scenario(office):
        await office.controller.start()
        await office.store.delete(znode_paths.CONTROLLER)
        assert await elect(office.ensemble.connect(), 2, 0) is not None
        await create_topic(office.store, "orders", assignment(), {})
        await office.settle()
        assert office.channel.partition_states == {}
        assert await read_partition_states(office.store, [ORDERS]) == {}
        assert office.controller._task.done()

    play(scenario)


def test_broker_failure_and_return_change_leaders(play):
    async def scenario(office):
        await create_topic(office.store, "orders", assignment(replicas=(2, 1)), {})
        other = office.ensemble.connect()
        await register_broker(other, 2, registration(9093))
        await office.controller.start()
        assert office.channel.partition_states[ORDERS].leader == 2
        await office.ensemble.expire(other.session_id)
        await office.settle()
        assert office.channel.partition_states[ORDERS].leader == 1
        assert office.channel.partition_states[ORDERS].leader_epoch == 1
        assert set(office.channel.news[-1].brokers) == {1}
        await register_broker(office.ensemble.connect(), 2, registration(9093))
        await office.settle()
        assert set(office.channel.news[-1].brokers) == {1, 2}

    play(scenario)


class Failing:
    """A store that cannot write partition states for a while."""

    def __init__(self, store, times):
        self._store = store
        self._left = times

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def multi(self, ops):
        if self._left and any(getattr(op, "path", "") == znode_paths.partition_state(ORDERS) for op in ops):
            self._left -= 1
            raise Unavailable("the store", "cannot be written: disk full")
        return await self._store.multi(ops)


@pytest.mark.parametrize("times", [1, 3, len(RETRY_WAITS_MS)])
def test_unavailable_store_is_retried(play, times):
    async def scenario(office):
        failing = Failing(office.store, times)
        office.controller = Controller(failing, office.fence, office.channel, office.clock.sleep_ms)
        await office.controller.start()
        await create_topic(office.store, "orders", assignment(), {})
        await office.clock.sleep_ms(sum(RETRY_WAITS_MS) + 1000)
        assert office.channel.partition_states[ORDERS].leader == 1
        assert ORDERS in await read_partition_states(office.store, [ORDERS])

    play(scenario)


def test_event_is_dropped_after_the_last_retry(play):
    async def scenario(office):
        failing = Failing(office.store, len(RETRY_WAITS_MS) + 1)
        office.controller = Controller(failing, office.fence, office.channel, office.clock.sleep_ms)
        await office.controller.start()
        await create_topic(office.store, "orders", assignment(), {})
        await office.clock.sleep_ms(sum(RETRY_WAITS_MS) + 1000)
        assert ORDERS not in office.channel.partition_states
        await create_topic(office.store, "others", assignment(), {})
        await office.clock.sleep_ms(1000)
        assert TopicPartition("others", 0) in office.channel.partition_states

    play(scenario)


def test_controller_survives_a_store_error(play):
    async def scenario(office):
        await office.controller.start()
        await office.store.create(znode_paths.topic("damaged"), b"no json")
        await office.settle()
        assert not office.controller._task.done()
        await office.store.delete(znode_paths.topic("damaged"))
        await office.settle()
        await create_topic(office.store, "orders", assignment(), {})
        await office.settle()
        assert ORDERS in office.channel.partition_states

    play(scenario)


def test_controller_survives_a_channel_error(play):
    async def scenario(office):
        await office.controller.start()
        tell, calls = office.channel.leader_and_isr, []

        async def broken(order):
            calls.append(order)
            if len(calls) == 1:
                raise ZeroDivisionError
            await tell(order)

        office.channel.leader_and_isr = broken
        await create_topic(office.store, "first", assignment(), {})
        await office.settle()
        assert not office.controller._task.done()
        await create_topic(office.store, "orders", assignment(), {})
        await office.settle()
        assert ORDERS in office.channel.partition_states

    play(scenario)
