"""Queues of the controller to brokers: order, retries, broker epochs, failures."""

from __future__ import annotations

import asyncio

import pytest

from odradek.controller import channels
from odradek.controller.actions import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata, StopReplicaState
from odradek.controller.channels import ControllerChannels
from odradek.controller.events import ControllerEvent, ReplicasDeleted, ReplicasOffline
from odradek.model.client_errors import ConnectionFailed
from odradek.model.ids import TopicPartition
from odradek.testing.clock import VirtualClock, run_virtually

ORDERS = TopicPartition("orders", 0)
EPOCH = 7


class FakeChannel:
    """A broker that records requests. ``is_down`` fails them, ``gate`` delays responses until it is set."""

    def __init__(self, broker_id):
        self.broker_id = broker_id
        self.received = []
        self.is_down = False
        self.error = None
        self.offline = ()
        self.gate = asyncio.Event()
        self.gate.set()

    async def _accept(self, request):
        if self.is_down:
            raise ConnectionFailed(f"broker {self.broker_id} is down")
        if self.error is not None:
            raise self.error
        self.received.append(request)
        await self.gate.wait()

    async def leader_and_isr(self, request):
        await self._accept(request)
        return self.offline

    async def update_metadata(self, request):
        await self._accept(request)

    async def stop_replica(self, request):
        await self._accept(request)
        return tuple(request.partitions)


class Fixture:
    def __init__(self):
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.brokers = {}
        self.opened = []
        self.events: list[ControllerEvent] = []
        self.failures: list[Exception] = []
        self.channels = ControllerChannels(
            self.open, self.clock.sleep_ms, self.events.append, self.failures.append
        )

    def open(self, broker_id):
        self.opened.append(broker_id)
        return self.brokers.setdefault(broker_id, FakeChannel(broker_id))

    async def settle(self):
        for _ in range(50):
            await asyncio.sleep(0)


def leader_and_isr(number=0, broker_id=1):
    return SendLeaderAndIsr(broker_id, number, {})


def update_metadata(number=0):
    return SendUpdateMetadata((1, 2), number, {}, {})


def stop_replica(number=0, broker_id=1):
    return SendStopReplica(broker_id, number, {ORDERS: StopReplicaState(-2, True)})


@pytest.fixture
def run_scenario():
    def run(scenario):
        async def main():
            fixture = Fixture()
            try:
                await scenario(fixture)
            finally:
                fixture.channels.close()
                await fixture.channels.wait_closed()

        run_virtually(main)

    return run


def test_requests_to_a_broker_keep_their_order(run_scenario):
    async def scenario(fixture):
        fixture.channels.set_brokers({1: EPOCH})
        fixture.brokers[1].is_down = True
        requests = [leader_and_isr(1), update_metadata(2), stop_replica(3), leader_and_isr(4)]
        for request in requests:
            fixture.channels.send(1, request)
        await fixture.clock.sleep_ms(1_000)
        assert fixture.brokers[1].received == []
        fixture.brokers[1].is_down = False
        await fixture.channels.drain()
        assert fixture.brokers[1].received == requests
        assert fixture.failures == []

    run_scenario(scenario)


def test_responses_come_back_as_events(run_scenario):
    async def scenario(fixture):
        fixture.channels.set_brokers({1: EPOCH})
        fixture.channels.send(1, leader_and_isr())
        fixture.channels.send(1, stop_replica())
        fixture.brokers[1].offline = (ORDERS,)
        await fixture.channels.drain()
        assert fixture.events == [ReplicasOffline(1, (ORDERS,)), ReplicasDeleted(1, (ORDERS,))]

    run_scenario(scenario)


def test_slow_broker_does_not_hold_up_another(run_scenario):
    async def scenario(fixture):
        fixture.channels.set_brokers({1: EPOCH, 2: EPOCH})
        fixture.brokers[1].gate.clear()
        for broker_id in (1, 2):
            fixture.channels.send(broker_id, update_metadata())
            fixture.channels.send(broker_id, update_metadata(2))
        await fixture.settle()
        assert len(fixture.brokers[1].received) == 1
        assert len(fixture.brokers[2].received) == 2
        fixture.brokers[1].gate.set()
        await fixture.channels.drain()
        assert len(fixture.brokers[1].received) == 2

    run_scenario(scenario)


def test_retries_end_with_the_broker_epoch(run_scenario):
    async def scenario(fixture):
        fixture.channels.set_brokers({1: EPOCH})
        fixture.brokers[1].is_down = True
        fixture.channels.send(1, leader_and_isr(1))
        fixture.channels.send(1, leader_and_isr(2))
        await fixture.clock.sleep_ms(1_000)
        fixture.channels.set_brokers({1: EPOCH + 1})
        fixture.brokers[1].is_down = False
        fixture.channels.send(1, leader_and_isr(3))
        await fixture.clock.sleep_ms(10_000)
        assert [request.controller_epoch for request in fixture.brokers[1].received] == [3]
        assert fixture.opened == [1, 1]

    run_scenario(scenario)


def test_response_of_an_old_epoch_is_dropped(run_scenario):
    async def scenario(fixture):
        fixture.channels.set_brokers({1: EPOCH})
        fixture.brokers[1].gate.clear()
        fixture.channels.send(1, stop_replica())
        await fixture.settle()
        fixture.channels.set_brokers({1: EPOCH + 1})
        fixture.brokers[1].gate.set()
        await fixture.settle()
        assert fixture.events == []

    run_scenario(scenario)


def test_request_to_a_dead_broker_is_dropped(run_scenario):
    async def scenario(fixture):
        fixture.channels.set_brokers({1: EPOCH})
        fixture.channels.send(2, update_metadata())
        fixture.channels.set_brokers({})
        fixture.channels.send(1, update_metadata())
        await fixture.channels.drain()
        assert fixture.brokers[1].received == []

    run_scenario(scenario)


def test_unchanged_epoch_keeps_the_queue(run_scenario):
    async def scenario(fixture):
        fixture.channels.set_brokers({1: EPOCH})
        fixture.channels.send(1, leader_and_isr(1))
        fixture.channels.set_brokers({1: EPOCH, 2: EPOCH})
        await fixture.channels.drain()
        assert len(fixture.brokers[1].received) == 1
        assert fixture.opened == [1, 2]

    run_scenario(scenario)


def test_error_that_no_retry_cures_is_reported_once(run_scenario):
    async def scenario(fixture):
        fixture.channels.set_brokers({1: EPOCH})
        fixture.brokers[1].error = ZeroDivisionError()
        fixture.channels.send(1, leader_and_isr(1))
        fixture.channels.send(1, leader_and_isr(2))
        await fixture.clock.sleep_ms(1_000)
        assert [type(error) for error in fixture.failures] == [ZeroDivisionError]

    run_scenario(scenario)


def test_full_queue_is_a_failure(run_scenario, monkeypatch):
    monkeypatch.setattr(channels, "QUEUED_REQUESTS_MAX", 3)

    async def scenario(fixture):
        fixture.channels.set_brokers({1: EPOCH})
        fixture.brokers[1].is_down = True
        for number in range(3):
            fixture.channels.send(1, leader_and_isr(number))
        assert fixture.failures == []
        fixture.channels.send(1, leader_and_isr(3))
        assert len(fixture.failures) == 1

    run_scenario(scenario)


def test_nothing_is_sent_after_close(run_scenario):
    async def scenario(fixture):
        fixture.channels.set_brokers({1: EPOCH})
        fixture.channels.send(1, leader_and_isr())
        fixture.channels.close()
        fixture.channels.send(1, leader_and_isr())
        await fixture.clock.sleep_ms(1_000)
        assert fixture.brokers[1].received == []

    run_scenario(scenario)
