"""Loading of a shard from the log of its partition."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinators.coordinator_context import CoordinatorRuntimeSettings
from odradek.coordinators.loader import LogChunk, WrittenRecord, _decode, read_chunk
from odradek.log.log_config import LogConfig
from odradek.model.errors import ErrorCode
from odradek.records.batch import BatchBuilder
from odradek.records.control_records import ControlRecordType, EndTransactionMarker

from .runtime_fixture import FOLLOWER_ID, TIMEOUT_MS, Counter, RuntimeFixture, run_scenario

NAMES = st.sampled_from([b"a", b"b", b"c"])
STEPS = st.one_of(
    st.tuples(st.just("set"), NAMES, st.none() | st.integers(0, 9)),
    st.tuples(st.just("set"), NAMES, st.none() | st.integers(0, 9), st.integers(5, 6)),
    st.tuples(st.just("set twice"), NAMES, st.integers(0, 9)),
    st.tuples(st.just("end"), st.integers(5, 6), st.booleans()),
)


def end_transaction(fixture: RuntimeFixture, producer_id: int, *, commits: bool) -> None:
    """Append a transaction marker and notify the runtime, as a transaction coordinator does."""
    marker = EndTransactionMarker(ControlRecordType.COMMIT if commits else ControlRecordType.ABORT, 0)
    appended = fixture.partition.append_end_marker(marker, producer_id, 0, fixture.clock.wall_ms())
    fixture.runtime.transaction_ended(0, producer_id, commits=commits, offset=appended.last_offset)


@given(st.lists(STEPS, max_size=30), st.integers(100, 1000), st.integers(1, 400))
def test_loaded_shard_has_the_state_of_the_shard_that_wrote_the_log(
    steps: list[Any], segment_bytes: int, load_bytes_max: int
) -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve()
        for step in steps:
            if step[0] == "end":
                end_transaction(fixture, step[1], commits=step[2])
            else:
                assert fixture.submit(*step) == ["done"]
        assert (await fixture.reload()).durable == counter.durable

    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=50)
    run_scenario(scenario, config=config, settings=CoordinatorRuntimeSettings(TIMEOUT_MS, load_bytes_max))


@given(st.lists(st.tuples(NAMES, st.integers(0, 9)), max_size=12), st.data())
def test_state_is_that_of_the_log_up_to_the_high_watermark(
    sets: list[tuple[bytes, int]], data: st.DataObject
) -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve(1, FOLLOWER_ID)
        fetched = 0
        for name, number in sets:
            fixture.submit("set", name, number)
            if data.draw(st.booleans()):
                await fixture.clock.sleep_ms(TIMEOUT_MS)
            fetched = data.draw(st.integers(fetched, fixture.partition.log.log_end_offset))
            fixture.fetch_as_follower(fetched)
            assert counter.totals == dict(sets[: fixture.partition.log.high_watermark])

    run_scenario(scenario)


def test_load_waits_until_the_log_end_offset_is_committed() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        fixture.runtime.start()
        partition = await fixture.become_leader_or_follower(1, FOLLOWER_ID)
        for number in range(3):
            builder = BatchBuilder()
            builder.append(1, b"a", b"%d" % number)
            partition.append_as_coordinator(bytearray(builder.build()), 1)
        fixture.fetch_as_follower(1)
        fixture.runtime.load(partition)
        await fixture.clock.sleep_ms(10_000)
        assert fixture.runtime.is_loading
        fixture.fetch_as_follower(2)
        await fixture.clock.sleep_ms(10_000)
        assert fixture.runtime.is_loading
        fixture.fetch_as_follower(3)
        await fixture.clock.sleep_ms(1_000)
        assert fixture.runtime.shard(0).totals == {b"a": 2}

    run_scenario(scenario)


def test_partition_unloaded_during_its_load_is_not_served() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve()
        fixture.submit("set", b"a", 1)
        fixture.runtime.unload(0)
        fixture.runtime.load(fixture.partition)
        fixture.runtime.unload(0)
        await fixture.clock.sleep_ms(1_000)
        assert fixture.runtime.shards() == []
        assert not fixture.runtime.is_loading
        fixture.runtime.load(fixture.partition)
        await fixture.wait_until_loaded()
        assert fixture.runtime.shard(0).totals == counter.totals == {b"a": 1}

    run_scenario(scenario)


def test_command_to_all_is_handled_after_the_load() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve()
        fixture.runtime.submit_to_all(("set", b"a", 1))
        assert counter.totals == {b"a": 1}
        fixture.runtime.unload(0)
        fixture.runtime.load(fixture.partition)
        fixture.runtime.submit_to_all(("set", b"b", 2))
        await fixture.wait_until_loaded()
        assert fixture.runtime.shard(0).totals == {b"a": 1, b"b": 2}

    run_scenario(scenario)


def test_exception_in_a_command_to_all_is_contained(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        await fixture.serve()
        with caplog.at_level(logging.ERROR):
            fixture.runtime.submit_to_all(("unknown",))
        assert fixture.submit("set", b"a", 1) == ["done"]

    run_scenario(scenario)
    assert "coordinators.coordinator_event_failed" in caplog.text


def test_stopped_runtime_loads_no_partition() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        await fixture.serve()
        await fixture.runtime.stop()
        fixture.runtime.load(fixture.partition)
        assert (fixture.runtime.is_loading, fixture.runtime.shards()) == (False, [])

    run_scenario(scenario)


def test_marker_appended_during_a_load_ends_the_transaction() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        await fixture.serve()
        fixture.submit("set", b"a", 1, 5)
        fixture.runtime.unload(0)
        fixture.runtime.load(fixture.partition)
        end_transaction(fixture, 5, commits=True)
        await fixture.wait_until_loaded()
        assert fixture.runtime.shard(0).durable == ({b"a": 1}, {})

    run_scenario(scenario)


def corrupt_byte(fixture: RuntimeFixture, position: int) -> None:
    path = "/data/__counters-0/00000000000000000000.log"
    log = fixture.files.open(path)
    log.write_at(position, bytes([log.read_at(position, 1)[0] ^ 0xFF]))


@pytest.mark.parametrize("where", ["records", "size"])
def test_unreadable_batch_is_logged_and_skipped(where: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        await fixture.serve()
        for name in (b"a", b"b", b"c"):
            fixture.submit("set", name, 1)
        await fixture.partition.log.flush()
        size = fixture.partition.log.size_bytes // 3
        fixture.partition.log.roll(fixture.clock.wall_ms())
        fixture.submit("set", b"d", 1)
        corrupt_byte(fixture, 2 * size - 1 if where == "records" else size + 8)
        with caplog.at_level(logging.ERROR):
            loaded = await fixture.reload()
        kept = [b"a", b"c", b"d"] if where == "records" else [b"a", b"d"]
        assert loaded.totals == dict.fromkeys(kept, 1)

    run_scenario(scenario)
    assert "coordinators.batch_skipped" in caplog.text


def test_malformed_record_is_logged_and_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        await fixture.serve()
        fixture.submit("set", b"a", 1)
        builder = BatchBuilder()
        builder.append(1, b"b", b"not a number")
        builder.append(1, b"c", b"3")
        fixture.partition.append_as_coordinator(bytearray(builder.build()), 1)
        with caplog.at_level(logging.ERROR):
            assert (await fixture.reload()).totals == {b"a": 1, b"c": 3}

    run_scenario(scenario)
    assert "coordinators.record_skipped" in caplog.text


@pytest.mark.sources
def test_failed_read_is_retried(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        await fixture.serve()
        fixture.submit("set", b"a", 1)
        fixture.runtime.unload(0)
        log, read = fixture.partition.log, type(fixture.partition.log).read
        tries = 0

        def fail_first(*args: Any, **kwargs: Any) -> Any:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise OSError(5, "not now")
            return read(log, *args, **kwargs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(log), "read", lambda self, *args, **kwargs: fail_first(*args, **kwargs))
            fixture.runtime.load(fixture.partition)
            await fixture.clock.sleep_ms(1_000)
        assert (tries, fixture.runtime.shard(0).totals) == (2, {b"a": 1})

    run_scenario(scenario)
    assert "coordinators.load_delayed" in caplog.text


def test_replay_of_a_long_log_yields_to_the_event_loop() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        partition = await fixture.become_leader_or_follower()
        builder = BatchBuilder()
        for number in range(5_000):
            builder.append(1, b"%d" % number, b"1")
        partition.append_as_coordinator(bytearray(builder.build()), 1)
        replayed: list[int] = []

        class RecordingCounter(Counter):
            def replay(self, record: Any, producer_id: int = -1) -> None:
                super().replay(record, producer_id)
                replayed.append(iteration)

        iteration = 0
        fixture.runtime._make_shard = lambda number: RecordingCounter()
        fixture.runtime.start()
        fixture.runtime.load(partition)
        while fixture.runtime.is_loading:
            iteration += 1
            await asyncio.sleep(0)
        assert len(replayed) == 5_000
        assert max(replayed.count(each) for each in set(replayed)) <= 100

    run_scenario(scenario)


def test_load_does_not_block_the_event_loop_on_disk_reads() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        await fixture.serve()
        for number in range(20):
            fixture.submit("set", b"%d" % number, number)
        fixture.partition.log.roll(fixture.clock.wall_ms())
        fixture.submit("set", b"z", 1)
        fixture.runtime.unload(0)
        fixture.partition.log.segments[0].context.opened.release_all()
        for name in fixture.files.list_names("/data/__counters-0"):
            fixture.files.evict_from_cache(f"/data/__counters-0/{name}")
        fixture.runtime.load(fixture.partition)
        await fixture.wait_until_loaded()
        assert len(fixture.runtime.shard(0).totals) == 21
        assert fixture.files.blocking_reads == 0

    run_scenario(scenario, config=LogConfig(segment_bytes=500))


def test_append_of_a_fenced_producer_is_rejected() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        await fixture.serve()
        marker = EndTransactionMarker(ControlRecordType.COMMIT, 0)
        fixture.partition.append_end_marker(marker, 5, 3, fixture.clock.wall_ms())
        assert fixture.submit("set", b"a", 1, 5) == [ErrorCode.INVALID_PRODUCER_EPOCH]

    run_scenario(scenario)


def test_offsets_removed_by_compaction_are_skipped() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        await fixture.serve()
        assert await read_chunk(fixture.partition, 0, 0, 1 << 20) == ([], 0, [])
        fixture.submit("set", b"a", 1)
        fixture.partition.log.skip_to(10, fixture.clock.wall_ms())
        chunk = await read_chunk(fixture.partition, 0, 10, 1 << 20)
        assert ([cast(WrittenRecord, item).record.key for item in chunk.items], chunk.next_offset) == (
            [b"a"],
            1,
        )
        assert await read_chunk(fixture.partition, 1, 10, 1 << 20) == ([], 10, [])

    run_scenario(scenario)


@pytest.mark.sources
def test_incomplete_batch_is_reported_and_skipped() -> None:
    incomplete: Any = SimpleNamespace(read=lambda: b"\0" * 11 + b"\xff" + b"\0" * 70)
    assert _decode(incomplete, 7, 20) == LogChunk(
        [], 20, ["from 7 on: CORRUPT_MESSAGE: the batch is incomplete"]
    )


def test_marker_takes_effect_once_it_is_committed() -> None:
    async def scenario(fixture: RuntimeFixture) -> None:
        counter = await fixture.serve(1, FOLLOWER_ID)
        fixture.submit("set", b"a", 1, 5)
        fixture.fetch_as_follower(1)
        end_transaction(fixture, 5, commits=True)
        assert (counter.totals, list(counter.open)) == ({}, [5])
        fixture.fetch_as_follower(2)
        assert (counter.totals, counter.open) == ({b"a": 1}, {})

    run_scenario(scenario)
