"""Kafka's jars with its command-line tools, and the tool for reassignments."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from bench.paths import cache
from bench.peers import maven
from tests.mixed.harness.mixed_cluster import MixedCluster
from tests.support.apache_kafka import fetched_jars

JAR_COUNT_MIN = 30
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>kafka-tools</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version>
    </dependency>
  </dependencies>
</project>
"""


def fetched_classpath(version: str) -> str:
    """Return the class path of brokers, with logging, and tools; download the jars if needed."""
    home = cache() / f"kafka-tools-{version}"
    tools = maven.fetched_jars(home, POM.format(version=version), JAR_COUNT_MIN)
    return f"{fetched_jars(version)}/*:{tools}/*"


class Reassignment:
    """kafka-reassign-partitions.sh on one partition. A throttle, in bytes per second, keeps it pending."""

    def __init__(self, cluster: MixedCluster, topic: str, partition: int = 0) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition = partition
        self._file = cluster.home / f"reassignment-{topic}.json"

    def execute(
        self, replicas: Sequence[int], throttle: int | None = None, *, replaces: bool = False
    ) -> None:
        """Start moving to these replicas; ``replaces`` allows it while another move is pending."""
        partition = {"topic": self._topic, "partition": self._partition, "replicas": list(replicas)}
        self._file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        throttled = [] if throttle is None else ["--throttle", str(throttle)]
        self._run("--execute", *throttled, *(["--additional"] if replaces else []))

    def cancel(self) -> None:
        """Cancel the pending move, and remove throttles."""
        self._run("--cancel")

    def wait_until_complete(self) -> None:
        """Wait until the move has completed; then verify it, which removes throttles."""
        self._cluster.wait_until(lambda: not self.is_pending)
        output = self._run("--verify")
        assert "is completed" in output, output

    @property
    def is_pending(self) -> bool:
        fields = self._cluster.znodes.topic(self._topic)
        return bool(fields["adding_replicas"] or fields["removing_replicas"])

    def _run(self, *arguments: str) -> str:
        connection = [
            "--bootstrap-server",
            self._cluster.bootstrap,
            "--reassignment-json-file",
            str(self._file),
        ]
        return self._cluster.run_tool(REASSIGN, *connection, *arguments)


if __name__ == "__main__":
    fetched_classpath(sys.argv[1])
