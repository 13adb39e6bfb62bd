"""Indexes that are wrong, times of old segments and lists of aborted transactions: the loop waits for none.

Files in memory count a read of a cold range that nobody took to a thread as a stall. All files of segments at
rest are cold here, as after a start.
"""

import pytest

from odradek.model.protocol_enums import IsolationLevel
from odradek.records.batch import BatchBuilder
from odradek.records.control_records import ControlRecordType, EndTransactionMarker
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LIST_OFFSETS = 2
SMALL_SEGMENTS = {"segment.bytes": "1000", "index.interval.bytes": "0", "retention.ms": "-1"}
VALUES = [b"%02d" % number * 100 for number in range(20)]
FIRST = f"/data/orders-0/{0:020d}"
SECOND = f"/data/orders-0/{3:020d}"


async def fill(town, **settings):
    """Twenty batches in segments of three."""
    changed = {name.replace("_", "."): value for name, value in settings.items()}
    await town.create("orders", settings=SMALL_SEGMENTS | changed)
    now_ms = town.cluster.clock.wall_ms()
    for number, value in enumerate(VALUES):
        assert (await town.produce("orders", value, timestamp=now_ms + number)).error_code == 0
    return now_ms


def log_of(town):
    return town.broker._replicas.find("orders", 0).log


def evict_from_cache(town):
    """Of the segments at rest nothing is in memory, no time is known, and no file is open."""
    files, log = town.cluster.files, log_of(town)
    for segment in list(log.segments)[:-1]:
        segment.close()
        segment._largest = None
    active = f"{log.segments[-1].base_offset:020d}"
    for name in files.list_names(log.directory):
        if not name.startswith(active):
            files.evict_from_cache(f"{log.directory}/{name}")
    files.blocking_reads = 0
    return files


def cut_short(files):
    files.write_whole(f"{SECOND}.index", files.read_whole(f"{SECOND}.index")[:-3])


def remove(files):
    files.remove(f"{SECOND}.index")


def lead_astray(files):
    content = bytearray(files.read_whole(f"{SECOND}.index"))
    content[7] ^= 3
    files.write_whole(f"{SECOND}.index", bytes(content))


@pytest.mark.parametrize("spoil", [cut_short, remove, lead_astray])
@pytest.mark.parametrize("is_open", [False, True], ids=["cold", "open"])
def test_a_wrong_index_is_rebuilt_on_a_thread(play, spoil, is_open):
    async def scenario(town):
        await fill(town)
        files = town.cluster.files
        sound = files.read_whole(f"{SECOND}.index")
        spoil(files)
        evict_from_cache(town)
        if is_open:  # only its log file: what the index says has yet to be met
            segment = log_of(town).segments[1]
            segment._file = files.open(segment.path(".log"), writable=False)
        assert await town.values("orders", 4) == VALUES[4:]
        assert files.blocking_reads == 0
        assert files.read_whole(f"{SECOND}.index") == sound

    play(scenario)


def test_an_index_that_is_found_wrong_in_the_midst_of_a_read_is_rebuilt_on_a_thread(play):
    async def scenario(town):
        await fill(town)
        assert await town.values("orders") == VALUES  # all is open, mapped and in memory
        segment = log_of(town).segments[1]
        wrong = bytearray(segment.offset_index())
        wrong[7] ^= 3
        segment._offsets, segment._offsets_file = bytes(wrong), None
        files = town.cluster.files
        in_threads = []
        offload_read = files.offload_read
        files.offload_read = lambda work: in_threads.append(work) or offload_read(work)
        assert await town.values("orders", 4) == VALUES[4:]
        assert in_threads

    play(scenario)


def test_a_segment_that_leaves_while_its_index_is_rebuilt_does_no_harm(play):
    async def scenario(town):
        await fill(town)
        files = evict_from_cache(town)
        remove(files)
        log = log_of(town)
        offload_read = files.offload_read

        def drop_first(work):
            files.offload_read = offload_read
            log.advance_log_start_offset(10)
            for segment in log.segments.drop_first(3):
                segment.remove()
            return offload_read(work)

        files.offload_read = drop_first
        assert (await town.fetch("orders", 4)).error_code == 1
        assert not files.exists(f"{SECOND}.index")
        assert await town.values("orders", 10) == VALUES[10:]

    play(scenario)


def test_retention_looks_into_old_segments_on_a_thread(play):
    async def scenario(town):
        await fill(town, retention_ms="1000000")
        files = evict_from_cache(town)
        await town.cluster.clock.sleep_ms(2_000_000)
        assert files.blocking_reads == 0
        assert log_of(town).log_start_offset == 20

    play(scenario)


def test_retention_by_size_looks_into_nothing(play):
    async def scenario(town):
        await fill(town, retention_bytes="3000")
        files = evict_from_cache(town)
        in_threads = []
        offload_read = files.offload_read
        files.offload_read = lambda work: in_threads.append(work) or offload_read(work)
        await town.cluster.clock.sleep_ms(600_000)
        assert files.blocking_reads == 0
        assert not in_threads
        assert log_of(town).log_start_offset > 0

    play(scenario)


def test_segments_without_times_are_dated_on_a_thread(play):
    async def scenario(town):
        await town.create("orders", settings=SMALL_SEGMENTS | {"retention.ms": "1000000"})
        for value in VALUES:
            assert (await town.produce("orders", value, timestamp=-1)).error_code == 0
        files = evict_from_cache(town)
        on_the_loop = []
        modified_ms = files.modified_ms

        def watched(path):
            if not files._is_offloaded and path != log_of(town).segments[-1].path(".log"):
                on_the_loop.append(path)
            return modified_ms(path)

        files.modified_ms = watched
        await town.cluster.clock.sleep_ms(2_000_000)
        assert on_the_loop == []
        assert log_of(town).log_start_offset == 20

    play(scenario)


def test_the_cleaner_looks_for_young_segments_on_a_thread(play):
    async def scenario(town):
        await town.create(
            "orders",
            settings=SMALL_SEGMENTS
            | {"cleanup.policy": "compact", "min.compaction.lag.ms": "10000000000", "segment.ms": "1000"},
        )
        now_ms = town.cluster.clock.wall_ms()
        for number, value in enumerate(VALUES):
            batch = BatchBuilder()
            batch.append(now_ms + number, b"key", value)
            town.broker._replicas.find("orders", 0).append(bytearray(batch.build()), -1, 9, now_ms)
        await log_of(town).flush()
        files = evict_from_cache(town)
        await town.cluster.clock.sleep_ms(60_000)
        assert all(segment.is_timed for segment in list(log_of(town).segments)[:1])
        assert files.blocking_reads == 0

    play(scenario, {"log.cleaner.backoff.ms": "1000"})


@pytest.mark.parametrize("spoil", [".index", ".timeindex"])
def test_a_search_by_time_with_a_wrong_index_stalls_nobody(play, spoil):
    async def scenario(town):
        now_ms = await fill(town)
        files = evict_from_cache(town)
        files.remove(f"{SECOND}{spoil}")
        asked = ListOffsetsTopic("orders", [ListOffsetsPartition(0, -1, now_ms + 4)])
        response = await town.ask(LIST_OFFSETS, 7, ListOffsetsRequest(-1, 0, [asked]))
        assert response.topics[0].partitions[0].offset == 4
        assert files.blocking_reads == 0
        assert files.exists(f"{SECOND}{spoil}")

    play(scenario)


def test_aborted_transactions_of_old_segments_are_read_on_a_thread(play, make_batch):
    async def aborted(town):
        entries = [
            await town.fetch("orders", offset, isolation_level=IsolationLevel.READ_COMMITTED)
            for offset in range(18)
        ]
        return [[one.first_offset for one in entry.aborted_transactions or ()] for entry in entries]

    async def scenario(town):
        await town.create("orders", settings=SMALL_SEGMENTS)
        partition = town.broker._replicas.find("orders", 0)
        for number in range(6):
            await town.produce("orders", VALUES[number])
            of = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number, "transactional": True}
            partition.append(make_batch(VALUES[number], **of), -1, 9, 1000)
            partition.append_end_marker(EndTransactionMarker(ControlRecordType.ABORT, 0), 7, 0, 1000)
        warm = await aborted(town)
        assert warm[0][0] == 1
        files = evict_from_cache(town)
        assert len([name for name in files.list_names("/data/orders-0") if name.endswith(".txnindex")]) > 2
        assert await aborted(town) == warm
        assert files.blocking_reads == 0

    play(scenario)
