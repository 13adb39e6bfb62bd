"""Compaction of a log, and of the logs of a broker, on files in memory and on virtual time."""

import asyncio
import errno
from collections.abc import Callable
from typing import Any

import pytest

from odradek.log.checkpoints import read_offsets
from odradek.log.cleaning.cleanable_offsets import find_cleanable_offsets
from odradek.log.cleaning.cleaner import STEPS
from odradek.log.log_config import CleanerConfig
from odradek.log.log_directory import LogDirectory
from odradek.log.segments.cleaned_segment import remove_leftovers
from odradek.log.segments.segment_format import OFFSETS, TIMES
from odradek.model.errors import StorageError
from odradek.model.ids import TopicPartition
from odradek.model.protocol_enums import Compression
from odradek.records.layout import Record
from odradek.records.message_set import write_message_set

from .cleaner_fixture import ORDERS, PATH, Scenario, Yard, compacted, play

HOUR_MS = 3_600_000
A, B, C = b"a", b"b", b"c"


@pytest.fixture
def run(new_chance: Callable[[int], Any]) -> Callable[..., None]:
    def run(scenario: Scenario, **config: Any) -> None:
        play(scenario, new_chance(1), **config)

    return run


# What stays.


def test_the_newest_record_of_each_key_stays_at_its_offset(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (B, b"1"), (A, b"2"))
        await yard.write((C, b"1"), (B, b"2"))
        yard.append((A, b"3"))
        assert await yard.clean()
        assert yard.records() == [(2, A, b"2"), (3, C, b"1"), (4, B, b"2"), (5, A, b"3")]
        assert yard.log.log_end_offset == 6
        assert yard.directory.cleaned_offsets == {ORDERS: 5}
        assert not await yard.clean()

    run(scenario)


def test_a_record_as_large_as_the_default_bound_allows_is_cleaned(run: Callable[..., None]) -> None:
    """More than 100 MiB unpacked, a few kilobytes packed: what was accepted must not stop compaction."""
    large = bytes(101 << 20)

    async def scenario(yard: Yard) -> None:
        await yard.write((A, large), compression=Compression.ZSTD)
        await yard.write((B, b"1"), (A, b"2"))
        yard.append((C, b"1"))
        assert await yard.clean()
        assert [(offset, key) for offset, key, _ in yard.records()] == [(1, B), (2, A), (3, C)]

    run(scenario)


def test_segments_are_joined_and_the_old_ones_go_after_their_delay(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        for number in range(5):
            await yard.write((A, b"%d" % number))
        assert await yard.clean()
        assert [one.base_offset for one in yard.log.segments] == [0, 5]
        assert len(yard.names(".log.deleted")) == 5
        assert await yard.log.delete_pending_segments(yard.clock.monotonic_ms()) == 0
        await yard.clock.sleep_ms(yard.config.file_delete_delay_ms)
        assert await yard.log.delete_pending_segments(yard.clock.monotonic_ms()) == 5
        assert yard.names(".deleted", ".swap", ".cleaned") == []
        assert yard.values() == [(A, b"4")]

    run(scenario)


def test_whoever_reads_a_segment_that_is_replaced_reads_on(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (A, b"2"))
        held = yard.log.read(0, 1 << 20).data
        before = held.read()
        await yard.clean()
        await yard.clock.sleep_ms(yard.config.file_delete_delay_ms)
        await yard.log.delete_pending_segments(yard.clock.monotonic_ms())
        assert held.read() == before

    run(scenario)


def test_a_log_whose_records_all_went_still_ends_where_it_did(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (B, b"1"))
        await yard.write((A, None), (B, None))
        yard.configure(delete_retention_ms=0)
        await yard.clean()
        await yard.write((C, b"1"))
        await yard.clock.sleep_ms(1)
        await yard.clean()
        assert yard.records() == [(4, C, b"1")]
        await yard.directory.close()
        await yard.open()
        assert (yard.log.log_end_offset, yard.records()) == (5, [(4, C, b"1")])

    run(scenario)


def test_a_tombstone_stays_for_as_long_as_readers_may_need_it(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (B, b"1"), (A, None))
        await yard.clean()
        assert yard.values() == [(B, b"1"), (A, None)]
        await yard.clock.sleep_ms(HOUR_MS - 1)
        await yard.write((C, b"1"))
        await yard.clean()
        assert yard.values() == [(B, b"1"), (A, None), (C, b"1")]
        await yard.clock.sleep_ms(1)
        await yard.write((C, b"2"))
        await yard.clean()
        assert yard.values() == [(B, b"1"), (C, b"2")]

    run(scenario, delete_retention_ms=HOUR_MS)


@pytest.mark.parametrize("codec", list(Compression))
def test_batches_of_every_codec_are_compacted(run: Callable[..., None], codec: Compression) -> None:
    async def scenario(yard: Yard) -> None:
        for number in range(3):
            yard.append(*((b"%d" % key, b"%d" % number * 50) for key in range(number, 5)), compression=codec)
        await yard.seal()
        await yard.clean()
        assert yard.values() == [
            (b"0", b"0" * 50), (b"1", b"1" * 50), *((b"%d" % key, b"2" * 50) for key in range(2, 5))
        ]  # fmt: skip
        assert {header.compression for header, _ in yard.batches()} == {codec}

    run(scenario)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_compacted_and_stay_what_they_are(
    run: Callable[..., None], magic: int, codec: Compression
) -> None:
    async def scenario(yard: Yard) -> None:
        pairs = [(A, b"1"), (B, b"1"), (A, b"2"), (C, b"1"), (B, None)]
        for number in range(0, len(pairs), 2):
            some = [Record(at, 1000 + at, *pairs[at]) for at in range(number, min(number + 2, len(pairs)))]
            yard.log.append_as_follower(bytearray(write_message_set(some, magic, codec)), 0, 0)
        yard.log.high_watermark = yard.log.log_end_offset
        await yard.seal()
        assert await yard.clean()
        assert yard.records() == [(2, A, b"2"), (3, C, b"1"), (4, B, None)]
        assert {header.magic for header, _ in yard.batches()} == {magic}
        # Old formats have no delete horizon: files count that are so much older than the last clean one.
        await yard.clock.sleep_ms(2 * HOUR_MS)
        for value in (b"2", b"3"):
            assert (4, B, None) in yard.records()
            yard.configure(segment_bytes=1000)
            await yard.write((C, value))
            yard.configure(segment_bytes=1)
            assert await yard.clean()
        assert yard.values() == [(A, b"2"), (C, b"3")]

    run(scenario, delete_retention_ms=HOUR_MS)


def test_batches_larger_than_a_window_are_compacted(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        large = b"x" * 300_000
        await yard.write((A, large), (B, large + b"1"), (A, large + b"2"), (C, b"3"))
        assert await yard.clean()
        assert yard.values() == [(B, large + b"1"), (A, large + b"2"), (C, b"3")]

    run(scenario)


def test_the_last_batch_of_a_producer_stays_though_empty(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        for number in range(3):
            yard.append((A, b"%d" % number), producer_id=7, producer_epoch=0, base_sequence=number)
        await yard.write((A, b"9"))
        await yard.clean()
        assert yard.values() == [(A, b"9")]
        assert [(one.last_offset, one.producer_id, one.count) for one, _ in yard.batches()] == [
            (2, 7, 0),
            (3, -1, 1),
        ]
        await yard.directory.close()
        await yard.open()
        with pytest.raises(Exception, match="does not follow"):
            yard.append((A, b"x"), producer_id=7, producer_epoch=0, base_sequence=7)
        assert yard.append((A, b"x"), producer_id=7, producer_epoch=0, base_sequence=3) == 4

    run(scenario)


def test_an_aborted_transaction_is_known_as_long_as_something_of_it_is_there(
    run: Callable[..., None],
) -> None:
    """The batch that its producer is known by stays, though empty: readers need the marker's entry."""

    async def scenario(yard: Yard) -> None:
        yard.append((A, b"1"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        yard.abort(7)
        await yard.write((B, b"2"))
        await yard.clean()
        assert yard.values() == [(B, b"2")]
        told = [(one.producer_id, one.first_offset) for one in yard.log.aborted_transactions_between(0, 9)]
        await yard.directory.close()
        await yard.open()
        again = [(one.producer_id, one.first_offset) for one in yard.log.aborted_transactions_between(0, 9)]
        assert told == again == [(7, 0)]
        assert yard.names(".txnindex") == ["00000000000000000000.txnindex"]

    run(scenario)


def test_records_that_were_aborted_before_a_restart_replace_none(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"))
        yard.append((A, b"2"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        yard.abort(7)
        await yard.seal()
        await yard.directory.close()
        await yard.open()
        await yard.clean()
        assert yard.values() == [(A, b"1")]
        assert [one.producer_id for one in yard.log.aborted_transactions_between(0, 9)] == [7]

    run(scenario)


def test_a_marker_goes_some_time_after_all_records_of_its_transaction(run: Callable[..., None]) -> None:
    def markers(yard: Yard) -> list[int]:
        return [header.last_offset for header, records in yard.batches() if header.is_control and records]

    async def scenario(yard: Yard) -> None:
        for number, key in enumerate((A, B)):
            yard.append(
                (key, b"1"), producer_id=7, producer_epoch=0, base_sequence=number, transactional=True
            )
            yard.commit(7)
        await yard.write((A, b"2"))
        await yard.clean()
        assert markers(yard) == [1, 3], "readers may have read the records that went"
        await yard.write((A, b"3"))
        await yard.clean()
        assert markers(yard) == [1, 3]
        await yard.clock.sleep_ms(HOUR_MS + 1)
        await yard.write((A, b"4"))
        await yard.clean()
        assert markers(yard) == [3], "B is there still"

    run(scenario, delete_retention_ms=HOUR_MS)


def test_files_that_an_earlier_round_left_are_gone_for_good_before_the_next(
    run: Callable[..., None], new_chance: Callable[[int], Any]
) -> None:
    left = ["00000000000000000099.index.swap", "00000000000000000099.log.cleaned"]

    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (A, b"2"))
        for seed in range(6):
            for name in left:
                yard.files.write_whole(f"{PATH}/{name}", b"half")
            yard.files.sync_dir(PATH)
            remove_leftovers(yard.files, PATH)
            yard.files.crash(new_chance(seed))
            assert yard.names(".swap", ".cleaned") == []
        assert yard.names(".log")

    run(scenario)


def test_what_retention_needs_to_know_of_a_segment_stays(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (B, b"2"), timestamp=5000)
        written_ms = yard.log.segments[0].modified_ms()
        await yard.clock.sleep_ms(HOUR_MS)
        await yard.write((A, b"2"), timestamp=9000)
        newest_written_ms = yard.log.segments[1].modified_ms()
        yard.configure(segment_bytes=1)
        await yard.clean()
        assert [one.newest_ms() for one in list(yard.log.segments)[:2]] == [5000, 9000]
        assert [one.modified_ms() for one in list(yard.log.segments)[:2]] == [written_ms, newest_written_ms]

    run(scenario)


def test_reads_by_offset_and_by_time_find_what_is_left(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        for number in range(60):
            yard.append((b"%d" % (number % 7), b"x" * 100), timestamp=1000 + number)
        await yard.seal()
        yard.append((b"end", b"x"), timestamp=5000)
        await yard.clean()
        left = [offset for offset, _, _ in yard.records()]
        assert left == [*range(53, 61)]
        assert yard.log.offset_for_timestamp(1000).offset == 53
        assert yard.log.offset_for_timestamp(1055).offset == 55
        assert yard.log.offset_for_timestamp(2000).offset == 60

    run(scenario, index_interval_bytes=256)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_the_indexes_of_a_compacted_segment_are_true(run: Callable[..., None], codec: Compression) -> None:
    async def scenario(yard: Yard) -> None:
        chance = yard.entropy
        for number in range(400):
            value = chance.token(2000)
            yard.append(
                (b"%d" % (number // 2), value), timestamp=10_000 + number * 7 % 397, compression=codec
            )
        await yard.seal()
        assert await yard.clean()
        segment = yard.log.segments[0]
        places = {one.last_offset: one for one in segment.walk(0)}
        offsets, times = OFFSETS.entries(segment.offset_index()), TIMES.entries(segment.time_index())
        assert len(offsets) >= 2
        assert all(places[offset].position == position for offset, position in offsets)
        assert times[-1][0] == max(one.max_timestamp for one in places.values()) == segment.newest_ms()
        assert all(places[offset].max_timestamp == timestamp for timestamp, offset in times)
        for timestamp in range(10_000, 10_397, 13):
            first = next(one for one in places.values() if one.max_timestamp >= timestamp)
            assert yard.log.offset_for_timestamp(timestamp).offset == first.last_offset

    run(scenario)


def test_batches_that_all_go_leave_no_entry_in_an_index(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((B, b"x" * 5000))
        await yard.write((A, b"1"))
        await yard.write((A, b"2"))
        assert await yard.clean()
        segment = yard.log.segments[0]
        places = {one.last_offset: one.position for one in segment.walk(0)}
        assert places.keys() == {0, 2}
        entries = OFFSETS.entries(yard.files.read_whole(segment.path(".index")))
        assert list(entries) == [(2, places[2])]

    run(scenario)


# What is not touched.


def test_neither_the_last_segment_nor_what_was_not_flushed_is_touched(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        yard.append((A, b"1"), (A, b"2"))
        yard.log.roll(yard.clock.wall_ms())
        yard.append((A, b"3"), (A, b"4"))
        assert not await yard.clean()
        await yard.log.flush()
        assert await yard.clean()
        assert yard.values() == [(A, b"2"), (A, b"3"), (A, b"4")]

    run(scenario)


def test_what_is_not_committed_is_not_touched(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (A, b"2"))
        await yard.write((A, b"3"))
        yard.log.high_watermark = 2
        await yard.clean()
        assert yard.values() == [(A, b"2"), (A, b"3")]

    run(scenario)


def test_a_topic_that_is_not_compacted_is_left_alone(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (A, b"2"))
        assert not await yard.clean()

    run(scenario, cleanup_policy=("delete",))


def test_young_records_are_compacted_once_they_are_old_enough(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (A, b"2"))
        await yard.clock.sleep_ms(HOUR_MS - 1)
        assert not await yard.clean()
        await yard.clock.sleep_ms(1)
        assert await yard.clean()

    run(scenario, min_compaction_lag_ms=HOUR_MS)


def test_a_log_that_is_clean_enough_is_compacted_when_its_records_are_too_old(
    run: Callable[..., None],
) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write(*((b"%d" % number, b"x" * 100) for number in range(20)))
        assert await yard.clean()
        await yard.write((b"1", b"y"))
        await yard.clock.sleep_ms(HOUR_MS)
        assert not await yard.clean()
        await yard.clock.sleep_ms(1)
        assert await yard.clean()
        assert yard.directory.cleaned_offsets == {ORDERS: 21}

    run(scenario, min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=HOUR_MS)


def test_records_before_the_start_of_the_log_are_nobodys(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (B, b"1"), (A, b"2"), (C, b"1"))
        yard.log.advance_log_start_offset(2)
        await yard.clean()
        assert yard.records() == [(2, A, b"2"), (3, C, b"1")]

    run(scenario)


# Memory.


def test_a_small_map_takes_several_rounds(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        yard.cleaner_config = CleanerConfig(map_bytes_all=24 * 10, load_factor=0.5)
        for number in range(4):
            await yard.write(*((b"%d" % key, b"%d" % number) for key in range(10)))
        assert await yard.clean_all() > 4
        assert yard.values() == [(b"%d" % key, b"3") for key in range(10)]
        assert yard.directory.cleaned_offsets == {ORDERS: 40}

    run(scenario)


def test_segments_behind_the_end_of_a_round_are_not_written_anew(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        yard.cleaner_config = CleanerConfig(map_bytes_all=24 * 10, load_factor=0.5)
        yard.configure(segment_bytes=1000)
        for number in range(4):
            await yard.write(*((b"%d-%d" % (number, key), b"x" * 100) for key in range(4)))
        yard.configure(segment_bytes=1)
        assert await yard.clean()
        assert yard.directory.cleaned_offsets[ORDERS] < 8
        assert yard.steps.count("swapped") <= 2

    run(scenario)


def test_a_log_that_cannot_be_looked_through_does_not_keep_others_from_being_compacted(
    run: Callable[..., None],
) -> None:
    async def scenario(yard: Yard) -> None:
        other = await yard.directory.create(TopicPartition("others", 0), yard.config, None)
        await yard.write((A, b"1"), (A, b"2"))

        async def refuse_other(log: Any, *given: Any) -> Any:
            if log is other:
                raise OSError(errno.EMFILE, "Too many open files")
            return await find_cleanable_offsets(log, *given)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("odradek.log.cleaning.log_cleaner.find_cleanable_offsets", refuse_other)
            assert await yard.clean()
        assert yard.values() == [(A, b"2")]

    run(scenario)


# Pauses, ends and failures.


def test_a_paused_partition_is_left_alone_until_all_pauses_are_undone(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (A, b"2"))
        await yard.cleaner.pause(ORDERS)
        await yard.cleaner.pause(ORDERS)
        yard.cleaner.resume(ORDERS)
        assert not await yard.clean()
        yard.cleaner.resume(ORDERS)
        yard.cleaner.resume(ORDERS)
        assert await yard.clean()

    run(scenario)


@pytest.mark.parametrize("step", ["learned", "sifted", "finished"])
def test_a_round_under_way_ends_before_a_pause_begins(run: Callable[..., None], step: str) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (A, b"2"))
        pausing: list[asyncio.Task[None]] = []

        def at_step(name: str) -> None:
            if name == step:
                pausing.append(asyncio.get_running_loop().create_task(yard.cleaner.pause(ORDERS)))

        yard.cleaner._on_step = at_step
        yard.cleaner_config = CleanerConfig(bytes_per_second=1_000_000)
        await yard.clean()
        await pausing[0]
        assert yard.names(".cleaned", ".swap") == []
        assert yard.values()[-1] == (A, b"2")
        yard.cleaner.resume(ORDERS)
        yard.cleaner._on_step = lambda _: None
        await yard.clean_all()
        assert yard.values() == [(A, b"2")]

    run(scenario)


@pytest.mark.parametrize("step", ["learned", "sifted", "finished"])
def test_a_log_that_is_cut_during_a_round_keeps_what_is_left_of_it(
    run: Callable[..., None], step: str
) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (B, b"1"))
        await yard.write((A, b"2"))

        def cut(name: str) -> None:
            if name == step:
                yard.log.truncate_to(2, yard.clock.wall_ms())

        yard.cleaner._on_step = cut
        assert not await yard.clean()
        assert yard.values() == [(A, b"1"), (B, b"1")]
        assert yard.names(".cleaned", ".swap") == []

    run(scenario)


@pytest.mark.parametrize("step", ["learned", "sifted", "finished"])
def test_a_log_that_is_deleted_during_a_round_is_let_go(run: Callable[..., None], step: str) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (A, b"2"))
        log = yard.log

        def delete(name: str) -> None:
            if name == step:
                yard.directory.delete(ORDERS, 0)

        yard.cleaner._on_step = delete
        await yard.clean()
        assert (log.failure, yard.directory.failure) == (None, None)
        assert ORDERS not in yard.directory.cleaned_offsets
        assert yard.cleaner.uncleanable == {}

    run(scenario)


def test_segments_that_retention_takes_during_a_round_do_not_come_back(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (B, b"1"))
        await yard.write((A, b"2"), (C, b"1"))
        going: list[asyncio.Task[Any]] = []

        def retain(name: str) -> None:
            if name == "learned":
                yard.log.advance_log_start_offset(2)
                going.append(
                    asyncio.get_running_loop().create_task(
                        yard.log.delete_old_segments(yard.clock.wall_ms(), 0)
                    )
                )

        yard.cleaner._on_step = retain
        yard.cleaner_config = CleanerConfig(bytes_per_second=100_000)
        await yard.clean()
        await going[0]
        assert yard.records() == [(2, A, b"2"), (3, C, b"1")]
        assert [one.base_offset for one in yard.log.segments] == [2, 4]

    run(scenario)


@pytest.mark.parametrize(
    "name_end", [".log.cleaned", ".index.cleaned", "recovery-point-offset-checkpoint.tmp"]
)
def test_a_full_disk_gives_a_round_up_and_it_is_tried_again(run: Callable[..., None], name_end: str) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (A, b"2"))
        yard.files.fail_next_write(errno.ENOSPC, name_end=name_end)
        assert not await yard.clean()
        assert (yard.names(".cleaned", ".swap"), yard.log.failure) == ([], None)
        assert await yard.clean()
        assert yard.values() == [(A, b"2")]

    run(scenario)


def test_a_failed_sync_is_the_end_of_the_directory(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (A, b"2"))
        yard.files.fail_next_sync(errno.EIO, name_end=".cleaned")
        assert not await yard.clean()
        assert isinstance(yard.directory.failure, StorageError)

    run(scenario)


def test_a_damaged_log_is_put_aside_and_the_others_go_on(
    run: Callable[..., None], batch: Callable[..., bytearray]
) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (A, b"2"))
        yard.files.open(f"{PATH}/00000000000000000000.log").write_at(65, b"\xff")
        other = TopicPartition("other", 0)
        log = await yard.directory.create(other, compacted(), None)
        for number in range(2):
            log.append_as_leader(batch(), 0, number)
        log.roll(0)
        await log.flush()
        log.high_watermark = 2
        assert not await yard.clean()
        assert "checksum" in yard.cleaner.uncleanable[ORDERS]
        assert await yard.clean()
        assert yard.directory.cleaned_offsets == {other: 2}
        yard.directory.delete(ORDERS, 0)
        await yard.directory.create(ORDERS, yard.config, None)
        await yard.write((A, b"1"), (A, b"2"))
        assert await yard.clean()
        assert yard.cleaner.uncleanable == {}

    run(scenario)


def test_a_log_that_no_round_can_cope_with_is_put_aside(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (A, b"2"))

        def break_down(name: str) -> None:
            if name == "sifted":
                raise ZeroDivisionError("a mistake of ours")

        yard.cleaner._on_step = break_down
        yard.cleaner.start()
        await yard.clock.sleep_ms(1)
        assert "a mistake of ours" in yard.cleaner.uncleanable[ORDERS]
        assert yard.names(".cleaned", ".swap") == []
        assert yard.log.failure is None
        await yard.cleaner.stop()

    run(scenario)


# What is written down.


def test_how_far_a_log_is_compacted_is_known_after_a_restart(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (A, b"2"))
        await yard.clean()
        await yard.directory.close()
        await yard.open()
        assert yard.directory.cleaned_offsets == {ORDERS: 2}
        assert not await yard.clean()
        await yard.cleaner.maybe_truncate_checkpoint(ORDERS, 1)
        assert yard.directory.cleaned_offsets == {ORDERS: 1}

    run(scenario)


def test_what_is_known_of_a_log_goes_with_it_to_another_directory(
    run: Callable[..., None], new_chance: Callable[[int], Any]
) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (A, b"2"))
        await yard.clean()
        target = LogDirectory.open(yard.files, "/other", new_chance(2))
        await target.create(ORDERS, yard.config, None)
        yard.directory.delete(ORDERS, 0)
        yard.cleaner.move_checkpoint(ORDERS, yard.directory, target)
        await yard.clean()
        assert (yard.directory.cleaned_offsets, target.cleaned_offsets) == ({}, {ORDERS: 2})
        assert read_offsets(yard.files, "/data/cleaner-offset-checkpoint") == {}
        assert read_offsets(yard.files, "/other/cleaner-offset-checkpoint") == {ORDERS: 2}

    run(scenario)


def test_a_new_log_of_the_same_name_begins_dirty(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (A, b"2"))
        await yard.clean()
        yard.directory.delete(ORDERS, 0)
        await yard.directory.create(ORDERS, yard.config, None)
        assert yard.directory.cleaned_offsets == {}
        await yard.write((A, b"1"), (A, b"2"))
        assert await yard.clean()

    run(scenario)


def test_an_offset_that_cannot_be_true_is_replaced(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write((A, b"1"), (A, b"2"))
        yard.directory.cleaned_offsets[ORDERS] = 99
        assert await yard.clean()
        assert yard.directory.cleaned_offsets == {ORDERS: 2}

    run(scenario)


# Workers.


def test_workers_look_again_after_a_pause_and_end_when_told(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        yard.cleaner_config = CleanerConfig(backoff_ms=1000)
        yard.cleaner.start()
        await yard.clock.sleep_ms(1)
        await yard.write((A, b"1"), (A, b"2"))
        await yard.clock.sleep_ms(998)
        assert len(yard.values()) == 2
        await yard.clock.sleep_ms(2)
        assert len(yard.values()) == 1
        assert yard.steps == list(STEPS)
        yard.cleaner_config = CleanerConfig(backoff_ms=1000, threads=3)
        await yard.clock.sleep_ms(2000)
        assert len(yard.cleaner._workers) == 3
        yard.cleaner_config = CleanerConfig(backoff_ms=1000, threads=1)
        await yard.clock.sleep_ms(2000)
        assert [worker.done() for worker in yard.cleaner._workers].count(False) == 1
        await yard.cleaner.stop()
        await yard.write((A, b"3"))
        await yard.clock.sleep_ms(5000)
        assert len(yard.values()) == 2

    run(scenario)


def test_several_logs_are_compacted_at_once_and_each_by_one_worker(
    run: Callable[..., None], batch: Callable[..., bytearray]
) -> None:
    async def scenario(yard: Yard) -> None:
        yard.cleaner_config = CleanerConfig(threads=3, bytes_per_second=5000)
        for number in range(6):
            log = await yard.directory.create(TopicPartition("many", number), yard.config, None)
            for _ in range(20):
                log.append_as_leader(batch(), 0, 0)
            log.roll(0)
            await log.flush()
            log.high_watermark = 20
        yard.cleaner.start()
        most = 0
        for _ in range(100):
            await yard.clock.sleep_ms(20)
            most = max(most, len(yard.cleaner._under_way))
        await yard.clock.sleep_ms(HOUR_MS)
        assert most == 3
        assert yard.directory.cleaned_offsets == {TopicPartition("many", number): 20 for number in range(6)}
        assert yard.steps.count("checkpointed") == 6
        await yard.cleaner.stop()

    run(scenario)


@pytest.mark.parametrize("off", [CleanerConfig(is_enabled=False), CleanerConfig(threads=0)])
def test_nothing_is_compacted_where_settings_say_so(run: Callable[..., None], off: CleanerConfig) -> None:
    async def scenario(yard: Yard) -> None:
        yard.cleaner_config = off
        yard.cleaner.start()
        await yard.write((A, b"1"), (A, b"2"))
        await yard.clock.sleep_ms(HOUR_MS)
        assert len(yard.values()) == 2
        yard.cleaner_config = CleanerConfig()
        await yard.clock.sleep_ms(off.backoff_ms)
        assert len(yard.values()) == 1
        await yard.cleaner.stop()

    run(scenario)


def test_rounds_keep_to_the_bound_on_bytes_a_second(run: Callable[..., None]) -> None:
    async def scenario(yard: Yard) -> None:
        await yard.write(*((b"%d" % number, b"x" * 1000) for number in range(100)))
        size_bytes = yard.log.size_bytes
        yard.cleaner_config = CleanerConfig(bytes_per_second=10_000)
        began_ms = yard.clock.monotonic_ms()
        assert await yard.clean()
        took_ms = yard.clock.monotonic_ms() - began_ms
        # Read twice and written once.
        assert 3 * size_bytes / 10 * 0.9 <= took_ms <= 3 * size_bytes / 10 * 1.1

    run(scenario)
