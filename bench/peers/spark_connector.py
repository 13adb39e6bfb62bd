"""Spark's own Kafka connector, unmodified, from Maven Central.

PySpark lacks only these jars: the connector, its token provider, Kafka's Java client and commons-pool2. The
newest connector on Maven Central is used, starting with the version of Spark under development; 4.2.0 runs on
it too. Fetched once into the cache of the benchmarks.
"""

from __future__ import annotations

import shutil
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

from bench.paths import cache
from bench.peers.maven import maven_lock
from bench.peers.server_process import NotAvailable

REPOSITORY = "https://repo1.maven.org/maven2"
SCALA = "2.13"
FETCH_SECONDS_MAX = 120.0

# Connector and compatible token providers, preferred first: not every mirror has all versions of the
# provider, and it is unused without Kerberos and delegation tokens.
CHOICES = (
    ("4.3.0", ("4.3.0", "4.2.0", "4.0.0")),
    ("4.2.0", ("4.2.0", "4.0.0")),
)
KAFKA_CLIENTS = "3.9.2"
COMMONS_POOL = "2.13.1"


class Connector(NamedTuple):
    """Jars for `spark.jars`, and their versions."""

    version: str
    token_provider: str
    jars: tuple[Path, ...]

    def __str__(self) -> str:
        return (
            f"spark-sql-kafka-0-10 {self.version}, token provider {self.token_provider}, "
            f"kafka-clients {KAFKA_CLIENTS}"
        )


def spark_connector() -> Connector:
    """Return the connector, fetched if not cached; raise NotAvailable with the reason if that fails."""
    if shutil.which("java") is None:
        raise NotAvailable("no java on PATH")
    for version, providers in CHOICES:
        connector = _first_provider(version, providers, fetch=False)
        if connector is not None:
            return connector
    with maven_lock():
        for version, providers in CHOICES:
            connector = _first_provider(version, providers, fetch=True)
            if connector is not None:
                return connector
    raise NotAvailable(f"Maven Central has no Spark connector of {', '.join(v for v, _ in CHOICES)}")


def _first_provider(version: str, providers: tuple[str, ...], *, fetch: bool) -> Connector | None:
    for provider in providers:
        jars = tuple(_jar(path, fetch=fetch) for path in _paths(version, provider))
        present = tuple(jar for jar in jars if jar is not None)
        if len(present) == len(jars):
            return Connector(version, provider, present)
    return None


def _paths(version: str, provider: str) -> tuple[str, ...]:
    spark = "org/apache/spark"
    connector, token = f"spark-sql-kafka-0-10_{SCALA}", f"spark-token-provider-kafka-0-10_{SCALA}"
    return (
        f"{spark}/{connector}/{version}/{connector}-{version}.jar",
        f"{spark}/{token}/{provider}/{token}-{provider}.jar",
        f"org/apache/kafka/kafka-clients/{KAFKA_CLIENTS}/kafka-clients-{KAFKA_CLIENTS}.jar",
        f"org/apache/commons/commons-pool2/{COMMONS_POOL}/commons-pool2-{COMMONS_POOL}.jar",
    )


def _jar(path: str, *, fetch: bool) -> Path | None:
    """Return the cached or fetched jar; None if that version does not exist."""
    jar = cache() / "spark-connector" / Path(path).name
    if jar.exists():
        return jar
    if not fetch:
        return None
    jar.parent.mkdir(parents=True, exist_ok=True)
    part = jar.with_suffix(".part")
    try:
        with urllib.request.urlopen(f"{REPOSITORY}/{path}", timeout=FETCH_SECONDS_MAX) as response:
            part.write_bytes(response.read())
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise NotAvailable(f"Maven Central returned {error.code} for {jar.name}") from error
    except OSError as error:
        raise NotAvailable(f"Maven Central cannot be reached for {jar.name}: {error}") from error
    part.replace(jar)
    return jar
