"""Commands, commits and timers of a hosted shard, and what becomes of them when the partition goes."""

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

from .runtime_fixture import FOLLOWER_ID, TIMEOUT_MS, Counter, Desk, play


def logged(desk: Desk) -> list[tuple[bytes | None, bytes | None]]:
    data = desk.partition.log.read(0, 1 << 20).data
    records = codec.decode(data if isinstance(data, bytes) else data.read())
    return [(record.key, record.value) for record in records]


def test_a_command_is_appended_applied_and_answered() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve()
        answers = desk.ask("set", b"a", 1)
        assert (answers, counter.totals) == (["done"], {b"a": 1})
        assert logged(desk) == [(b"a", b"1")]
        assert desk.ask("set", b"a", None) == ["done"]
        assert (counter.totals, logged(desk)[1]) == ({}, (b"a", None))

    play(scenario)


def test_what_a_commit_leads_to_is_carried_out_in_turn() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve()
        assert desk.ask("set twice", b"a", 7) == ["done"]
        assert counter.totals == {b"a": 8}
        assert logged(desk) == [(b"a", b"7"), (b"a", b"8")]

    play(scenario)


def test_nothing_is_applied_or_answered_before_the_replicas_have_it() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve(1, FOLLOWER_ID)
        first, second = desk.ask("set", b"a", 1), desk.ask("set", b"a", 2)
        assert (first, second, counter.totals) == ([], [], {})
        desk.follow(1)
        assert (first, second, counter.totals) == (["done"], [], {b"a": 1})
        desk.follow(2)
        assert (second, counter.totals) == (["done"], {b"a": 2})

    play(scenario)


def test_what_takes_too_long_is_refused_and_still_applied_once_it_is_committed() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve(1, FOLLOWER_ID)
        early = desk.ask("set", b"a", 1)
        await desk.clock.sleep_ms(TIMEOUT_MS - 1)
        late = desk.ask("set", b"b", 2)
        assert early == []
        await desk.clock.sleep_ms(2)
        assert (early, late) == ([ErrorCode.REQUEST_TIMED_OUT], [])
        await desk.clock.sleep_ms(10 * TIMEOUT_MS)
        assert (early, late) == ([ErrorCode.REQUEST_TIMED_OUT], [ErrorCode.REQUEST_TIMED_OUT])
        assert counter.totals == {}
        desk.follow(2)
        assert counter.totals == {b"a": 1, b"b": 2}
        assert (early, late) == ([ErrorCode.REQUEST_TIMED_OUT], [ErrorCode.REQUEST_TIMED_OUT])
        assert (await desk.reload()).durable == counter.durable

    play(scenario)


def test_without_enough_replicas_nothing_is_written() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve(1, FOLLOWER_ID)
        desk.shrink()
        assert desk.ask("set", b"a", 1) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert (counter.totals, desk.partition.log.log_end_offset) == ({}, 0)

    play(scenario, min_isr=2)


def test_when_replicas_leave_after_an_append_it_is_refused_but_counts_if_it_was_committed() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve(1, FOLLOWER_ID)
        answers = desk.ask("set", b"a", 1)
        progress = desk.partition._progress
        assert progress is not None
        progress.follower(FOLLOWER_ID).fetched(1, 0, 1, desk.clock.monotonic_ms())  # type: ignore[union-attr]
        desk.partition._advance_high_watermark(desk.clock.monotonic_ms())
        desk.shrink()
        desk.replicas.changed(desk.partition)
        assert answers == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
        assert counter.totals == {b"a": 1}

    play(scenario, min_isr=2)


def test_a_batch_that_the_topic_does_not_take_is_refused_with_the_logs_own_code() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve()
        assert desk.ask("set", b"a" * 500, 1) == [ErrorCode.MESSAGE_TOO_LARGE]
        assert desk.ask("set", b"a", 1) == ["done"]
        assert counter.totals == {b"a": 1}

    play(scenario, config=LogConfig(max_message_bytes=200))


def test_where_too_much_waits_for_replicas_more_is_refused() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve(1, FOLLOWER_ID)
        name = b"a" * (1 << 19)
        waiting = [desk.ask("set", name, number) for number in range(PENDING_BYTES_MAX >> 19)]
        assert not any(waiting)
        end_offset = desk.partition.log.log_end_offset
        assert desk.ask("set", b"b", 1) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert desk.partition.log.log_end_offset == end_offset
        desk.follow(end_offset)
        assert all(answers == ["done"] for answers in waiting)
        assert desk.ask("set", b"b", 1) == []
        desk.follow(end_offset + 1)
        assert counter.totals == {name: len(waiting) - 1, b"b": 1}

    play(scenario)


def test_an_append_waits_for_the_flush_that_flush_messages_asks_for() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve()
        answers = desk.ask("set", b"a", 1)
        assert (answers, counter.totals) == ([], {})
        await desk.replicas.drain_flushes()
        assert (answers, counter.totals) == (["done"], {b"a": 1})
        assert desk.partition.log.recovery_point == 1

    play(scenario, config=LogConfig(flush_messages=1))


def test_a_flush_without_room_refuses_what_waited_for_it_which_counts_once_there_is_room() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve()
        desk.files.fail_next_write(errno.ENOSPC, name_end="leader-epoch-checkpoint.tmp")
        answers = desk.ask("set", b"a", 1)
        await desk.replicas.drain_flushes()
        assert (answers, counter.totals) == ([ErrorCode.KAFKA_STORAGE_ERROR], {})
        assert desk.ask("set", b"b", 2) == []
        await desk.replicas.drain_flushes()
        assert counter.totals == {b"a": 1, b"b": 2}
        assert answers == [ErrorCode.KAFKA_STORAGE_ERROR]

    play(scenario, config=LogConfig(flush_messages=1))


@pytest.mark.parametrize("compression", list(Compression))
def test_entries_are_written_with_the_codec_that_is_set(compression: Compression) -> None:
    async def scenario(desk: Desk) -> None:
        await desk.serve()
        desk.ask("set", b"a", 1)
        data = desk.partition.log.read(0, 1 << 20).data
        assert not isinstance(data, bytes)
        header = codec.read_headers(data.read())[0]
        assert (header.codec_id, header.max_timestamp) == (compression, desk.clock.wall_ms())
        assert (await desk.reload()).totals == {b"a": 1}

    play(scenario, settings=CoordinatorRuntimeSettings(TIMEOUT_MS, 1 << 20, compression))


# Timers.


def test_a_timer_fires_once_and_a_new_one_of_its_name_takes_its_place() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve()
        desk.ask("arm", "a", 100)
        desk.ask("arm", "b", 50)
        await desk.clock.sleep_ms(80)
        desk.ask("arm", "a", 100)
        await desk.clock.sleep_ms(500)
        assert counter.fired_at == [("b", 50), ("a", 180)]

    play(scenario)


def test_a_disarmed_timer_does_not_fire_and_disarming_nothing_is_nothing() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve()
        desk.ask("arm", "a", 100)
        assert desk.ask("disarm", "a") == desk.ask("disarm", "a") == ["disarmed"]
        await desk.clock.sleep_ms(500)
        assert counter.fired_at == []

    play(scenario)


def test_timers_go_with_their_partition_and_none_is_armed_after_it() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve()
        desk.ask("arm", "a", 100)
        desk.runtime.unload(0)
        assert len(desk.timer_driver.wheel) == 0
        await desk.clock.sleep_ms(500)
        assert counter.fired_at == []

    play(scenario)


def test_what_is_to_be_done_outside_is_handed_on_with_its_partition_until_that_is_gone() -> None:
    async def scenario(desk: Desk) -> None:
        await desk.serve()
        assert desk.ask("perform", "a task") == ["asked"]
        assert desk.performed == [(0, "a task")]
        desk.runtime.unload(0)
        assert desk.performed == [(0, "a task")]

    play(scenario)


def test_a_fault_in_a_machine_stops_neither_its_other_timers_nor_its_commands(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve()
        desk.ask("arm", "broken", 100)
        desk.ask("arm", "a", 100)
        with caplog.at_level(logging.ERROR):
            await desk.clock.sleep_ms(200)
        assert counter.fired_at == [("a", 100)]
        with pytest.raises(RuntimeError):
            desk.ask("nonsense")
        assert desk.ask("set", b"a", 1) == ["done"]

    play(scenario)
    assert "coordinators.coordinator_event_failed" in caplog.text


# Roles.


def test_who_waits_when_the_partition_goes_is_answered_once() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve(1, FOLLOWER_ID)
        answers = desk.ask("set", b"a", 1)
        desk.runtime.unload(0)
        assert answers == [ErrorCode.NOT_COORDINATOR]
        desk.follow(1)
        await desk.clock.sleep_ms(10 * TIMEOUT_MS)
        assert (answers, counter.totals) == ([ErrorCode.NOT_COORDINATOR], {})

    play(scenario)


def test_who_waits_when_the_runtime_stops_is_answered() -> None:
    async def scenario(desk: Desk) -> None:
        await desk.serve(1, FOLLOWER_ID)
        answers = desk.ask("set", b"a", 1)
        await desk.runtime.stop()
        assert answers == [ErrorCode.NOT_COORDINATOR]

    play(scenario)


def test_what_was_told_to_a_load_that_ended_early_is_not_told_to_the_next() -> None:
    async def scenario(desk: Desk) -> None:
        partition = await desk.become_leader_or_follower()
        desk.runtime.start()
        desk.runtime.load(partition)
        desk.runtime.submit_to_all(("set", b"a", 1))
        desk.runtime.unload(0)
        desk.runtime.load(partition)
        await desk.loaded()
        assert desk.runtime.shard(0).totals == {}

    play(scenario)


def test_no_load_is_under_way_once_the_runtime_has_stopped() -> None:
    async def scenario(desk: Desk) -> None:
        desk.runtime.start()
        partition = await desk.become_leader_or_follower(1, FOLLOWER_ID)
        builder = BatchBuilder()
        builder.append(1, b"a", b"1")
        partition.append_as_coordinator(bytearray(builder.build()), 1)
        desk.runtime.load(partition)
        await asyncio.sleep(0)
        (load,) = desk.runtime._loads.values()
        await desk.runtime.stop()
        assert load.done()

    play(scenario)


def test_the_end_of_a_transaction_in_a_partition_that_is_led_elsewhere_is_passed_over() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve()
        desk.runtime.transaction_ended(7, 5, commits=True, offset=0)
        assert counter.totals == {}

    play(scenario)


def test_what_waits_behind_what_is_overdue_is_refused_at_its_own_time() -> None:
    async def scenario(desk: Desk) -> None:
        await desk.serve(1, FOLLOWER_ID)
        early = desk.ask("set", b"a", 1)
        await desk.clock.sleep_ms(TIMEOUT_MS // 2)
        late = desk.ask("set", b"b", 2)
        await desk.clock.sleep_ms(TIMEOUT_MS // 2 + 10)
        assert (early, late) == ([ErrorCode.REQUEST_TIMED_OUT], [])
        await desk.clock.sleep_ms(TIMEOUT_MS // 2 + 10)
        assert late == [ErrorCode.REQUEST_TIMED_OUT]

    play(scenario)


def test_refusals_say_how_far_the_partition_is() -> None:
    async def scenario(desk: Desk) -> None:
        async def code() -> ErrorCode:
            with pytest.raises(BrokerError) as by_command:
                desk.ask("set", b"a", 1)
            with pytest.raises(BrokerError) as by_question:
                desk.runtime.shard(0)
            assert by_command.value.code == by_question.value.code
            return by_command.value.code

        assert await code() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        desk.runtime.start()
        assert await code() is ErrorCode.NOT_COORDINATOR
        desk.runtime.load(await desk.become_leader_or_follower())
        assert await code() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert desk.runtime.shards() == []
        await desk.loaded()
        assert desk.runtime.shards() == [desk.runtime.shard(0)]
        desk.runtime.unload(0)
        assert await code() is ErrorCode.NOT_COORDINATOR
        desk.runtime.unload(0)
        await desk.runtime.stop()
        assert await code() is ErrorCode.COORDINATOR_NOT_AVAILABLE

    play(scenario)


def test_leading_on_under_a_newer_epoch_keeps_the_machine_and_what_is_under_way() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve(1, FOLLOWER_ID)
        answers = desk.ask("set", b"a", 1)
        desk.runtime.load(await desk.become_leader_or_follower(1, FOLLOWER_ID, epoch=1))
        assert desk.runtime.shard(0) is counter
        desk.follow(1)
        assert (answers, counter.loads) == (["done"], 1)

    play(scenario)


def test_a_partition_made_anew_gets_a_machine_of_its_own() -> None:
    async def scenario(desk: Desk) -> None:
        old = await desk.serve()
        desk.ask("set", b"a", 1)
        desk.replicas.remove([desk.partition.topic_partition])
        desk.runtime.load(await desk.become_leader_or_follower())
        await desk.loaded()
        new = desk.runtime.shard(0)
        assert new is not old
        assert new.totals == {}

    play(scenario)


@pytest.mark.parametrize("old", CoordinatorState)
@pytest.mark.parametrize("new", CoordinatorState)
def test_a_hosted_partition_goes_from_state_to_state_as_the_table_says(
    old: CoordinatorState, new: CoordinatorState
) -> None:
    async def scenario(desk: Desk) -> None:
        hosted = CoordinatorContext(await desk.become_leader_or_follower(), Counter(), desk.around)
        hosted.state = old
        if old in VALID_PREVIOUS_STATES[new]:
            hosted._move_to(new)
            assert hosted.state is new
        else:
            with pytest.raises(AssertionError):
                hosted._move_to(new)
            assert hosted.state is old

    play(scenario)
    assert set(VALID_PREVIOUS_STATES) == set(CoordinatorState)


@pytest.mark.parametrize(("waits_ms", "lines"), [(100, 0), (1_500, 1)])
def test_loads_that_clients_wait_for_are_logged_in_one_line(
    caplog: pytest.LogCaptureFixture, waits_ms: int, lines: int
) -> None:
    async def scenario(desk: Desk) -> None:
        await desk.serve(1, FOLLOWER_ID)
        desk.ask("set", b"a", 1)
        other: CoordinatorRuntime[Counter] = CoordinatorRuntime(lambda number: Counter(), desk.around)
        other.start()
        other.load(desk.partition)
        await desk.clock.sleep_ms(waits_ms)
        desk.follow(1)
        while other.is_loading:
            await desk.clock.sleep_ms(10)
        await other.stop()

    with caplog.at_level(logging.INFO, logger="odradek"):
        play(scenario)
    told = [record.getMessage() for record in caplog.records if "loaded" in record.getMessage()]
    assert len(told) == lines
    assert all(line.startswith("coordinators.partitions_loaded topic=") for line in told)
