"""Readers from before magic 2: what is stored is converted for them, whatever its compression and its cut."""

import pytest

from odradek.model.errors import ErrorCode
from odradek.model.protocol_enums import Compression
from odradek.records.append_rules import WORKER_LIMITS
from odradek.records.layout import MAGIC_POSITION

OLD = [0, 1, 2, 3]


def messages(entry, read_records):
    return [(one.offset, one.value) for one in read_records(entry.records)]


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("compression", [one for one in Compression if one is not Compression.ZSTD])
def test_batches_of_every_compression_are_converted(play, version, compression, read_records):
    async def scenario(town):
        await town.create("orders")
        await town.produce("orders", b"a" * 50, b"b" * 50, compression=compression)
        await town.produce("orders", b"c", compression=compression)
        entry = await town.fetch("orders", version=version)
        assert entry.error_code == 0
        assert bytes(entry.records)[MAGIC_POSITION] == (1 if version >= 2 else 0)
        assert messages(entry, read_records) == [(0, b"a" * 50), (1, b"b" * 50), (2, b"c")]

    play(scenario)


@pytest.mark.parametrize("version", OLD)
def test_zstd_has_no_form_that_an_old_reader_knows(play, version):
    async def scenario(town):
        await town.create("orders")
        await town.produce("orders", b"a" * 50, compression=Compression.ZSTD)
        entry = await town.fetch("orders", version=version)
        assert entry.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE

    play(scenario)


@pytest.mark.parametrize("version", OLD)
def test_a_limit_that_cuts_a_batch_gives_the_whole_ones_before_it(play, version, read_records, make_batch):
    async def scenario(town):
        await town.create("orders")
        for value in (b"a", b"b", b"c"):
            await town.produce("orders", value * 100)
        size = len(make_batch(b"a" * 100))
        for limit, count in ((1, 1), (size + 1, 1), (2 * size - 1, 1), (2 * size, 2), (3 * size, 3)):
            entry = await town.fetch("orders", version=version, partition_max_bytes=limit)
            assert len(messages(entry, read_records)) == count

    play(scenario)


@pytest.mark.parametrize("version", OLD)
def test_an_old_reader_can_go_through_a_log_step_by_step(play, version, read_records):
    async def scenario(town):
        await town.create("orders", settings={"segment.bytes": "300"})
        for number in range(10):
            await town.produce("orders", b"%d-a" % number, b"%d-b" % number)
        found, offset = [], 0
        while len(found) < 20:
            entry = await town.fetch("orders", offset, version=version, partition_max_bytes=100)
            new = [(at, value) for at, value in messages(entry, read_records) if at >= offset]
            assert new, "every read makes progress"
            found += new
            offset = new[-1][0] + 1
        assert [at for at, _ in found] == list(range(20))
        assert [value for _, value in found] == [b"%d-%s" % (n, x) for n in range(10) for x in (b"a", b"b")]

    play(scenario)


def test_batches_that_unpack_to_much_are_converted_a_few_at_a_time(play, read_records):
    third = bytes(WORKER_LIMITS.decompressed_bytes_max // 3 + 1)

    async def scenario(town):
        await town.create("orders")
        for _ in range(3):
            await town.produce("orders", third, compression=Compression.GZIP)
        offset, sizes = 0, []
        while offset < 3:
            entry = await town.fetch("orders", offset, version=3)
            found = messages(entry, read_records)
            sizes.append(len(found))
            offset = found[-1][0] + 1
        assert sizes == [2, 1]
        assert town.cluster.workers.ran_alone == 0

    play(scenario)


def test_a_batch_that_unpacks_to_more_than_is_usual_is_converted_by_itself(play, read_records):
    huge = bytes(WORKER_LIMITS.decompressed_bytes_max + 1)

    async def scenario(town):
        await town.create("orders")
        await town.produce("orders", huge, compression=Compression.GZIP)
        before = town.cluster.workers.ran_alone
        entry = await town.fetch("orders", version=3)
        assert [len(value) for _, value in messages(entry, read_records)] == [len(huge)]
        assert town.cluster.workers.ran_alone == before + 1

    play(scenario)
