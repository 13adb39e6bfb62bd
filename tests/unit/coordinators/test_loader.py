"""Loading a shard from its partition's log."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinators.coordinator_context import CoordinatorRuntimeSettings
from odradek.coordinators.loader import LogChunk, _decode, read_chunk
from odradek.log.log_config import LogConfig
from odradek.model.errors import ErrorCode
from odradek.records.batch import BatchBuilder
from odradek.records.control_records import ControlRecordType, EndTransactionMarker

from .runtime_fixture import FOLLOWER_ID, TIMEOUT_MS, Counter, Desk, play

NAMES = st.sampled_from([b"a", b"b", b"c"])
STEPS = st.one_of(
    st.tuples(st.just("set"), NAMES, st.none() | st.integers(0, 9)),
    st.tuples(st.just("set"), NAMES, st.none() | st.integers(0, 9), st.integers(5, 6)),
    st.tuples(st.just("set twice"), NAMES, st.integers(0, 9)),
    st.tuples(st.just("end"), st.integers(5, 6), st.booleans()),
)


def end_transaction(desk: Desk, producer_id: int, *, commits: bool) -> None:
    """What a transaction coordinator will do: append a marker, and tell the runtime of it."""
    marker = EndTransactionMarker(ControlRecordType.COMMIT if commits else ControlRecordType.ABORT, 0)
    appended = desk.partition.append_end_marker(marker, producer_id, 0, desk.clock.wall_ms())
    desk.runtime.transaction_ended(0, producer_id, commits=commits, offset=appended.last_offset)


@given(st.lists(STEPS, max_size=30), st.integers(100, 1000), st.integers(1, 400))
def test_a_machine_loaded_from_the_log_has_the_state_of_the_one_that_wrote_it(
    steps: list[Any], segment_bytes: int, load_bytes_max: int
) -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve()
        for step in steps:
            if step[0] == "end":
                end_transaction(desk, step[1], commits=step[2])
            else:
                assert desk.ask(*step) == ["done"]
        assert (await desk.reload()).durable == counter.durable

    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=50)
    play(scenario, config=config, settings=CoordinatorRuntimeSettings(TIMEOUT_MS, load_bytes_max))


@given(st.lists(st.tuples(NAMES, st.integers(0, 9)), max_size=12), st.data())
def test_at_any_time_the_state_is_that_of_the_log_up_to_the_high_watermark(
    sets: list[tuple[bytes, int]], data: st.DataObject
) -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve(1, FOLLOWER_ID)
        has = 0
        for name, number in sets:
            desk.ask("set", name, number)
            if data.draw(st.booleans()):
                await desk.clock.sleep_ms(TIMEOUT_MS)
            has = data.draw(st.integers(has, desk.partition.log.log_end_offset))
            desk.follow(has)
            assert counter.totals == dict(sets[: desk.partition.log.high_watermark])

    play(scenario)


def test_a_load_ends_where_the_log_ended_and_waits_until_all_of_that_is_committed() -> None:
    async def scenario(desk: Desk) -> None:
        desk.runtime.start()
        partition = await desk.become_leader_or_follower(1, FOLLOWER_ID)
        for number in range(3):
            builder = BatchBuilder()
            builder.append(1, b"a", b"%d" % number)
            partition.append_as_coordinator(bytearray(builder.build()), 1)
        desk.follow(1)
        desk.runtime.load(partition)
        await desk.clock.sleep_ms(10_000)
        assert desk.runtime.is_loading
        desk.follow(2)
        await desk.clock.sleep_ms(10_000)
        assert desk.runtime.is_loading
        desk.follow(3)
        await desk.clock.sleep_ms(1_000)
        assert desk.runtime.shard(0).totals == {b"a": 2}

    play(scenario)


def test_a_partition_lost_while_it_loads_is_not_served() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve()
        desk.ask("set", b"a", 1)
        desk.runtime.unload(0)
        desk.runtime.load(desk.partition)
        desk.runtime.unload(0)
        await desk.clock.sleep_ms(1_000)
        assert desk.runtime.shards() == []
        assert not desk.runtime.is_loading
        desk.runtime.load(desk.partition)
        await desk.loaded()
        assert desk.runtime.shard(0).totals == counter.totals == {b"a": 1}

    play(scenario)


def test_a_command_for_all_reaches_a_loading_partition_as_soon_as_it_is_loaded() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve()
        desk.runtime.submit_to_all(("set", b"a", 1))
        assert counter.totals == {b"a": 1}
        desk.runtime.unload(0)
        desk.runtime.load(desk.partition)
        desk.runtime.submit_to_all(("set", b"b", 2))
        await desk.loaded()
        assert desk.runtime.shard(0).totals == {b"a": 1, b"b": 2}

    play(scenario)


def test_a_command_for_all_harms_nobody_if_a_machine_has_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(desk: Desk) -> None:
        await desk.serve()
        with caplog.at_level(logging.ERROR):
            desk.runtime.submit_to_all(("nonsense",))
        assert desk.ask("set", b"a", 1) == ["done"]

    play(scenario)
    assert "coordinators.coordinator_event_failed" in caplog.text


def test_a_stopped_runtime_takes_no_partition() -> None:
    async def scenario(desk: Desk) -> None:
        await desk.serve()
        await desk.runtime.stop()
        desk.runtime.load(desk.partition)
        assert (desk.runtime.is_loading, desk.runtime.shards()) == (False, [])

    play(scenario)


def test_a_marker_appended_while_its_partition_loads_ends_the_transaction() -> None:
    async def scenario(desk: Desk) -> None:
        await desk.serve()
        desk.ask("set", b"a", 1, 5)
        desk.runtime.unload(0)
        desk.runtime.load(desk.partition)
        end_transaction(desk, 5, commits=True)
        await desk.loaded()
        assert desk.runtime.shard(0).durable == ({b"a": 1}, {})

    play(scenario)


def flip(desk: Desk, position: int) -> None:
    path = "/data/__counters-0/00000000000000000000.log"
    log = desk.files.open(path)
    log.write_at(position, bytes([log.read_at(position, 1)[0] ^ 0xFF]))


@pytest.mark.parametrize("where", ["records", "size"])
def test_what_cannot_be_read_is_told_and_passed_over(where: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(desk: Desk) -> None:
        await desk.serve()
        for name in (b"a", b"b", b"c"):
            desk.ask("set", name, 1)
        await desk.partition.log.flush()
        size = desk.partition.log.size_bytes // 3
        desk.partition.log.roll(desk.clock.wall_ms())
        desk.ask("set", b"d", 1)
        flip(desk, 2 * size - 1 if where == "records" else size + 8)
        with caplog.at_level(logging.ERROR):
            loaded = await desk.reload()
        kept = [b"a", b"c", b"d"] if where == "records" else [b"a", b"d"]
        assert loaded.totals == dict.fromkeys(kept, 1)

    play(scenario)
    assert "coordinators.batch_skipped" in caplog.text


def test_an_entry_that_the_machine_cannot_read_is_told_and_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(desk: Desk) -> None:
        await desk.serve()
        desk.ask("set", b"a", 1)
        builder = BatchBuilder()
        builder.append(1, b"b", b"not a number")
        builder.append(1, b"c", b"3")
        desk.partition.append_as_coordinator(bytearray(builder.build()), 1)
        with caplog.at_level(logging.ERROR):
            assert (await desk.reload()).totals == {b"a": 1, b"c": 3}

    play(scenario)
    assert "coordinators.record_skipped" in caplog.text


def test_a_log_that_cannot_be_read_for_a_while_is_read_on_later(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(desk: Desk) -> None:
        await desk.serve()
        desk.ask("set", b"a", 1)
        desk.runtime.unload(0)
        log, read = desk.partition.log, type(desk.partition.log).read
        tries = 0

        def fail_first(*given: Any, **how: Any) -> Any:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise OSError(5, "not now")
            return read(log, *given, **how)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(log), "read", lambda self, *given, **how: fail_first(*given, **how))
            desk.runtime.load(desk.partition)
            await desk.clock.sleep_ms(1_000)
        assert (tries, desk.runtime.shard(0).totals) == (2, {b"a": 1})

    play(scenario)
    assert "coordinators.load_delayed" in caplog.text


def test_a_long_log_is_applied_while_others_get_their_turn() -> None:
    async def scenario(desk: Desk) -> None:
        partition = await desk.become_leader_or_follower()
        builder = BatchBuilder()
        for number in range(5_000):
            builder.append(1, b"%d" % number, b"1")
        partition.append_as_coordinator(bytearray(builder.build()), 1)
        applied: list[int] = []

        class Watched(Counter):
            def replay(self, entry: Any, producer_id: int = -1) -> None:
                super().replay(entry, producer_id)
                applied.append(turns)

        turns = 0
        desk.runtime._make_shard = lambda number: Watched()
        desk.runtime.start()
        desk.runtime.load(partition)
        while desk.runtime.is_loading:
            turns += 1
            await asyncio.sleep(0)
        assert len(applied) == 5_000
        assert max(applied.count(turn) for turn in set(applied)) <= 100

    play(scenario)


def test_a_load_does_not_wait_for_the_disk_on_the_loop() -> None:
    async def scenario(desk: Desk) -> None:
        await desk.serve()
        for number in range(20):
            desk.ask("set", b"%d" % number, number)
        desk.partition.log.roll(desk.clock.wall_ms())
        desk.ask("set", b"z", 1)
        desk.runtime.unload(0)
        desk.partition.log.segments[0].context.opened.let_all_go()
        for name in desk.files.list_names("/data/__counters-0"):
            desk.files.evict_from_cache(f"/data/__counters-0/{name}")
        desk.runtime.load(desk.partition)
        await desk.loaded()
        assert len(desk.runtime.shard(0).totals) == 21
        assert desk.files.blocking_reads == 0

    play(scenario, config=LogConfig(segment_bytes=500))


def test_a_stamped_append_from_a_replaced_producer_is_refused() -> None:
    async def scenario(desk: Desk) -> None:
        await desk.serve()
        marker = EndTransactionMarker(ControlRecordType.COMMIT, 0)
        desk.partition.append_end_marker(marker, 5, 3, desk.clock.wall_ms())
        assert desk.ask("set", b"a", 1, 5) == [ErrorCode.INVALID_PRODUCER_EPOCH]

    play(scenario)


def test_what_compaction_left_empty_is_passed_over_up_to_the_end() -> None:
    async def scenario(desk: Desk) -> None:
        await desk.serve()
        assert await read_chunk(desk.partition, 0, 0, 1 << 20) == ([], 0, [])
        desk.ask("set", b"a", 1)
        desk.partition.log.skip_to(10, desk.clock.wall_ms())
        piece = await read_chunk(desk.partition, 0, 10, 1 << 20)
        assert ([one.entry.key for one in piece.told], piece.next_offset) == ([b"a"], 1)
        assert await read_chunk(desk.partition, 1, 10, 1 << 20) == ([], 10, [])

    play(scenario)


def test_a_batch_that_is_cut_off_is_told_and_does_not_stop_the_load() -> None:
    cut_off = SimpleNamespace(read=lambda: b"\0" * 11 + b"\xff" + b"\0" * 70)
    assert _decode(cut_off, 7, 20) == LogChunk(
        [], 20, ["from 7 on: CORRUPT_MESSAGE: a batch is not there as a whole"]
    )


def test_a_transaction_ends_once_the_replicas_have_its_marker() -> None:
    async def scenario(desk: Desk) -> None:
        counter = await desk.serve(1, FOLLOWER_ID)
        desk.ask("set", b"a", 1, 5)
        desk.follow(1)
        end_transaction(desk, 5, commits=True)
        assert (counter.totals, list(counter.open)) == ({}, [5])
        desk.follow(2)
        assert (counter.totals, counter.open) == ({b"a": 1}, {})

    play(scenario)
