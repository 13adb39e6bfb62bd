"""Segments of a replica, as bytes and as Kafka prints them."""

import re

from tests.mixed.mixed_cluster import MixedCluster


def log_bytes(cluster: MixedCluster, broker: int, topic: str, partition: int = 0) -> bytes:
    """Return the segments together: a follower that appends several batches at once rolls elsewhere."""
    return b"".join(
        path.read_bytes() for path in sorted(cluster.log_directory(broker, topic, partition).glob("*.log"))
    )


def dump_log(cluster: MixedCluster, broker: int, topic: str, partition: int = 0) -> list[str]:
    """Return the batches and records as Kafka's DumpLogSegments prints them, without places in files."""
    names = ",".join(map(str, sorted(cluster.log_directory(broker, topic, partition).glob("*.log"))))
    output = cluster.run_tool("kafka.tools.DumpLogSegments", "--print-data-log", "--files", names)
    lines = [line for line in output.splitlines() if line.startswith(("baseOffset", "|"))]
    return [re.sub(r" position: \d+", "", line) for line in lines]
