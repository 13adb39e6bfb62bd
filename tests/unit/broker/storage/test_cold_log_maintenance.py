"""Corrupt indexes, timestamps of old segments and aborted transaction indexes: the event loop does not block.

The in-memory files count a cold read outside of a thread as a stall. All files of sealed segments are cold
here, as after a start.
"""

import pytest

from odradek.log.segments.offset_index import OffsetIndex
from odradek.model.protocol_enums import IsolationLevel
from odradek.records.batch import BatchBuilder
from odradek.records.control_records import ControlRecordType, EndTransactionMarker
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LIST_OFFSETS = 2
SMALL_SEGMENTS = {"segment.bytes": "1000", "index.interval.bytes": "0", "retention.ms": "-1"}
VALUES = [b"%02d" % number * 100 for number in range(20)]
FIRST = f"/data/orders-0/{0:020d}"
SECOND = f"/data/orders-0/{3:020d}"


async def fill(harness, **settings):
    """Write twenty batches in segments of three."""
    changed = {name.replace("_", "."): value for name, value in settings.items()}
    await harness.create("orders", settings=SMALL_SEGMENTS | changed)
    now_ms = harness.cluster.clock.wall_ms()
    for number, value in enumerate(VALUES):
        assert (await harness.produce("orders", value, timestamp=now_ms + number)).error_code == 0
    return now_ms


def log_of(harness):
    return harness.broker._replica_manager.get_partition("orders", 0).log


def evict_from_cache(harness):
    """Evict all sealed segments from memory, forget their timestamps and close their files."""
    files, log = harness.cluster.files, log_of(harness)
    for segment in list(log.segments)[:-1]:
        segment.close()
        segment._max_timestamp_and_offset = None
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
def test_corrupt_index_is_rebuilt_on_a_thread(run_scenario, spoil, is_open):
    async def scenario(harness):
        await fill(harness)
        files = harness.cluster.files
        sound = files.read_whole(f"{SECOND}.index")
        spoil(files)
        evict_from_cache(harness)
        if is_open:  # only its log file: the index is not read yet
            segment = log_of(harness).segments[1]
            segment._file = files.open(segment.path(".log"), writable=False)
        assert await harness.values("orders", 4) == VALUES[4:]
        assert files.blocking_reads == 0
        assert files.read_whole(f"{SECOND}.index") == sound

    run_scenario(scenario)


def test_index_found_corrupt_during_a_read_is_rebuilt_on_a_thread(run_scenario):
    async def scenario(harness):
        await fill(harness)
        assert await harness.values("orders") == VALUES  # everything is open, mapped and in memory
        segment = log_of(harness).segments[1]
        wrong = bytearray(segment.offset_index())
        wrong[7] ^= 3
        segment._offsets = OffsetIndex(bytes(wrong))
        files = harness.cluster.files
        in_threads = []
        offload_read = files.offload_read

        def recorded_read(work):
            in_threads.append(work)
            return offload_read(work)

        files.offload_read = recorded_read
        assert await harness.values("orders", 4) == VALUES[4:]
        assert in_threads

    run_scenario(scenario)


def test_segment_removed_during_index_rebuild_is_handled(run_scenario):
    async def scenario(harness):
        await fill(harness)
        files = evict_from_cache(harness)
        remove(files)
        log = log_of(harness)
        offload_read = files.offload_read

        def drop_first(work):
            files.offload_read = offload_read
            log.advance_log_start_offset(10)
            for segment in log.segments.drop_first(3):
                segment.remove()
            return offload_read(work)

        files.offload_read = drop_first
        assert (await harness.fetch("orders", 4)).error_code == 1
        assert not files.exists(f"{SECOND}.index")
        assert await harness.values("orders", 10) == VALUES[10:]

    run_scenario(scenario)


def test_retention_reads_old_segments_on_a_thread(run_scenario):
    async def scenario(harness):
        await fill(harness, retention_ms="1000000")
        files = evict_from_cache(harness)
        await harness.cluster.clock.sleep_ms(2_000_000)
        assert files.blocking_reads == 0
        assert log_of(harness).log_start_offset == 20

    run_scenario(scenario)


def test_retention_by_size_reads_no_segment(run_scenario):
    async def scenario(harness):
        await fill(harness, retention_bytes="3000")
        files = evict_from_cache(harness)
        in_threads = []
        offload_read = files.offload_read

        def recorded_read(work):
            in_threads.append(work)
            return offload_read(work)

        files.offload_read = recorded_read
        await harness.cluster.clock.sleep_ms(600_000)
        assert files.blocking_reads == 0
        assert not in_threads
        assert log_of(harness).log_start_offset > 0

    run_scenario(scenario)


def test_segment_timestamps_are_read_on_a_thread(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings=SMALL_SEGMENTS | {"retention.ms": "1000000"})
        for value in VALUES:
            assert (await harness.produce("orders", value, timestamp=-1)).error_code == 0
        files = evict_from_cache(harness)
        on_the_loop = []
        modified_ms = files.modified_ms

        def watched(path):
            if not files._is_offloaded and path != log_of(harness).segments[-1].path(".log"):
                on_the_loop.append(path)
            return modified_ms(path)

        files.modified_ms = watched
        await harness.cluster.clock.sleep_ms(2_000_000)
        assert on_the_loop == []
        assert log_of(harness).log_start_offset == 20

    run_scenario(scenario)


def test_cleaner_reads_segment_timestamps_on_a_thread(run_scenario):
    async def scenario(harness):
        await harness.create(
            "orders",
            settings=SMALL_SEGMENTS
            | {"cleanup.policy": "compact", "min.compaction.lag.ms": "10000000000", "segment.ms": "1000"},
        )
        now_ms = harness.cluster.clock.wall_ms()
        for number, value in enumerate(VALUES):
            batch = BatchBuilder()
            batch.append(now_ms + number, b"key", value)
            harness.broker._replica_manager.get_partition("orders", 0).append(
                bytearray(batch.build()), -1, 9, now_ms
            )
        await log_of(harness).flush()
        files = evict_from_cache(harness)
        await harness.cluster.clock.sleep_ms(60_000)
        assert all(segment.timestamps_loaded for segment in list(log_of(harness).segments)[:1])
        assert files.blocking_reads == 0

    run_scenario(scenario, {"log.cleaner.backoff.ms": "1000"})


@pytest.mark.parametrize("spoil", [".index", ".timeindex"])
def test_timestamp_lookup_with_a_corrupt_index_does_not_block_the_event_loop(run_scenario, spoil):
    async def scenario(harness):
        now_ms = await fill(harness)
        files = evict_from_cache(harness)
        files.remove(f"{SECOND}{spoil}")
        requested = ListOffsetsTopic("orders", [ListOffsetsPartition(0, -1, now_ms + 4)])
        response = await harness.request(LIST_OFFSETS, 7, ListOffsetsRequest(-1, 0, [requested]))
        assert response.topics[0].partitions[0].offset == 4
        assert files.blocking_reads == 0
        assert files.exists(f"{SECOND}{spoil}")

    run_scenario(scenario)


def test_aborted_transactions_of_old_segments_are_read_on_a_thread(run_scenario, make_batch):
    async def aborted(harness):
        entries = [
            await harness.fetch("orders", offset, isolation_level=IsolationLevel.READ_COMMITTED)
            for offset in range(18)
        ]
        return [
            [transaction.first_offset for transaction in entry.aborted_transactions or ()]
            for entry in entries
        ]

    async def scenario(harness):
        await harness.create("orders", settings=SMALL_SEGMENTS)
        partition = harness.broker._replica_manager.get_partition("orders", 0)
        for number in range(6):
            await harness.produce("orders", VALUES[number])
            of = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number, "transactional": True}
            partition.append(make_batch(VALUES[number], **of), -1, 9, 1000)
            partition.append_end_marker(EndTransactionMarker(ControlRecordType.ABORT, 0), 7, 0, 1000)
        warm = await aborted(harness)
        assert warm[0][0] == 1
        files = evict_from_cache(harness)
        assert len([name for name in files.list_names("/data/orders-0") if name.endswith(".txnindex")]) > 2
        assert await aborted(harness) == warm
        assert files.blocking_reads == 0

    run_scenario(scenario)
