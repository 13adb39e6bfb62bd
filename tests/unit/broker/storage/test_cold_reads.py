"""Old data that is on the disk only: it is read, and the loop waits for none of it.

Files in memory count a read of a cold range that nobody took to a thread as a stall.
"""

import asyncio

import pytest

from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LIST_OFFSETS = 2
SMALL_SEGMENTS = {"segment.bytes": "1000", "index.interval.bytes": "0"}
VALUES = [b"%02d" % number * 100 for number in range(20)]


async def fill(town):
    """Twenty batches in segments of three."""
    await town.create("orders", settings=SMALL_SEGMENTS)
    for number, value in enumerate(VALUES):
        await town.produce("orders", value, timestamp=1000 + number)


def evict_from_cache(town):
    """Of the segments at rest nothing is in memory, and no file is open."""
    files = town.cluster.files
    partition = town.broker._replicas.find("orders", 0)
    partition.log.segments[0].context.opened.let_all_go()
    directory = partition.log.directory
    active = f"{partition.log.segments[-1].base_offset:020d}"
    for name in files.list_names(directory):
        if not name.startswith(active):
            files.evict_from_cache(f"{directory}/{name}")
    files.blocking_reads = 0
    return files


@pytest.mark.parametrize("version", [0, 2, 3, 4, 11, 17])
@pytest.mark.parametrize("offset", [0, 1, 7, 15])
def test_a_fetch_of_cold_data_stalls_nobody(play, version, offset, read_records):
    async def scenario(town):
        await fill(town)
        files = evict_from_cache(town)
        entry = await town.fetch("orders", offset, version=version)
        assert entry.error_code == 0
        assert read_records(entry.records)[0].value == VALUES[offset]
        assert files.blocking_reads == 0

    play(scenario)


def test_a_reader_goes_through_a_cold_log_without_a_stall(play):
    async def scenario(town):
        await fill(town)
        files = evict_from_cache(town)
        assert await town.values("orders", partition_max_bytes=500) == VALUES
        assert files.blocking_reads == 0

    play(scenario)


def test_an_index_that_went_cold_is_noticed_though_it_is_mapped(play):
    async def scenario(town):
        await fill(town)
        await town.values("orders")
        files = town.cluster.files
        directory = town.broker._replicas.find("orders", 0).log.directory
        indexes = [name for name in files.list_names(directory) if name.endswith(".index")]
        for name in indexes:
            files.evict_from_cache(f"{directory}/{name}")
        brought = []
        offload_read = files.offload_read
        files.offload_read = lambda work: brought.append(work) or offload_read(work)
        await town.fetch("orders", 1)
        assert len(brought) == 1
        await town.fetch("orders", 1)
        assert len(brought) == 1, "it is in memory now"

    play(scenario)


def test_a_read_at_the_end_asks_for_nothing(play):
    async def scenario(town):
        await fill(town)
        files = town.cluster.files
        files.offload_read = None
        assert (await town.fetch("orders", 19)).error_code == 0

    play(scenario)


def test_a_fetch_that_waits_after_a_cold_read_is_answered_when_there_is_enough(play, read_records):
    async def scenario(town):
        await fill(town)
        files = evict_from_cache(town)
        entry = await town.fetch("orders", 15, min_bytes=10_000, max_wait_ms=500)
        assert [one.offset for one in read_records(entry.records)] == [15, 16, 17], "time was up"
        assert files.blocking_reads == 0

    play(scenario)


def test_a_segment_removed_while_it_is_rehearsed_does_no_harm(play):
    async def scenario(town):
        await fill(town)
        files = evict_from_cache(town)
        log = town.broker._replicas.find("orders", 0).log
        offload_read = files.offload_read

        def remove_first(work):
            log.advance_log_start_offset(19)
            for segment in log.segments.drop_first(3):
                segment.remove()
            files.offload_read = offload_read
            return offload_read(work)

        files.offload_read = remove_first
        entry = await town.fetch("orders", 1)
        assert entry.error_code == 1, "the offset is out of range by now"

    play(scenario)


async def offset_of(town, timestamp):
    asked = ListOffsetsTopic("orders", [ListOffsetsPartition(0, -1, timestamp)])
    response = await town.ask(LIST_OFFSETS, 7, ListOffsetsRequest(-1, 0, [asked]))
    entry = response.topics[0].partitions[0]
    return entry.error_code, entry.offset


@pytest.mark.parametrize(("timestamp", "offset"), [(0, 0), (1007, 7), (1019, 19), (1020, -1), (-3, 19)])
def test_a_search_by_time_in_a_cold_log_stalls_nobody(play, timestamp, offset):
    async def scenario(town):
        await fill(town)
        files = evict_from_cache(town)
        for segment in town.broker._replicas.find("orders", 0).log.segments:
            segment._largest = None  # as after a start
        assert await offset_of(town, timestamp) == (0, offset)
        assert files.blocking_reads == 0

    play(scenario)


def test_places_are_named_without_a_look_at_files(play):
    async def scenario(town):
        await fill(town)
        files = evict_from_cache(town)
        files.offload_read = None
        assert await offset_of(town, -1) == (0, 20)
        assert await offset_of(town, -2) == (0, 0)
        assert files.blocking_reads == 0

    play(scenario)


def test_a_cold_fetch_under_way_is_answered_when_the_broker_stops(outlive, read_records):
    async def scenario(_cluster, begin):
        town = await begin()
        await fill(town)
        files = evict_from_cache(town)
        may_read = asyncio.Event()
        offload_read = files.offload_read

        async def wait_for_the_disk(work):
            await may_read.wait()
            return await offload_read(work)

        files.offload_read = wait_for_the_disk
        asking = asyncio.ensure_future(town.fetch("orders", 0, min_bytes=1 << 20, max_wait_ms=60_000))
        await asyncio.sleep(0.1)
        stopping = asyncio.ensure_future(town.memory.stop())
        await asyncio.sleep(0.1)
        may_read.set()
        entry = await asking
        assert read_records(entry.records)[0].value == VALUES[0]
        await stopping

    outlive(scenario)
