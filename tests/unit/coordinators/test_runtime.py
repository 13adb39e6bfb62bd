"""Commands, appends and timers of the coordinator runtime, and their end when a partition is unloaded."""

from __future__ import annotations

import asyncio
import errno
import logging

import pytest

from odradek.coordinators.coordinator_context import (
    PENDING_BYTES_MAX,
    VALID_PREVIOUS_STATES,
    CoordinatorContext,
    CoordinatorRuntimeSettings,
    CoordinatorState,
)
from odradek.coordinators.runtime import CoordinatorRuntime
from odradek.log.log_config import LogConfig
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import Compression
from odradek.records import codec
from odradek.records.batch import BatchBuilder
from odradek.records.control_records import ControlRecordType, EndTransactionMarker

from .runtime_fixture import FOLLOWER_ID, TIMEOUT_MS, Counter, RuntimeFixture, run_scenario


def log_records(fixture: RuntimeFixture) -> list[tuple[bytes | None, bytes | None]]:
    data = fixture.partition.log.read(0, 1 << 20).data
    records = codec.decode(data if isinstance(data, bytes) else data.read())
    return [(record.key, record.value) for record in records]


def test_command_is_appended_replayed_and_answered() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve()
        responses = fixture.submit("set", b"a", 1)
        assert (responses, counter.totals) == (["done"], {b"a": 1})
        assert log_records(fixture) == [(b"a", b"1")]
        assert fixture.submit("set", b"a", None) == ["done"]
        assert (counter.totals, log_records(fixture)[1]) == ({}, (b"a", None))

    run_scenario(scenario)


def test_effects_of_a_committed_append_are_executed_in_order() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve()
        assert fixture.submit("set twice", b"a", 7) == ["done"]
        assert counter.totals == {b"a": 8}
        assert log_records(fixture) == [(b"a", b"7"), (b"a", b"8")]

    run_scenario(scenario)


def test_content_is_replayed_instead_of_records_until_the_next_load() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter, totals = await fixture.serve(), {b"a": 1, b"b": 2}
        assert fixture.submit("set with content", totals) == ["done"]
        assert (counter.totals, counter.replayed_count) == (totals, 1)
        assert log_records(fixture) == [(b"a", b"1"), (b"b", b"2")]
        loaded = await fixture.reload()
        assert (loaded.totals, loaded.replayed_count) == (totals, 2)

    run_scenario(scenario)


def test_nothing_is_replayed_or_answered_before_it_is_committed() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve(1, FOLLOWER_ID)
        first, second = fixture.submit("set", b"a", 1), fixture.submit("set", b"a", 2)
        assert (first, second, counter.totals) == ([], [], {})
        fixture.fetch_as_follower(1)
        assert (first, second, counter.totals) == (["done"], [], {b"a": 1})
        fixture.fetch_as_follower(2)
        assert (second, counter.totals) == (["done"], {b"a": 2})

    run_scenario(scenario)


def test_timed_out_append_fails_but_is_replayed_once_committed() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve(1, FOLLOWER_ID)
        early = fixture.submit("set", b"a", 1)
        await fixture.clock.sleep_ms(TIMEOUT_MS - 1)
        late = fixture.submit("set", b"b", 2)
        assert early == []
        await fixture.clock.sleep_ms(2)
        assert (early, late) == ([ErrorCode.REQUEST_TIMED_OUT], [])
        await fixture.clock.sleep_ms(10 * TIMEOUT_MS)
        assert (early, late) == ([ErrorCode.REQUEST_TIMED_OUT], [ErrorCode.REQUEST_TIMED_OUT])
        assert counter.totals == {}
        fixture.fetch_as_follower(2)
        assert counter.totals == {b"a": 1, b"b": 2}
        assert (early, late) == ([ErrorCode.REQUEST_TIMED_OUT], [ErrorCode.REQUEST_TIMED_OUT])
        assert (await fixture.reload()).durable == counter.durable

    run_scenario(scenario)


def test_append_fails_without_enough_replicas() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve(1, FOLLOWER_ID)
        fixture.shrink_isr()
        assert fixture.submit("set", b"a", 1) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert (counter.totals, fixture.partition.log.log_end_offset) == ({}, 0)

    run_scenario(scenario, min_isr=2)


def test_append_fails_but_is_replayed_if_the_isr_shrinks_after_it() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve(1, FOLLOWER_ID)
        responses = fixture.submit("set", b"a", 1)
        fixture.partition.record_follower_fetch(FOLLOWER_ID, 1, 0)
        fixture.partition.advance_high_watermark()
        fixture.shrink_isr()
        fixture.replicas.complete_delayed_requests(fixture.partition)
        assert responses == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
        assert counter.totals == {b"a": 1}

    run_scenario(scenario, min_isr=2)


def test_batch_rejected_by_the_log_fails_with_its_error() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve()
        assert fixture.submit("set", b"a" * 500, 1) == [ErrorCode.MESSAGE_TOO_LARGE]
        assert fixture.submit("set", b"a", 1) == ["done"]
        assert counter.totals == {b"a": 1}

    run_scenario(scenario, config=LogConfig(max_message_bytes=200))


def test_append_fails_if_too_many_bytes_are_pending() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve(1, FOLLOWER_ID)
        name = b"a" * (1 << 19)
        pending = [fixture.submit("set", name, number) for number in range(PENDING_BYTES_MAX >> 19)]
        assert not any(pending)
        end_offset = fixture.partition.log.log_end_offset
        assert fixture.submit("set", b"b", 1) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert fixture.partition.log.log_end_offset == end_offset
        fixture.fetch_as_follower(end_offset)
        assert all(responses == ["done"] for responses in pending)
        assert fixture.submit("set", b"b", 1) == []
        fixture.fetch_as_follower(end_offset + 1)
        assert counter.totals == {name: len(pending) - 1, b"b": 1}

    run_scenario(scenario)


def test_append_waits_for_the_flush_required_by_flush_messages() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve()
        responses = fixture.submit("set", b"a", 1)
        assert (responses, counter.totals) == ([], {})
        await fixture.replicas.drain_flushes()
        assert (responses, counter.totals) == (["done"], {b"a": 1})
        assert fixture.partition.log.recovery_point == 1

    run_scenario(scenario, config=LogConfig(flush_messages=1))


def test_append_fails_with_its_flush_but_is_replayed_once_flushed() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve()
        fixture.files.fail_next_write(errno.ENOSPC, name_end="leader-epoch-checkpoint.tmp")
        responses = fixture.submit("set", b"a", 1)
        await fixture.replicas.drain_flushes()
        assert (responses, counter.totals) == ([ErrorCode.KAFKA_STORAGE_ERROR], {})
        assert fixture.submit("set", b"b", 2) == []
        await fixture.replicas.drain_flushes()
        assert counter.totals == {b"a": 1, b"b": 2}
        assert responses == [ErrorCode.KAFKA_STORAGE_ERROR]

    run_scenario(scenario, config=LogConfig(flush_messages=1))


@pytest.mark.parametrize("compression", list(Compression))
def test_records_are_compressed_with_the_configured_codec(compression: Compression) -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        await fixture.serve()
        fixture.submit("set", b"a", 1)
        data = fixture.partition.log.read(0, 1 << 20).data
        assert not isinstance(data, bytes)
        header = codec.read_headers(data.read())[0]
        assert (header.codec_id, header.max_timestamp) == (compression, fixture.clock.wall_ms())
        assert (await fixture.reload()).totals == {b"a": 1}

    run_scenario(scenario, settings=CoordinatorRuntimeSettings(TIMEOUT_MS, 1 << 20, compression))


# Timers.


def test_timer_fires_once_and_is_replaced_by_one_with_the_same_key() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve()
        fixture.submit("schedule", "a", 100)
        fixture.submit("schedule", "b", 50)
        await fixture.clock.sleep_ms(80)
        fixture.submit("schedule", "a", 100)
        await fixture.clock.sleep_ms(500)
        assert counter.fired_at == [("b", 50), ("a", 180)]

    run_scenario(scenario)


def test_cancelled_timer_does_not_fire_and_cancelling_twice_is_allowed() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve()
        fixture.submit("schedule", "a", 100)
        assert fixture.submit("cancel", "a") == fixture.submit("cancel", "a") == ["cancelled"]
        await fixture.clock.sleep_ms(500)
        assert counter.fired_at == []

    run_scenario(scenario)


def test_unload_cancels_timers_and_none_is_scheduled_after_it() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve()
        fixture.submit("schedule", "a", 100)
        fixture.runtime.unload(0)
        assert len(fixture.timer_driver.wheel) == 0
        await fixture.clock.sleep_ms(500)
        assert counter.fired_at == []

    run_scenario(scenario)


def test_tasks_are_started_with_their_partition_until_unload() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        await fixture.serve()
        assert fixture.submit("start task", "a task") == ["started"]
        assert fixture.started_tasks == [(0, "a task")]
        fixture.runtime.unload(0)
        assert fixture.started_tasks == [(0, "a task")]

    run_scenario(scenario)


def test_exception_in_a_timer_does_not_affect_other_timers_or_commands(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve()
        fixture.submit("schedule", "broken", 100)
        fixture.submit("schedule", "a", 100)
        with caplog.at_level(logging.ERROR):
            await fixture.clock.sleep_ms(200)
        assert counter.fired_at == [("a", 100)]
        with pytest.raises(RuntimeError):
            fixture.submit("unknown")
        assert fixture.submit("set", b"a", 1) == ["done"]

    run_scenario(scenario)
    assert "coordinators.coordinator_event_failed" in caplog.text


# Load and unload.


def test_waiting_request_gets_one_reply_on_unload() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve(1, FOLLOWER_ID)
        responses = fixture.submit("set", b"a", 1)
        fixture.runtime.unload(0)
        assert responses == [ErrorCode.NOT_COORDINATOR]
        fixture.fetch_as_follower(1)
        await fixture.clock.sleep_ms(10 * TIMEOUT_MS)
        assert (responses, counter.totals) == ([ErrorCode.NOT_COORDINATOR], {})

    run_scenario(scenario)


def test_waiting_request_gets_a_reply_on_stop() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        await fixture.serve(1, FOLLOWER_ID)
        responses = fixture.submit("set", b"a", 1)
        await fixture.runtime.stop()
        assert responses == [ErrorCode.NOT_COORDINATOR]

    run_scenario(scenario)


def test_deferred_command_of_an_aborted_load_is_dropped() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        partition = await fixture.become_leader_or_follower()
        fixture.runtime.start()
        fixture.runtime.load(partition)
        fixture.runtime.submit_to_all(("set", b"a", 1))
        fixture.runtime.unload(0)
        fixture.runtime.load(partition)
        await fixture.wait_until_loaded()
        assert fixture.runtime.shard(0).totals == {}

    run_scenario(scenario)


def test_stop_waits_for_cancelled_loads() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        fixture.runtime.start()
        partition = await fixture.become_leader_or_follower(1, FOLLOWER_ID)
        builder = BatchBuilder()
        builder.append(1, b"a", b"1")
        partition.append_as_coordinator(bytearray(builder.build()), 1)
        fixture.runtime.load(partition)
        await asyncio.sleep(0)
        (load,) = fixture.runtime._loads.values()
        await fixture.runtime.stop()
        assert load.done()

    run_scenario(scenario)


def test_marker_appended_while_a_load_begins_is_replayed_once_and_in_order() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        await fixture.serve()
        fixture.submit("set", b"a", 1, 5)
        fixture.runtime.unload(0)
        fixture.runtime.load(fixture.partition)
        marker = EndTransactionMarker(ControlRecordType.COMMIT, 0)
        appended = fixture.partition.append_end_marker(marker, 5, 0, 1)
        fixture.runtime.transaction_ended(0, 5, commits=True, offset=appended.last_offset)
        assert fixture.runtime._coordinators[0].load_end_offset == appended.last_offset
        await fixture.wait_until_loaded()
        assert fixture.runtime.shard(0).totals == {b"a": 1}

    run_scenario(scenario)


def test_marker_of_a_partition_led_elsewhere_is_ignored() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve()
        fixture.runtime.transaction_ended(7, 5, commits=True, offset=0)
        assert counter.totals == {}

    run_scenario(scenario)


def test_each_append_times_out_at_its_own_deadline() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        await fixture.serve(1, FOLLOWER_ID)
        early = fixture.submit("set", b"a", 1)
        await fixture.clock.sleep_ms(TIMEOUT_MS // 2)
        late = fixture.submit("set", b"b", 2)
        await fixture.clock.sleep_ms(TIMEOUT_MS // 2 + 10)
        assert (early, late) == ([ErrorCode.REQUEST_TIMED_OUT], [])
        await fixture.clock.sleep_ms(TIMEOUT_MS // 2 + 10)
        assert late == [ErrorCode.REQUEST_TIMED_OUT]

    run_scenario(scenario)


def test_error_depends_on_the_state_of_the_partition() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        async def error_code() -> ErrorCode:
            with pytest.raises(BrokerError) as command_error:
                fixture.submit("set", b"a", 1)
            with pytest.raises(BrokerError) as query_error:
                fixture.runtime.shard(0)
            assert command_error.value.code == query_error.value.code
            return command_error.value.code

        assert await error_code() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        fixture.runtime.start()
        assert await error_code() is ErrorCode.NOT_COORDINATOR
        fixture.runtime.load(await fixture.become_leader_or_follower())
        assert await error_code() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert fixture.runtime.shards() == []
        await fixture.wait_until_loaded()
        assert fixture.runtime.shards() == [fixture.runtime.shard(0)]
        fixture.runtime.unload(0)
        assert await error_code() is ErrorCode.NOT_COORDINATOR
        fixture.runtime.unload(0)
        await fixture.runtime.stop()
        assert await error_code() is ErrorCode.COORDINATOR_NOT_AVAILABLE

    run_scenario(scenario)


def test_new_leader_epoch_keeps_the_shard_and_pending_appends() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve(1, FOLLOWER_ID)
        responses = fixture.submit("set", b"a", 1)
        fixture.runtime.load(await fixture.become_leader_or_follower(1, FOLLOWER_ID, epoch=1))
        assert fixture.runtime.shard(0) is counter
        fixture.fetch_as_follower(1)
        assert (responses, counter.loads) == (["done"], 1)

    run_scenario(scenario)


def test_recreated_partition_gets_a_new_shard() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        old = await fixture.serve()
        fixture.submit("set", b"a", 1)
        await fixture.stop_replica()
        fixture.runtime.load(await fixture.become_leader_or_follower())
        await fixture.wait_until_loaded()
        new = fixture.runtime.shard(0)
        assert new is not old
        assert new.totals == {}

    run_scenario(scenario)


@pytest.mark.parametrize("old", CoordinatorState)
@pytest.mark.parametrize("new", CoordinatorState)
def test_coordinator_state_transitions_follow_the_table(old: CoordinatorState, new: CoordinatorState) -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        coordinator = CoordinatorContext(
            await fixture.become_leader_or_follower(), Counter(), fixture.environment
        )
        coordinator.state = old
        if old in VALID_PREVIOUS_STATES[new]:
            coordinator._transition_to(new)
            assert coordinator.state is new
        else:
            with pytest.raises(AssertionError):
                coordinator._transition_to(new)
            assert coordinator.state is old

    run_scenario(scenario)
    assert set(VALID_PREVIOUS_STATES) == set(CoordinatorState)


@pytest.mark.parametrize(("load_ms", "lines"), [(100, 0), (1_500, 1)])
def test_long_loads_are_logged_in_one_line(
    caplog: pytest.LogCaptureFixture, load_ms: int, lines: int
) -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        await fixture.serve(1, FOLLOWER_ID)
        fixture.submit("set", b"a", 1)
        other: CoordinatorRuntime[Counter] = CoordinatorRuntime(lambda number: Counter(), fixture.environment)
        other.start()
        other.load(fixture.partition)
        await fixture.clock.sleep_ms(load_ms)
        fixture.fetch_as_follower(1)
        while other.is_loading:
            await fixture.clock.sleep_ms(10)
        await other.stop()

    with caplog.at_level(logging.INFO, logger="odradek"):
        run_scenario(scenario)
    messages = [record.getMessage() for record in caplog.records if "loaded" in record.getMessage()]
    assert len(messages) == lines
    assert all(line.startswith("coordinators.partitions_loaded topic=") for line in messages)
