"""Apache Kafka 3.9.1 in ZooKeeper mode, from its published jars, with default settings.

Maven copies the jars into the cache once. JVM flags are those of Kafka's start script (1 GB heap, G1); the
log level is WARN. ZooKeeper is a separate process that outlives restarts of the broker; its CPU and memory
are not counted, in Kafka's favour.
"""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from bench.paths import cache, free_port
from bench.peers.broker import Broker, BrokerFailed, NotAvailable
from bench.peers.maven import fetched_jars
from bench.peers.server_process import ServerProcess

VERSION = "3.9.1"
HEAP = "1G"
JAR_COUNT_MIN = 50
ZOOKEEPER_SECONDS_MAX = 30.0
DUMP_SECONDS_MAX = 2.0

JVM_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)

# Kafka's distribution logs through slf4j-reload4j, which the jar's pom omits.
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId><artifactId>kafka-peer</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""

LOG4J = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


def _home() -> Path:
    return cache() / f"kafka-{VERSION}"


def java_command(*arguments: str) -> list[str]:
    home = _home()
    logging = f"-Dlog4j.configuration=file:{home / 'log4j.properties'}"
    return ["java", *JVM_FLAGS, logging, "-cp", f"{home / 'jars'}/*", *arguments]


def write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return path


class ZooKeeper:
    """A standalone ZooKeeper server on loopback."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        properties = {
            "dataDir": str(directory),
            "clientPort": str(self.port),
            "clientPortAddress": "127.0.0.1",
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "dump",
        }
        config = write_properties(directory / "zookeeper.properties", properties)
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._process = ServerProcess(
            java_command("-Xmx256M", main, str(config)), directory / "zookeeper.out", cores=None
        )
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + ZOOKEEPER_SECONDS_MAX
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            self._process.must_live()
            time.sleep(0.05)
        self._process.kill()
        raise BrokerFailed(f"ZooKeeper not ready:\n{self._process.last_output()}")

    def has_sessions(self) -> bool:
        """Return whether a broker session exists, of a live or dead broker."""
        return any(path.startswith("/brokers/ids/") for path in self.ephemerals())

    def ephemerals(self) -> frozenset[str]:
        """Return the paths of all ephemeral nodes."""
        deadline = time.monotonic() + ZOOKEEPER_SECONDS_MAX
        while True:
            try:
                lines = self._dump().decode().splitlines()
            except OSError:  # now and then a response does not come
                if time.monotonic() > deadline:
                    raise
            else:
                return frozenset(line.strip() for line in lines if line.startswith("\t"))

    def _dump(self) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=DUMP_SECONDS_MAX) as connection:
            connection.sendall(b"dump")
            with connection.makefile("rb") as response:
                return response.read()

    @property
    def pid(self) -> int:
        return self._process.pid

    def rss_bytes(self) -> int:
        return self._process.usage().rss_bytes

    def stop(self) -> None:
        self._process.stop()


class KafkaBroker(Broker):
    """A Kafka broker; after a wipe it gets a new root in the same ZooKeeper."""

    name = "kafka"

    def __init__(
        self,
        directory: Path,
        *,
        cores: frozenset[int] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, cores=cores, settings=settings)
        self._zookeeper: ZooKeeper | None = None
        self._life = 0

    @classmethod
    def prepare(cls) -> str:
        home = _home()
        if shutil.which("java") is None:
            raise NotAvailable("no java on PATH")
        home.mkdir(parents=True, exist_ok=True)
        (home / "log4j.properties").write_text(LOG4J)
        fetched_jars(home, POM, JAR_COUNT_MIN)
        return VERSION

    def launch(self) -> None:
        if self._zookeeper is None:
            self._zookeeper = ZooKeeper(self.directory / "zookeeper")
        super().launch()

    def wipe(self) -> None:
        super().wipe()
        self._life += 1

    def kill(self) -> None:
        """Kill, and wait until ZooKeeper has expired the session, which would prevent a start."""
        super().kill()
        assert self._zookeeper is not None
        deadline = time.monotonic() + ZOOKEEPER_SECONDS_MAX
        while self._zookeeper.has_sessions():
            if time.monotonic() > deadline:
                raise BrokerFailed(
                    f"ZooKeeper did not expire the broker's session in {ZOOKEEPER_SECONDS_MAX:.0f} s"
                )
            time.sleep(0.1)

    def close(self) -> None:
        super().close()
        if self._zookeeper is not None:
            self._zookeeper.stop()
            self._zookeeper = None

    def _command(self) -> list[str]:
        assert self._zookeeper is not None
        listener = f"PLAINTEXT://127.0.0.1:{self.port}"
        properties = {
            "broker.id": "0",
            "listeners": listener,
            "advertised.listeners": listener,
            "log.dirs": str(self.log_directory),
            "zookeeper.connect": f"127.0.0.1:{self._zookeeper.port}/life{self._life}",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **self.settings,
        }
        config = write_properties(self.directory / "server.properties", properties)
        return java_command(f"-Xmx{HEAP}", f"-Xms{HEAP}", "kafka.Kafka", str(config))
