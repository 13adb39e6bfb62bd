"""Down-conversion for clients before magic 2, for every compression and size limit."""

import pytest

from odradek.model.errors import ErrorCode
from odradek.model.protocol_enums import Compression
from odradek.records.append_rules import WORKER_LIMITS
from odradek.records.layout import MAGIC_POSITION

OLD = [0, 1, 2, 3]


def messages(entry, read_records):
    return [(record.offset, record.value) for record in read_records(entry.records)]


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("compression", [codec for codec in Compression if codec is not Compression.ZSTD])
def test_every_compression_is_down_converted(run_scenario, version, compression, read_records):
    async def scenario(harness):
        await harness.create("orders")
        await harness.produce("orders", b"a" * 50, b"b" * 50, compression=compression)
        await harness.produce("orders", b"c", compression=compression)
        entry = await harness.fetch("orders", version=version)
        assert entry.error_code == 0
        assert bytes(entry.records)[MAGIC_POSITION] == (1 if version >= 2 else 0)
        assert messages(entry, read_records) == [(0, b"a" * 50), (1, b"b" * 50), (2, b"c")]

    run_scenario(scenario)


@pytest.mark.parametrize("version", OLD)
def test_zstd_cannot_be_down_converted(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders")
        await harness.produce("orders", b"a" * 50, compression=Compression.ZSTD)
        entry = await harness.fetch("orders", version=version)
        assert entry.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE

    run_scenario(scenario)


@pytest.mark.parametrize("version", OLD)
def test_max_bytes_within_a_batch_returns_the_complete_ones_before_it(
    run_scenario, version, read_records, make_batch
):
    async def scenario(harness):
        await harness.create("orders")
        for value in (b"a", b"b", b"c"):
            await harness.produce("orders", value * 100)
        size = len(make_batch(b"a" * 100))
        for limit, count in ((1, 1), (size + 1, 1), (2 * size - 1, 1), (2 * size, 2), (3 * size, 3)):
            entry = await harness.fetch("orders", version=version, partition_max_bytes=limit)
            assert len(messages(entry, read_records)) == count

    run_scenario(scenario)


@pytest.mark.parametrize("version", OLD)
def test_old_consumer_reads_a_whole_log_in_steps(run_scenario, version, read_records):
    async def scenario(harness):
        await harness.create("orders", settings={"segment.bytes": "300"})
        for number in range(10):
            await harness.produce("orders", b"%d-a" % number, b"%d-b" % number)
        result: list[tuple[int, bytes]] = []
        offset = 0
        while len(result) < 20:
            entry = await harness.fetch("orders", offset, version=version, partition_max_bytes=100)
            new = [(at, value) for at, value in messages(entry, read_records) if at >= offset]
            assert new, "every read makes progress"
            result += new
            offset = new[-1][0] + 1
        assert [at for at, _ in result] == list(range(20))
        assert [value for _, value in result] == [b"%d-%s" % (n, x) for n in range(10) for x in (b"a", b"b")]

    run_scenario(scenario)


def test_batches_with_high_compression_ratio_are_converted_in_parts(run_scenario, read_records):
    third = bytes(WORKER_LIMITS.decompressed_bytes_max // 3 + 1)

    async def scenario(harness):
        await harness.create("orders")
        for _ in range(3):
            await harness.produce("orders", third, compression=Compression.GZIP)
        offset, sizes = 0, []
        while offset < 3:
            entry = await harness.fetch("orders", offset, version=3)
            result = messages(entry, read_records)
            sizes.append(len(result))
            offset = result[-1][0] + 1
        assert sizes == [2, 1]
        assert harness.cluster.workers.ran_alone == 0

    run_scenario(scenario)


def test_batch_above_the_usual_decompressed_size_is_converted_alone(run_scenario, read_records):
    huge = bytes(WORKER_LIMITS.decompressed_bytes_max + 1)

    async def scenario(harness):
        await harness.create("orders")
        await harness.produce("orders", huge, compression=Compression.GZIP)
        before = harness.cluster.workers.ran_alone
        entry = await harness.fetch("orders", version=3)
        assert [len(value) for _, value in messages(entry, read_records)] == [len(huge)]
        assert harness.cluster.workers.ran_alone == before + 1

    run_scenario(scenario)
