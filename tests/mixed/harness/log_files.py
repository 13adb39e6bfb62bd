"""Segments of replicas, compared byte for byte and as Kafka prints them."""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kio.schema.list_offsets.v5 import request as list_offsets
from tests.mixed.harness.mixed_cluster import BROKERS, MixedCluster
from tests.support.raw_connection import RawConnection

HEADER = struct.Struct(">qi")
LAST_OFFSET_DELTA = struct.Struct(">i")
LAST_OFFSET_DELTA_AT = 23
LATEST = -1


class Batch(NamedTuple):
    base_offset: int
    last_offset: int
    data: bytes


def check_replicas_equal(
    cluster: MixedCluster, topic: str, partitions: Sequence[int] = (0,), replicas: Sequence[int] = BROKERS
) -> None:
    """Check that replicas have the same bytes up to the high watermark, and that Kafka prints them the same.

    Call it when nothing is being produced and the replicas are in sync.
    """
    for partition in partitions:
        leader = cluster.znodes.partition_state(topic, partition)["leader"]
        high_watermark = read_high_watermark(cluster.address(leader), topic, partition)
        logs = {
            broker: _committed_batches(cluster.replica_path(broker, topic, partition), high_watermark)
            for broker in replicas
        }
        for broker, batches in logs.items():
            name = f"{topic}-{partition} of broker {broker}"
            end = batches[-1].last_offset + 1 if batches else 0
            assert end == high_watermark, f"{name} must reach the high watermark {high_watermark}, got {end}"
            difference = first_difference(logs[replicas[0]], batches)
            assert difference is None, f"{name} must equal that of broker {replicas[0]}: {difference}"
    _check_dumps_equal(cluster, topic, partitions, replicas)


def read_batches(directory: Path) -> list[Batch]:
    """Return the batches of a replica. A follower that appends several batches at once rolls elsewhere."""
    return [batch for path in sorted(directory.glob("*.log")) for batch in _parse(path.read_bytes())]


def read_high_watermark(address: str, topic: str, partition: int = 0) -> int:
    """Return the offset that the leader, at this address, tells consumers as the latest."""
    asked = list_offsets.ListOffsetsPartition(
        partition_index=partition,  # type: ignore[arg-type]
        timestamp=LATEST,  # type: ignore[arg-type]
    )
    message = list_offsets.ListOffsetsRequest(
        replica_id=-1,  # type: ignore[arg-type]
        isolation_level=0,  # type: ignore[arg-type]
        topics=(
            list_offsets.ListOffsetsTopic(
                name=topic,  # type: ignore[arg-type]
                partitions=(asked,),
            ),
        ),
    )
    with RawConnection(address) as connection:
        response = connection.exchange(message)
    result = response.topics[0].partitions[0]
    assert not int(result.error_code), f"ListOffsets must succeed, got {result}"
    return int(result.offset)


def dump_logs(cluster: MixedCluster, directories: Sequence[Path]) -> dict[Path, list[str]]:
    """Return batches and records as Kafka's DumpLogSegments prints them, without places in files."""
    names = [str(path) for directory in directories for path in sorted(directory.glob("*.log"))]
    output = cluster.run_tool("kafka.tools.DumpLogSegments", "--print-data-log", "--files", ",".join(names))
    dumps: dict[Path, list[str]] = {directory: [] for directory in directories}
    lines: list[str] = []
    for line in output.splitlines():
        if line.startswith("Dumping "):
            lines = dumps[Path(line.removeprefix("Dumping ")).parent]
        elif line.startswith(("baseOffset", "|")):
            lines.append(re.sub(r" position: \d+", "", line))
    return dumps


def _check_dumps_equal(
    cluster: MixedCluster, topic: str, partitions: Sequence[int], replicas: Sequence[int]
) -> None:
    paths = {
        (partition, broker): cluster.replica_path(broker, topic, partition)
        for partition in partitions
        for broker in replicas
    }
    dumps = dump_logs(cluster, list(paths.values()))
    for (partition, broker), path in paths.items():
        expected = dumps[paths[partition, replicas[0]]]
        assert dumps[path] == expected, f"DumpLogSegments of {topic}-{partition} differs on broker {broker}"


def _committed_batches(directory: Path, high_watermark: int) -> list[Batch]:
    return [batch for batch in read_batches(directory) if batch.base_offset < high_watermark]


def _parse(data: bytes) -> Iterator[Batch]:
    position = 0
    while position + HEADER.size <= len(data):
        base_offset, length = HEADER.unpack_from(data, position)
        end = position + HEADER.size + length
        if end > len(data):  # still being written
            return
        (delta,) = LAST_OFFSET_DELTA.unpack_from(data, position + LAST_OFFSET_DELTA_AT)
        yield Batch(base_offset, base_offset + delta, data[position:end])
        position = end


def first_difference(expected: Sequence[Batch], actual: Sequence[Batch]) -> str | None:
    """Describe the first batch that differs; None if all are equal."""
    for wanted, batch in itertools.zip_longest(expected, actual):
        if wanted != batch:
            return f"{wanted} and {batch}"
    return None
