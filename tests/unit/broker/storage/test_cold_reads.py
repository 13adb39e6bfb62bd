"""Reads of data that is not in memory: the event loop does not block.

The in-memory files count a cold read outside of a thread as a stall.
"""

import asyncio

import pytest

from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LIST_OFFSETS = 2
SMALL_SEGMENTS = {"segment.bytes": "1000", "index.interval.bytes": "0"}
VALUES = [b"%02d" % number * 100 for number in range(20)]


async def fill(harness):
    """Write twenty batches in segments of three."""
    await harness.create("orders", settings=SMALL_SEGMENTS)
    for number, value in enumerate(VALUES):
        await harness.produce("orders", value, timestamp=1000 + number)


def evict_from_cache(harness):
    """Evict all sealed segments from memory and close their files."""
    files = harness.cluster.files
    partition = harness.broker._replica_manager.get_partition("orders", 0)
    partition.log.segments[0].context.opened.release_all()
    directory = partition.log.directory
    active = f"{partition.log.segments[-1].base_offset:020d}"
    for name in files.list_names(directory):
        if not name.startswith(active):
            files.evict_from_cache(f"{directory}/{name}")
    files.blocking_reads = 0
    return files


@pytest.mark.parametrize("version", [0, 2, 3, 4, 11, 17])
@pytest.mark.parametrize("offset", [0, 1, 7, 15])
def test_fetch_of_cold_data_does_not_block_the_event_loop(run_scenario, version, offset, read_records):
    async def scenario(harness):
        await fill(harness)
        files = evict_from_cache(harness)
        entry = await harness.fetch("orders", offset, version=version)
        assert entry.error_code == 0
        assert read_records(entry.records)[0].value == VALUES[offset]
        assert files.blocking_reads == 0

    run_scenario(scenario)


def test_reading_a_whole_cold_log_does_not_block_the_event_loop(run_scenario):
    async def scenario(harness):
        await fill(harness)
        files = evict_from_cache(harness)
        assert await harness.values("orders", partition_max_bytes=500) == VALUES
        assert files.blocking_reads == 0

    run_scenario(scenario)


@pytest.mark.parametrize(("suffix", "threads"), [(".log", 1), (".index", 0)])
def test_evicted_file_of_an_open_segment_is_detected(run_scenario, suffix, threads):
    async def scenario(harness):
        await fill(harness)
        await harness.values("orders")
        files = harness.cluster.files
        directory = harness.broker._replica_manager.get_partition("orders", 0).log.directory
        evicted = [name for name in files.list_names(directory) if name.endswith(suffix)]
        for name in evicted:
            files.evict_from_cache(f"{directory}/{name}")
        brought = []
        offload_read = files.offload_read

        def recorded_read(work):
            brought.append(work)
            return offload_read(work)

        files.offload_read = recorded_read
        await harness.fetch("orders", 1)
        assert len(brought) == threads, "a small index is kept in memory"
        await harness.fetch("orders", 1)
        assert len(brought) == threads, "it is in memory now"
        assert files.blocking_reads == 0

    run_scenario(scenario)


def test_read_at_the_log_end_pages_nothing_in(run_scenario):
    async def scenario(harness):
        await fill(harness)
        files = harness.cluster.files
        files.offload_read = None
        assert (await harness.fetch("orders", 19)).error_code == 0

    run_scenario(scenario)


def test_fetch_waiting_after_a_cold_read_completes_at_min_bytes(run_scenario, read_records):
    async def scenario(harness):
        await fill(harness)
        files = evict_from_cache(harness)
        entry = await harness.fetch("orders", 15, min_bytes=10_000, max_wait_ms=500)
        assert [record.offset for record in read_records(entry.records)] == [15, 16, 17], "time was up"
        assert files.blocking_reads == 0

    run_scenario(scenario)


def test_segment_removed_while_paged_in_is_handled(run_scenario):
    async def scenario(harness):
        await fill(harness)
        files = evict_from_cache(harness)
        log = harness.broker._replica_manager.get_partition("orders", 0).log
        offload_read = files.offload_read

        def remove_first(work):
            log.advance_log_start_offset(19)
            for segment in log.segments.drop_first(3):
                segment.remove()
            files.offload_read = offload_read
            return offload_read(work)

        files.offload_read = remove_first
        entry = await harness.fetch("orders", 1)
        assert entry.error_code == 1, "the offset is out of range now"

    run_scenario(scenario)


async def offset_of(harness, timestamp):
    requested = ListOffsetsTopic("orders", [ListOffsetsPartition(0, -1, timestamp)])
    response = await harness.request(LIST_OFFSETS, 7, ListOffsetsRequest(-1, 0, [requested]))
    entry = response.topics[0].partitions[0]
    return entry.error_code, entry.offset


@pytest.mark.parametrize(("timestamp", "offset"), [(0, 0), (1007, 7), (1019, 19), (1020, -1), (-3, 19)])
def test_timestamp_lookup_in_a_cold_log_does_not_block_the_event_loop(run_scenario, timestamp, offset):
    async def scenario(harness):
        await fill(harness)
        files = evict_from_cache(harness)
        for segment in harness.broker._replica_manager.get_partition("orders", 0).log.segments:
            segment._max_timestamp_and_offset = None  # as after a start
        assert await offset_of(harness, timestamp) == (0, offset)
        assert files.blocking_reads == 0

    run_scenario(scenario)


def test_special_timestamps_read_no_files(run_scenario):
    async def scenario(harness):
        await fill(harness)
        files = evict_from_cache(harness)
        files.offload_read = None
        assert await offset_of(harness, -1) == (0, 20)
        assert await offset_of(harness, -2) == (0, 0)
        assert files.blocking_reads == 0

    run_scenario(scenario)


def test_broker_stop_completes_a_cold_fetch(run_with_restarts, read_records):
    async def scenario(_cluster, start_broker):
        harness = await start_broker()
        await fill(harness)
        files = evict_from_cache(harness)
        may_read = asyncio.Event()
        offload_read = files.offload_read

        async def wait_for_the_disk(work):
            await may_read.wait()
            return await offload_read(work)

        files.offload_read = wait_for_the_disk
        fetching = asyncio.ensure_future(harness.fetch("orders", 0, min_bytes=1 << 20, max_wait_ms=60_000))
        await asyncio.sleep(0.1)
        stopping = asyncio.ensure_future(harness.memory_broker.stop())
        await asyncio.sleep(0.1)
        may_read.set()
        entry = await fetching
        assert read_records(entry.records)[0].value == VALUES[0]
        await stopping

    run_with_restarts(scenario)
