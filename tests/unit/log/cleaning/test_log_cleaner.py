"""Log cleaner, on in-memory files and virtual time."""

import asyncio
import errno
from collections.abc import Callable
from typing import Any

import pytest

from odradek.log.checkpoints import read_offsets
from odradek.log.cleaning.cleanable_offsets import find_cleanable_offsets
from odradek.log.directory.log_directory import LogDirectory
from odradek.log.log_config import CleanerConfig
from odradek.log.old_segments import delete_old_segments, delete_pending_segments
from odradek.log.segments.cleaned_segment import remove_leftovers
from odradek.log.segments.segment_format import OFFSETS, TIMES
from odradek.model.errors import StorageError
from odradek.model.ids import TopicPartition
from odradek.model.protocol_enums import Compression
from odradek.ports.files import FileSlice
from odradek.records.layout import Record
from odradek.records.message_set import write_message_set

from .cleaner_harness import ORDERS, PATH, CleanerHarness, compacted

HOUR_MS = 3_600_000
A, B, C = b"a", b"b", b"c"


# Retained records.


def test_latest_record_of_each_key_keeps_its_offset(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (B, b"1"), (A, b"2"))
        await harness.write((C, b"1"), (B, b"2"))
        harness.append((A, b"3"))
        assert await harness.clean()
        assert harness.records() == [(2, A, b"2"), (3, C, b"1"), (4, B, b"2"), (5, A, b"3")]
        assert harness.log.log_end_offset == 6
        assert harness.directory.cleaned_offsets == {ORDERS: 5}
        assert not await harness.clean()

    run(scenario)


def test_record_of_maximum_decompressed_size_is_cleaned(run: Callable[..., None]) -> None:
    """More than 100 MiB decompressed, a few KiB compressed: an accepted record must not block cleaning."""
    large = bytes(101 << 20)

    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, large), compression=Compression.ZSTD)
        await harness.write((B, b"1"), (A, b"2"))
        harness.append((C, b"1"))
        assert await harness.clean()
        assert [(offset, key) for offset, key, _ in harness.records()] == [(1, B), (2, A), (3, C)]

    run(scenario)


def test_segments_are_merged_and_old_files_deleted_after_the_delay(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        for number in range(5):
            await harness.write((A, b"%d" % number))
        assert await harness.clean()
        assert [segment.base_offset for segment in harness.log.segments] == [0, 5]
        assert len(harness.names(".log.deleted")) == 5
        assert await delete_pending_segments(harness.log, harness.clock.monotonic_ms()) == 0
        await harness.clock.sleep_ms(harness.config.file_delete_delay_ms)
        assert await delete_pending_segments(harness.log, harness.clock.monotonic_ms()) == 5
        assert harness.names(".deleted", ".swap", ".cleaned") == []
        assert harness.values() == [(A, b"4")]

    run(scenario)


def test_read_in_progress_survives_segment_replacement(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (A, b"2"))
        slice_in_use = harness.log.read(0, 1 << 20).data
        assert isinstance(slice_in_use, FileSlice)
        before = slice_in_use.read()
        await harness.clean()
        await harness.clock.sleep_ms(harness.config.file_delete_delay_ms)
        await delete_pending_segments(harness.log, harness.clock.monotonic_ms())
        assert slice_in_use.read() == before

    run(scenario)


def test_log_end_offset_is_kept_when_all_records_are_removed(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (B, b"1"))
        await harness.write((A, None), (B, None))
        harness.configure(delete_retention_ms=0)
        await harness.clean()
        await harness.write((C, b"1"))
        await harness.clock.sleep_ms(1)
        await harness.clean()
        assert harness.records() == [(4, C, b"1")]
        await harness.directory.close()
        await harness.open()
        assert (harness.log.log_end_offset, harness.records()) == (5, [(4, C, b"1")])

    run(scenario)


def test_tombstone_is_kept_for_delete_retention_ms(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (B, b"1"), (A, None))
        await harness.clean()
        assert harness.values() == [(B, b"1"), (A, None)]
        await harness.clock.sleep_ms(HOUR_MS - 1)
        await harness.write((C, b"1"))
        await harness.clean()
        assert harness.values() == [(B, b"1"), (A, None), (C, b"1")]
        await harness.clock.sleep_ms(1)
        await harness.write((C, b"2"))
        await harness.clean()
        assert harness.values() == [(B, b"1"), (C, b"2")]

    run(scenario, delete_retention_ms=HOUR_MS)


@pytest.mark.parametrize("codec", list(Compression))
def test_batches_of_every_codec_are_cleaned(run: Callable[..., None], codec: Compression) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        for number in range(3):
            harness.append(
                *((b"%d" % key, b"%d" % number * 50) for key in range(number, 5)), compression=codec
            )
        await harness.seal()
        await harness.clean()
        assert harness.values() == [
            (b"0", b"0" * 50), (b"1", b"1" * 50), *((b"%d" % key, b"2" * 50) for key in range(2, 5))
        ]  # fmt: skip
        assert {header.compression for header, _ in harness.batches()} == {codec}

    run(scenario)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_cleaned_without_conversion(
    run: Callable[..., None], magic: int, codec: Compression
) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        pairs = [(A, b"1"), (B, b"1"), (A, b"2"), (C, b"1"), (B, None)]
        for number in range(0, len(pairs), 2):
            some = [Record(at, 1000 + at, *pairs[at]) for at in range(number, min(number + 2, len(pairs)))]
            harness.log.append_as_follower(bytearray(write_message_set(some, magic, codec)), 0, 0)
        harness.log.high_watermark = harness.log.log_end_offset
        await harness.seal()
        assert await harness.clean()
        assert harness.records() == [(2, A, b"2"), (3, C, b"1"), (4, B, None)]
        assert {header.magic for header, _ in harness.batches()} == {magic}
        # Old formats have no delete horizon: the age of the last clean segment counts.
        await harness.clock.sleep_ms(2 * HOUR_MS)
        for value in (b"2", b"3"):
            assert (4, B, None) in harness.records()
            harness.configure(segment_bytes=1000)
            await harness.write((C, value))
            harness.configure(segment_bytes=1)
            assert await harness.clean()
        assert harness.values() == [(A, b"2"), (C, b"3")]

    run(scenario, delete_retention_ms=HOUR_MS)


def test_batches_larger_than_the_read_buffer_are_cleaned(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        large = b"x" * 300_000
        await harness.write((A, large), (B, large + b"1"), (A, large + b"2"), (C, b"3"))
        assert await harness.clean()
        assert harness.values() == [(B, large + b"1"), (A, large + b"2"), (C, b"3")]

    run(scenario)


def test_last_batch_of_a_producer_is_retained_as_an_empty_batch(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        for number in range(3):
            harness.append((A, b"%d" % number), producer_id=7, producer_epoch=0, base_sequence=number)
        await harness.write((A, b"9"))
        await harness.clean()
        assert harness.values() == [(A, b"9")]
        assert [
            (header.last_offset, header.producer_id, header.count) for header, _ in harness.batches()
        ] == [
            (2, 7, 0),
            (3, -1, 1),
        ]
        await harness.directory.close()
        await harness.open()
        with pytest.raises(Exception, match="must follow"):
            harness.append((A, b"x"), producer_id=7, producer_epoch=0, base_sequence=7)
        assert harness.append((A, b"x"), producer_id=7, producer_epoch=0, base_sequence=3) == 4

    run(scenario)


def test_aborted_transaction_stays_indexed_while_a_batch_is_left(
    run: Callable[..., None],
) -> None:
    """The last batch of the producer is retained as an empty batch: consumers need the index entry."""

    async def scenario(harness: CleanerHarness) -> None:
        harness.append((A, b"1"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        harness.abort(7)
        await harness.write((B, b"2"))
        await harness.clean()
        assert harness.values() == [(B, b"2")]
        before = [
            (entry.producer_id, entry.first_offset)
            for entry in harness.log.aborted_transactions_between(0, 9)
        ]
        await harness.directory.close()
        await harness.open()
        after = [
            (entry.producer_id, entry.first_offset)
            for entry in harness.log.aborted_transactions_between(0, 9)
        ]
        assert before == after == [(7, 0)]
        assert harness.names(".txnindex") == ["00000000000000000000.txnindex"]

    run(scenario)


def test_aborted_records_do_not_replace_others_after_a_restart(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"))
        harness.append((A, b"2"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        harness.abort(7)
        await harness.seal()
        await harness.directory.close()
        await harness.open()
        await harness.clean()
        assert harness.values() == [(A, b"1")]
        assert [entry.producer_id for entry in harness.log.aborted_transactions_between(0, 9)] == [7]

    run(scenario)


def test_marker_is_removed_after_its_records_and_the_delete_horizon(run: Callable[..., None]) -> None:
    def markers(harness: CleanerHarness) -> list[int]:
        return [header.last_offset for header, records in harness.batches() if header.is_control and records]

    async def scenario(harness: CleanerHarness) -> None:
        for number, key in enumerate((A, B)):
            harness.append(
                (key, b"1"), producer_id=7, producer_epoch=0, base_sequence=number, transactional=True
            )
            harness.commit(7)
        await harness.write((A, b"2"))
        await harness.clean()
        assert markers(harness) == [1, 3], "consumers may have read the removed records"
        await harness.write((A, b"3"))
        await harness.clean()
        assert markers(harness) == [1, 3]
        await harness.clock.sleep_ms(HOUR_MS + 1)
        await harness.write((A, b"4"))
        await harness.clean()
        assert markers(harness) == [3], "B is still there"

    run(scenario, delete_retention_ms=HOUR_MS)


def test_leftover_files_are_durably_deleted_before_a_cleaning(
    run: Callable[..., None], new_entropy: Callable[[int], Any]
) -> None:
    left = ["00000000000000000099.index.swap", "00000000000000000099.log.cleaned"]

    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (A, b"2"))
        for seed in range(6):
            for name in left:
                harness.files.write_whole(f"{PATH}/{name}", b"half")
            harness.files.sync_dir(PATH)
            remove_leftovers(harness.files, PATH)
            harness.files.crash(new_entropy(seed))
            assert harness.names(".swap", ".cleaned") == []
        assert harness.names(".log")

    run(scenario)


def test_timestamps_of_a_cleaned_segment_are_preserved(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (B, b"2"), timestamp=5000)
        written_ms = harness.log.segments[0].modified_ms()
        await harness.clock.sleep_ms(HOUR_MS)
        await harness.write((A, b"2"), timestamp=9000)
        newest_written_ms = harness.log.segments[1].modified_ms()
        harness.configure(segment_bytes=1)
        await harness.clean()
        assert [segment.largest_timestamp() for segment in list(harness.log.segments)[:2]] == [5000, 9000]
        assert [segment.modified_ms() for segment in list(harness.log.segments)[:2]] == [
            written_ms,
            newest_written_ms,
        ]

    run(scenario)


def offset_at(harness: CleanerHarness, timestamp: int) -> int:
    record = harness.log.segments.find_offset_by_timestamp(timestamp, harness.log.log_start_offset)
    assert record is not None
    return record.offset


def test_lookups_by_offset_and_timestamp_after_cleaning(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        for number in range(60):
            harness.append((b"%d" % (number % 7), b"x" * 100), timestamp=1000 + number)
        await harness.seal()
        harness.append((b"end", b"x"), timestamp=5000)
        await harness.clean()
        left = [offset for offset, _, _ in harness.records()]
        assert left == [*range(53, 61)]
        assert offset_at(harness, 1000) == 53
        assert offset_at(harness, 1055) == 55
        assert offset_at(harness, 2000) == 60

    run(scenario, index_interval_bytes=256)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_indexes_of_a_cleaned_segment_are_valid(run: Callable[..., None], codec: Compression) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        entropy = harness.entropy
        for number in range(400):
            value = entropy.token(2000)
            harness.append(
                (b"%d" % (number // 2), value), timestamp=10_000 + number * 7 % 397, compression=codec
            )
        await harness.seal()
        assert await harness.clean()
        segment = harness.log.segments[0]
        batches = {batch.last_offset: batch for batch in segment.walk(0)}
        offsets, times = OFFSETS.entries(segment.offset_index()), TIMES.entries(segment.time_index())
        assert len(offsets) >= 2
        assert all(batches[offset].position == position for offset, position in offsets)
        assert (
            times[-1][0]
            == max(batch.max_timestamp for batch in batches.values())
            == segment.largest_timestamp()
        )
        assert all(batches[offset].max_timestamp == timestamp for timestamp, offset in times)
        for timestamp in range(10_000, 10_397, 13):
            first = next(batch for batch in batches.values() if batch.max_timestamp >= timestamp)
            assert offset_at(harness, timestamp) == first.last_offset

    run(scenario)


def test_discarded_batches_are_not_indexed(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((B, b"x" * 5000))
        await harness.write((A, b"1"))
        await harness.write((A, b"2"))
        assert await harness.clean()
        segment = harness.log.segments[0]
        batches = {batch.last_offset: batch.position for batch in segment.walk(0)}
        assert batches.keys() == {0, 2}
        entries = OFFSETS.entries(harness.files.read_whole(segment.path(".index")))
        assert list(entries) == [(2, batches[2])]

    run(scenario)


# Uncleanable records.


def test_active_segment_and_unflushed_records_are_not_cleaned(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        harness.append((A, b"1"), (A, b"2"))
        harness.log.roll(harness.clock.wall_ms())
        harness.append((A, b"3"), (A, b"4"))
        assert not await harness.clean()
        await harness.log.flush()
        assert await harness.clean()
        assert harness.values() == [(A, b"2"), (A, b"3"), (A, b"4")]

    run(scenario)


def test_records_above_the_high_watermark_are_not_cleaned(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (A, b"2"))
        await harness.write((A, b"3"))
        harness.log.high_watermark = 2
        await harness.clean()
        assert harness.values() == [(A, b"2"), (A, b"3")]

    run(scenario)


def test_topic_without_compaction_is_not_cleaned(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (A, b"2"))
        assert not await harness.clean()

    run(scenario, cleanup_policy=("delete",))


def test_records_are_cleaned_after_min_compaction_lag(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (A, b"2"))
        await harness.clock.sleep_ms(HOUR_MS - 1)
        assert not await harness.clean()
        await harness.clock.sleep_ms(1)
        assert await harness.clean()

    run(scenario, min_compaction_lag_ms=HOUR_MS)


def test_clean_log_is_cleaned_after_max_compaction_lag(
    run: Callable[..., None],
) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write(*((b"%d" % number, b"x" * 100) for number in range(20)))
        assert await harness.clean()
        await harness.write((b"1", b"y"))
        await harness.clock.sleep_ms(HOUR_MS)
        assert not await harness.clean()
        await harness.clock.sleep_ms(1)
        assert await harness.clean()
        assert harness.directory.cleaned_offsets == {ORDERS: 21}

    run(scenario, min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=HOUR_MS)


def test_records_before_the_log_start_offset_are_ignored(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (B, b"1"), (A, b"2"), (C, b"1"))
        harness.log.advance_log_start_offset(2)
        await harness.clean()
        assert harness.records() == [(2, A, b"2"), (3, C, b"1")]

    run(scenario)


# Memory.


def test_small_offset_map_needs_several_cleanings(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        harness.cleaner_config = CleanerConfig(map_bytes_all=24 * 10, load_factor=0.5)
        for number in range(4):
            await harness.write(*((b"%d" % key, b"%d" % number) for key in range(10)))
        assert await harness.clean_all() > 4
        assert harness.values() == [(b"%d" % key, b"3") for key in range(10)]
        assert harness.directory.cleaned_offsets == {ORDERS: 40}

    run(scenario)


def test_segments_after_the_cleaned_section_are_not_rewritten(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        harness.cleaner_config = CleanerConfig(map_bytes_all=24 * 10, load_factor=0.5)
        harness.configure(segment_bytes=1000)
        for number in range(4):
            await harness.write(*((b"%d-%d" % (number, key), b"x" * 100) for key in range(4)))
        harness.configure(segment_bytes=1)
        assert await harness.clean()
        assert harness.directory.cleaned_offsets[ORDERS] < 8
        assert harness.steps.count("segments_replaced") <= 2

    run(scenario)


def test_unreadable_log_does_not_prevent_cleaning_of_others(
    run: Callable[..., None],
) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        other = await harness.directory.create(TopicPartition("others", 0), harness.config, None)
        await harness.write((A, b"1"), (A, b"2"))

        async def fail_other(log: Any, *arguments: Any) -> Any:
            if log is other:
                raise OSError(errno.EMFILE, "Too many open files")
            return await find_cleanable_offsets(log, *arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("odradek.log.cleaning.log_cleaner.find_cleanable_offsets", fail_other)
            assert await harness.clean()
        assert harness.values() == [(A, b"2")]

    run(scenario)


# Pauses, aborts and failures.


def test_paused_partition_is_not_cleaned_until_every_pause_is_resumed(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (A, b"2"))
        await harness.cleaner.pause(ORDERS)
        await harness.cleaner.pause(ORDERS)
        harness.cleaner.resume(ORDERS)
        assert not await harness.clean()
        harness.cleaner.resume(ORDERS)
        harness.cleaner.resume(ORDERS)
        assert await harness.clean()

    run(scenario)


@pytest.mark.parametrize("step", ["offset_map_built", "segments_filtered", "segment_synced"])
def test_cleaning_in_progress_ends_before_a_pause(run: Callable[..., None], step: str) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (A, b"2"))
        pausing: list[asyncio.Task[None]] = []

        def at_step(name: str) -> None:
            if name == step:
                pausing.append(asyncio.get_running_loop().create_task(harness.cleaner.pause(ORDERS)))

        harness.cleaner._on_step = at_step
        harness.cleaner_config = CleanerConfig(bytes_per_second=1_000_000)
        await harness.clean()
        await pausing[0]
        assert harness.names(".cleaned", ".swap") == []
        assert harness.values()[-1] == (A, b"2")
        harness.cleaner.resume(ORDERS)
        harness.cleaner._on_step = lambda _: None
        await harness.clean_all()
        assert harness.values() == [(A, b"2")]

    run(scenario)


@pytest.mark.parametrize("step", ["offset_map_built", "segments_filtered", "segment_synced"])
def test_log_truncated_during_a_cleaning_keeps_its_records(run: Callable[..., None], step: str) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (B, b"1"))
        await harness.write((A, b"2"))

        def cut(name: str) -> None:
            if name == step:
                harness.log.truncate_to(2, harness.clock.wall_ms())

        harness.cleaner._on_step = cut
        assert not await harness.clean()
        assert harness.values() == [(A, b"1"), (B, b"1")]
        assert harness.names(".cleaned", ".swap") == []

    run(scenario)


@pytest.mark.parametrize("step", ["offset_map_built", "segments_filtered", "segment_synced"])
def test_cleaning_ends_when_the_log_is_deleted(run: Callable[..., None], step: str) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (A, b"2"))
        log = harness.log

        def delete(name: str) -> None:
            if name == step:
                harness.directory.delete(ORDERS, 0)

        harness.cleaner._on_step = delete
        await harness.clean()
        assert (log.failure, harness.directory.failure) == (None, None)
        assert ORDERS not in harness.directory.cleaned_offsets
        assert harness.cleaner.uncleanable == {}

    run(scenario)


def test_segments_deleted_by_retention_during_a_cleaning_stay_deleted(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (B, b"1"))
        await harness.write((A, b"2"), (C, b"1"))
        deleting: list[asyncio.Task[Any]] = []

        def retain(name: str) -> None:
            if name == "offset_map_built":
                harness.log.advance_log_start_offset(2)
                deleting.append(
                    asyncio.get_running_loop().create_task(
                        delete_old_segments(harness.log, harness.clock.wall_ms(), 0)
                    )
                )

        harness.cleaner._on_step = retain
        harness.cleaner_config = CleanerConfig(bytes_per_second=100_000)
        await harness.clean()
        await deleting[0]
        assert harness.records() == [(2, A, b"2"), (3, C, b"1")]
        assert [segment.base_offset for segment in harness.log.segments] == [2, 4]

    run(scenario)


@pytest.mark.parametrize(
    "name_end", [".log.cleaned", ".index.cleaned", "recovery-point-offset-checkpoint.tmp"]
)
def test_cleaning_is_aborted_on_a_full_disk_and_retried(run: Callable[..., None], name_end: str) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (A, b"2"))
        harness.files.fail_next_write(errno.ENOSPC, name_end=name_end)
        assert not await harness.clean()
        assert (harness.names(".cleaned", ".swap"), harness.log.failure) == ([], None)
        assert await harness.clean()
        assert harness.values() == [(A, b"2")]

    run(scenario)


def test_failed_sync_takes_the_directory_offline(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (A, b"2"))
        harness.files.fail_next_sync(errno.EIO, name_end=".cleaned")
        assert not await harness.clean()
        assert isinstance(harness.directory.failure, StorageError)

    run(scenario)


def test_corrupt_log_is_marked_uncleanable_and_others_are_cleaned(
    run: Callable[..., None], batch: Callable[..., bytearray]
) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (A, b"2"))
        harness.files.open(f"{PATH}/00000000000000000000.log").write_at(65, b"\xff")
        other = TopicPartition("other", 0)
        log = await harness.directory.create(other, compacted(), None)
        for number in range(2):
            log.append_as_leader(batch(), 0, number)
        log.roll(0)
        await log.flush()
        log.high_watermark = 2
        assert not await harness.clean()
        assert "CRC of a batch" in harness.cleaner.uncleanable[ORDERS]
        assert await harness.clean()
        assert harness.directory.cleaned_offsets == {other: 2}
        harness.directory.delete(ORDERS, 0)
        await harness.directory.create(ORDERS, harness.config, None)
        await harness.write((A, b"1"), (A, b"2"))
        assert await harness.clean()
        assert harness.cleaner.uncleanable == {}

    run(scenario)


def test_log_with_an_unexpected_error_is_marked_uncleanable(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (A, b"2"))

        def fail_at_step(name: str) -> None:
            if name == "segments_filtered":
                raise ZeroDivisionError("unexpected")

        harness.cleaner._on_step = fail_at_step
        harness.cleaner.start()
        await harness.clock.sleep_ms(1)
        assert "unexpected" in harness.cleaner.uncleanable[ORDERS]
        assert harness.names(".cleaned", ".swap") == []
        assert harness.log.failure is None
        await harness.cleaner.stop()

    run(scenario)


# Checkpoints.


def test_cleaner_checkpoint_survives_a_restart(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (A, b"2"))
        await harness.clean()
        await harness.directory.close()
        await harness.open()
        assert harness.directory.cleaned_offsets == {ORDERS: 2}
        assert not await harness.clean()
        harness.log.truncate_to(1, 0)
        assert harness.directory.cleaned_offsets == {ORDERS: 1}

    run(scenario)


def test_cleaner_checkpoint_moves_with_the_log_to_another_directory(
    run: Callable[..., None], new_entropy: Callable[[int], Any]
) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (A, b"2"))
        await harness.clean()
        target = LogDirectory.open(harness.files, "/other", new_entropy(2))
        await target.create(ORDERS, harness.config, None)
        harness.directory.delete(ORDERS, 0)
        harness.cleaner.move_checkpoint(ORDERS, harness.directory, target)
        await harness.clean()
        assert (harness.directory.cleaned_offsets, target.cleaned_offsets) == ({}, {ORDERS: 2})
        assert read_offsets(harness.files, "/data/cleaner-offset-checkpoint") == {}
        assert read_offsets(harness.files, "/other/cleaner-offset-checkpoint") == {ORDERS: 2}

    run(scenario)


def test_new_log_of_the_same_name_is_dirty(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (A, b"2"))
        await harness.clean()
        harness.directory.delete(ORDERS, 0)
        await harness.directory.create(ORDERS, harness.config, None)
        assert harness.directory.cleaned_offsets == {}
        await harness.write((A, b"1"), (A, b"2"))
        assert await harness.clean()

    run(scenario)


def test_invalid_cleaner_checkpoint_is_reset(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (A, b"2"))
        harness.directory.cleaned_offsets[ORDERS] = 99
        assert await harness.clean()
        assert harness.directory.cleaned_offsets == {ORDERS: 2}

    run(scenario)


def test_cleaning_overtaken_by_a_truncation_does_not_move_the_checkpoint(run: Callable[..., None]) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (A, b"2"))

        def truncate(name: str) -> None:
            if name == "segments_replaced":
                harness.log.truncate_to(1, 0)

        harness.cleaner._on_step = truncate
        assert not await harness.clean()
        assert harness.directory.cleaned_offsets.get(ORDERS, 0) <= 1

    run(scenario)


class ProcessEnded(BaseException):
    """Raised to simulate a crash."""


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("renames_first", [False, True])
def test_truncation_during_a_swap_does_not_bring_batches_back(
    run: Callable[..., None], renames_first: bool, is_full: bool
) -> None:
    async def scenario(harness: CleanerHarness) -> None:
        await harness.write((A, b"1"), (A, b"2"))
        offload, remove = harness.files.offload, harness.files.remove

        def end(*arguments: Any) -> Any:
            raise ProcessEnded

        def end_in_swap(work: Callable[[], Any]) -> Any:
            if getattr(work, "__name__", "") != "rename_to_swap":
                return offload(work)
            if renames_first:
                work()
            if is_full:
                harness.log.truncate_fully_and_start_at(1, 0)
            else:
                harness.log.truncate_to(1, 0)
            if not renames_first:
                work()
            harness.files.remove = end  # type: ignore[method-assign, assignment]
            return end()

        harness.files.offload = end_in_swap  # type: ignore[method-assign]
        with pytest.raises(ProcessEnded):
            await harness.clean()
        harness.files.offload, harness.files.remove = offload, remove  # type: ignore[method-assign]
        harness.directory.abandon()
        await harness.open()
        assert harness.values() == ([] if is_full else [(A, b"1")])
        assert harness.log.log_end_offset == 1

    run(scenario)
