"""Queues of the controller to brokers: order, retries, broker epochs, failures."""

from __future__ import annotations

import asyncio

import pytest

from odradek.controller import channels
from odradek.controller.actions import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata, StopReplicaState
from odradek.controller.channels import BrokerRequest, ControllerChannels
from odradek.controller.live_broker import LiveBroker
from odradek.model.client_errors import ConnectionFailed
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.replication.control_requests import ControlResult
from odradek.store.layout.znodes import BrokerRegistration, RegisteredEndpoint
from odradek.testing.clock import VirtualClock, run_virtually

ORDERS = TopicPartition("orders", 0)
EPOCH = 7
OK = ControlResult(ErrorCode.NONE, {})


def live_brokers(*broker_ids, epoch=EPOCH, port=9092):
    endpoint = RegisteredEndpoint("PLAINTEXT", "PLAINTEXT", "h", port)
    return {broker_id: LiveBroker(BrokerRegistration((endpoint,), 0), epoch) for broker_id in broker_ids}


class FakeChannel:
    """A broker that records requests. ``is_down`` fails them, ``gate`` delays responses until it is set."""

    def __init__(self, broker_id):
        self.broker_id = broker_id
        self.received = []
        self.is_down = False
        self.error = None
        self.result = OK
        self.is_closed = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def send(self, request):
        if self.is_down:
            raise ConnectionFailed(f"broker {self.broker_id} is down")
        if self.error is not None:
            raise self.error
        self.received.append(request)
        await self.gate.wait()
        return self.result

    async def close(self):
        self.is_closed = True


class Fixture:
    def __init__(self):
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.brokers = {}
        self.opened = []
        self.registrations = {}
        self.answers: list[tuple[int, BrokerRequest, ControlResult]] = []
        self.failures: list[Exception] = []
        self.channels = ControllerChannels(
            self.open, self.clock.sleep_ms, lambda *answer: self.answers.append(answer), self.failures.append
        )

    def open(self, broker_id, broker):
        self.opened.append(broker_id)
        self.registrations[broker_id] = broker
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
        fixture.channels.set_brokers(live_brokers(1))
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


def test_responses_come_back_with_their_requests(run_scenario):
    async def scenario(fixture):
        fixture.channels.set_brokers(live_brokers(1))
        requests = [leader_and_isr(), stop_replica()]
        for request in requests:
            fixture.channels.send(1, request)
        result = ControlResult(ErrorCode.NONE, {ORDERS: ErrorCode.KAFKA_STORAGE_ERROR})
        fixture.brokers[1].result = result
        await fixture.channels.drain()
        assert fixture.answers == [(1, request, result) for request in requests]

    run_scenario(scenario)


def test_refused_request_is_answered_too(run_scenario):
    async def scenario(fixture):
        fixture.channels.set_brokers(live_brokers(1))
        fixture.channels.send(1, update_metadata())
        fixture.brokers[1].result = ControlResult(ErrorCode.STALE_CONTROLLER_EPOCH, {})
        await fixture.channels.drain()
        assert [result.error for _, _, result in fixture.answers] == [ErrorCode.STALE_CONTROLLER_EPOCH]
        assert fixture.failures == []

    run_scenario(scenario)


def test_changed_endpoints_keep_the_queue_and_are_seen_by_the_channel(run_scenario):
    async def scenario(fixture):
        fixture.channels.set_brokers(live_brokers(1))
        fixture.channels.send(1, leader_and_isr())
        fixture.channels.set_brokers(live_brokers(1, port=9999))
        await fixture.channels.drain()
        assert len(fixture.brokers[1].received) == 1
        assert fixture.opened == [1]
        assert fixture.registrations[1]().registration.endpoints[0].port == 9999

    run_scenario(scenario)


def test_slow_broker_does_not_hold_up_another(run_scenario):
    async def scenario(fixture):
        fixture.channels.set_brokers(live_brokers(1, 2))
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
        fixture.channels.set_brokers(live_brokers(1))
        fixture.brokers[1].is_down = True
        fixture.channels.send(1, leader_and_isr(1))
        fixture.channels.send(1, leader_and_isr(2))
        await fixture.clock.sleep_ms(1_000)
        fixture.channels.set_brokers(live_brokers(1, epoch=EPOCH + 1))
        fixture.brokers[1].is_down = False
        fixture.channels.send(1, leader_and_isr(3))
        await fixture.clock.sleep_ms(10_000)
        assert [request.controller_epoch for request in fixture.brokers[1].received] == [3]
        assert fixture.opened == [1, 1]

    run_scenario(scenario)


def test_response_of_an_old_epoch_is_dropped(run_scenario):
    async def scenario(fixture):
        fixture.channels.set_brokers(live_brokers(1))
        fixture.brokers[1].gate.clear()
        fixture.channels.send(1, stop_replica())
        await fixture.settle()
        fixture.channels.set_brokers(live_brokers(1, epoch=EPOCH + 1))
        fixture.brokers[1].gate.set()
        await fixture.settle()
        assert fixture.answers == []
        assert fixture.brokers[1].is_closed

    run_scenario(scenario)


def test_request_to_a_dead_broker_is_dropped(run_scenario):
    async def scenario(fixture):
        fixture.channels.set_brokers(live_brokers(1))
        fixture.channels.send(2, update_metadata())
        fixture.channels.set_brokers({})
        fixture.channels.send(1, update_metadata())
        await fixture.channels.drain()
        assert fixture.brokers[1].received == []

    run_scenario(scenario)


def test_unchanged_epoch_keeps_the_queue(run_scenario):
    async def scenario(fixture):
        fixture.channels.set_brokers(live_brokers(1))
        fixture.channels.send(1, leader_and_isr(1))
        fixture.channels.set_brokers(live_brokers(1, 2))
        await fixture.channels.drain()
        assert len(fixture.brokers[1].received) == 1
        assert fixture.opened == [1, 2]

    run_scenario(scenario)


def test_error_that_no_retry_cures_is_reported_once(run_scenario):
    async def scenario(fixture):
        fixture.channels.set_brokers(live_brokers(1))
        fixture.brokers[1].error = ZeroDivisionError()
        fixture.channels.send(1, leader_and_isr(1))
        fixture.channels.send(1, leader_and_isr(2))
        await fixture.clock.sleep_ms(1_000)
        assert [type(error) for error in fixture.failures] == [ZeroDivisionError]

    run_scenario(scenario)


def test_full_queue_is_a_failure(run_scenario, monkeypatch):
    monkeypatch.setattr(channels, "QUEUED_REQUESTS_MAX", 3)

    async def scenario(fixture):
        fixture.channels.set_brokers(live_brokers(1))
        fixture.brokers[1].is_down = True
        for number in range(3):
            fixture.channels.send(1, leader_and_isr(number))
        assert fixture.failures == []
        fixture.channels.send(1, leader_and_isr(3))
        assert len(fixture.failures) == 1

    run_scenario(scenario)


def test_nothing_is_sent_after_close(run_scenario):
    async def scenario(fixture):
        fixture.channels.set_brokers(live_brokers(1))
        fixture.channels.send(1, leader_and_isr())
        fixture.channels.close()
        fixture.channels.send(1, leader_and_isr())
        await fixture.clock.sleep_ms(1_000)
        assert fixture.brokers[1].received == []

    run_scenario(scenario)


def test_closed_channels_open_no_queue(run_scenario):
    async def scenario(fixture):
        fixture.channels.close()
        fixture.channels.set_brokers(live_brokers(1))
        assert fixture.opened == []

    run_scenario(scenario)
