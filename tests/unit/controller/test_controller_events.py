"""Requests to the controller, timers, answers of brokers, and what ends a controller."""

import asyncio

import pytest
from tests.unit.controller.controller_fixture import ORDERS, assignment, registration

from odradek.controller import controller as controller_module
from odradek.controller.actions import (
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    StopReplicaState,
    WriteAssignment,
)
from odradek.controller.controller import ControllerOptions
from odradek.controller.events import (
    ContextLoaded,
    ControlledShutdownRequested,
    LeaderAndIsrAnswered,
    LeaderBalanceDue,
    ReassignmentsListed,
    StopReplicaAnswered,
    UncleanElectionEnabled,
)
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.replication.control_requests import ControlResult
from odradek.store.broker_registration import register_broker
from odradek.store.controller_election import ControllerMoved, elect
from odradek.store.layout import znode_paths
from odradek.store.port import NoNode, StoreError, Unavailable
from odradek.store.topics import create_topic

# Requests with a reply, and what ends a controller.


def test_submitted_event_gets_its_reply(run_scenario):
    async def scenario(fixture):
        await fixture.start()
        reply = await fixture.controller.submit(ControlledShutdownRequested(7, 1))
        assert reply.error is ErrorCode.BROKER_NOT_AVAILABLE
        assert await fixture.controller.submit(ReassignmentsListed(None)) == {}

    run_scenario(scenario)


def test_request_that_waits_for_a_resigning_controller_is_refused(run_scenario):
    async def scenario(fixture):
        await fixture.start()
        waiting = asyncio.ensure_future(fixture.controller.submit(ReassignmentsListed(None)))
        await asyncio.sleep(0)
        fixture.controller.resign()
        with pytest.raises(BrokerError) as refusal:
            await waiting
        assert refusal.value.code is ErrorCode.NOT_CONTROLLER
        with pytest.raises(BrokerError):
            await fixture.controller.submit(ReassignmentsListed(None))

    run_scenario(scenario)


def test_request_in_progress_is_refused_when_the_controller_is_fenced(run_scenario):
    async def scenario(fixture):
        await create_topic(fixture.store, "orders", assignment(replicas=(1, 2)), {})
        await register_broker(fixture.ensemble.connect(), 2, registration(9093))
        await fixture.start()
        failures = []
        fixture.controller.on_failed = lambda: failures.append(1)
        await fixture.store.delete(znode_paths.CONTROLLER)
        assert await elect(fixture.ensemble.connect(), 2, 0) is not None
        with pytest.raises(BrokerError) as refusal:
            await fixture.controller.submit(ControlledShutdownRequested(1, -1))
        assert refusal.value.code is ErrorCode.NOT_CONTROLLER
        assert failures == [1]
        assert not fixture.controller.is_active

    run_scenario(scenario)


def test_handler_cannot_survive_that_its_controller_is_fenced(run_scenario, monkeypatch):
    async def scenario(fixture):
        seen = []

        def handler(context, event):
            if isinstance(event, ContextLoaded):
                return
            try:
                yield WriteAssignment("orders", assignment())
            except StoreError as error:
                seen.append(type(error))

        monkeypatch.setattr(controller_module, "handle", handler)
        await create_topic(fixture.store, "orders", assignment(), {})
        await fixture.start()
        await fixture.store.delete(znode_paths.CONTROLLER)
        assert await elect(fixture.ensemble.connect(), 2, 0) is not None
        with pytest.raises(BrokerError):
            await fixture.controller.submit(ReassignmentsListed(None))
        assert seen == []
        assert isinstance(fixture.controller._failure, ControllerMoved)

    run_scenario(scenario)


def test_handler_that_catches_a_store_error_goes_on(run_scenario, monkeypatch):
    async def scenario(fixture):
        def handler(context, event):
            if isinstance(event, ReassignmentsListed):
                try:
                    yield WriteAssignment("nowhere", assignment())
                except NoNode as error:
                    return error.path
            return None

        monkeypatch.setattr(controller_module, "handle", handler)
        await fixture.start()
        reply = await fixture.controller.submit(ReassignmentsListed(None))
        assert reply == znode_paths.topic("nowhere")
        assert fixture.controller.is_active

    run_scenario(scenario)


def test_crashing_handler_ends_the_controller(run_scenario, monkeypatch):
    async def scenario(fixture):
        def handler(context, event):
            if isinstance(event, ReassignmentsListed):
                raise ZeroDivisionError
            yield from ()

        monkeypatch.setattr(controller_module, "handle", handler)
        await fixture.start()
        failures = []
        fixture.controller.on_failed = lambda: failures.append(1)
        with pytest.raises(BrokerError):
            await fixture.controller.submit(ReassignmentsListed(None))
        assert failures == [1]

    run_scenario(scenario)


def test_failure_to_load_is_raised_by_start(run_scenario):
    async def scenario(fixture):
        class UnavailableStore:
            def __getattr__(self, name):
                return getattr(fixture.store, name)

            async def get_many(self, paths):
                raise Unavailable("the store")

        failures = []
        fixture.controller = fixture.make_controller(UnavailableStore())
        fixture.controller.on_failed = lambda: failures.append(1)
        await create_topic(fixture.store, "orders", assignment(), {})
        with pytest.raises(Unavailable):
            await fixture.controller.start()
        assert failures == []
        assert not fixture.controller.is_active

    run_scenario(scenario)


def test_controller_that_resigns_while_it_loads_sends_nothing(run_scenario):
    async def scenario(fixture):
        await create_topic(fixture.store, "orders", assignment(), {})
        loading = asyncio.ensure_future(fixture.controller.start())
        for _ in range(3):
            await asyncio.sleep(0)
        fixture.controller.resign()
        with pytest.raises(BrokerError):
            await loading
        await fixture.run_loop()
        assert (fixture.channel.partition_states, fixture.channel.metadata_updates) == ({}, [])

    run_scenario(scenario)


# Timers and settings.


def test_leaders_are_balanced_after_five_seconds_and_then_at_the_interval(run_scenario, monkeypatch):
    async def scenario(fixture):
        times = []

        def handler(context, event):
            if isinstance(event, LeaderBalanceDue):
                times.append(fixture.clock.monotonic_ms())
            yield from ()

        monkeypatch.setattr(controller_module, "handle", handler)
        fixture.options = ControllerOptions(leader_balance_interval_ms=60_000)
        fixture.controller = fixture.make_controller(fixture.store)
        began_ms = fixture.clock.monotonic_ms()
        await fixture.start()
        await fixture.clock.sleep_ms(130_000)
        assert [time_ms - began_ms for time_ms in times] == [5_000, 65_000, 125_000]
        fixture.controller.resign()
        await fixture.clock.sleep_ms(600_000)
        assert len(times) == 3

    run_scenario(scenario)


def test_unclean_election_of_a_topic_is_handled_once_per_change(run_scenario, monkeypatch):
    async def scenario(fixture):
        enabled = []

        def handler(context, event):
            if isinstance(event, UncleanElectionEnabled):
                enabled.append(event.topics)
            yield from ()

        monkeypatch.setattr(controller_module, "handle", handler)
        await fixture.start()
        for topic in ("orders", "orders", None, "others"):
            fixture.controller.on_unclean_election_enabled(topic)
        await fixture.run_loop()
        assert enabled == [frozenset({"orders"}), None, frozenset({"others"})]

    run_scenario(scenario)


# Answers of brokers.


def answer(fixture, request, errors, error=ErrorCode.NONE):
    fixture.controller._on_answered(1, request, ControlResult(error, errors))


def test_answers_without_news_give_no_event(run_scenario, monkeypatch):
    async def scenario(fixture):
        seen = []

        def handler(context, event):
            seen.append(event)
            yield from ()

        monkeypatch.setattr(controller_module, "handle", handler)
        await fixture.start()
        seen.clear()
        failed = {ORDERS: ErrorCode.KAFKA_STORAGE_ERROR}
        leader_and_isr = SendLeaderAndIsr(1, 1, {})
        answer(fixture, leader_and_isr, {ORDERS: ErrorCode.NONE})
        answer(fixture, leader_and_isr, failed, ErrorCode.STALE_CONTROLLER_EPOCH)
        answer(fixture, SendUpdateMetadata((1,), 1, {}, {}), {})
        await fixture.run_loop()
        assert seen == []
        answer(fixture, leader_and_isr, failed)
        fixture.controller.context.offline_replicas[1] = {ORDERS}
        answer(fixture, leader_and_isr, {ORDERS: ErrorCode.NONE})
        await fixture.run_loop()
        assert seen == [
            LeaderAndIsrAnswered(1, failed),
            LeaderAndIsrAnswered(1, {ORDERS: ErrorCode.NONE}),
        ]

    run_scenario(scenario)


def test_stop_replica_answers_are_those_of_deleted_replicas(run_scenario, monkeypatch):
    async def scenario(fixture):
        seen = []

        def handler(context, event):
            seen.append(event)
            yield from ()

        monkeypatch.setattr(controller_module, "handle", handler)
        await fixture.start()
        seen.clear()
        other = TopicPartition("orders", 1)
        request = SendStopReplica(
            1, 1, {ORDERS: StopReplicaState(-2, True), other: StopReplicaState(3, False)}
        )
        answer(fixture, request, {ORDERS: ErrorCode.NONE, other: ErrorCode.NONE})
        answer(fixture, request, {}, ErrorCode.STALE_BROKER_EPOCH)
        answer(fixture, SendStopReplica(1, 1, {other: StopReplicaState(3, False)}), {other: ErrorCode.NONE})
        await fixture.run_loop()
        assert seen == [
            StopReplicaAnswered(1, {ORDERS: ErrorCode.NONE}),
            StopReplicaAnswered(1, {ORDERS: ErrorCode.STALE_BROKER_EPOCH}),
        ]

    run_scenario(scenario)
