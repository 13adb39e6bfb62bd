"""Apache Kafka in the foreground, to run tests against it::

    ODRADEK_TEST_BROKER="python -m tests.support.apache_kafka 4.1.1" pytest tests/clients

starts every broker of a test as one Kafka node (broker and KRaft controller in one process) on the test's
port and directory. Its jars are downloaded once from Maven Central into the cache of the benchmarks;
``python -m tests.support.apache_kafka 4.1.1`` downloads them only, which may take longer than a test's
timeout.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from bench.paths import cache, free_port
from bench.peers import maven
from bench.peers.server_process import NotAvailable

JAR_COUNT_MIN = 30
HEAP = "-Xmx512M"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>kafka-node</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version>
    </dependency>
  </dependencies>
</project>
"""


def main(version: str, *node: str) -> None:
    jars = fetched_jars(version)
    if node:
        _run_node(jars, *node)


def _run_node(jars: Path, port: str, directory: str, *settings: str) -> None:
    home = Path(directory)
    home.mkdir(parents=True, exist_ok=True)
    properties = home.parent / f"{home.name}-server.properties"
    if not (home / "meta.properties").exists():
        _configure(properties, int(port), home, settings)
        cluster = f"--cluster-id={_cluster_id()}"  # one argument: an id may begin with a dash
        _run(jars, "kafka.tools.StorageTool", "format", cluster, "-c", str(properties))
    os.execvp("java", _java(jars, "kafka.Kafka", str(properties)))


def fetched_jars(version: str) -> Path:
    """Return the directory of Kafka's jars, downloading them if needed."""
    home = cache() / f"kafka-node-{version}"
    try:
        return maven.fetched_jars(home, POM.format(version=version), JAR_COUNT_MIN)
    except NotAvailable as missing:
        raise SystemExit(f"Kafka {version}: {missing}") from missing


def _configure(path: Path, port: int, home: Path, settings: tuple[str, ...]) -> None:
    controller = free_port()
    lines = [
        "process.roles=broker,controller",
        "node.id=0",
        f"controller.quorum.voters=0@127.0.0.1:{controller}",
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names=CONTROLLER",
        f"log.dirs={home}",
        "offsets.topic.replication.factor=1",
        "transaction.state.log.replication.factor=1",
        "transaction.state.log.min.isr=1",
        *settings,
    ]
    path.write_text("\n".join(lines) + "\n")


def _cluster_id() -> str:
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _java(jars: Path, *arguments: str) -> list[str]:
    return ["java", HEAP, "-XX:+UseSerialGC", "-cp", f"{jars}/*", *arguments]


def _run(jars: Path, *arguments: str) -> None:
    subprocess.run(_java(jars, *arguments), check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main(*sys.argv[1:])
