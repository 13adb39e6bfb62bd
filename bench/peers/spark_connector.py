"""Spark's own Kafka connector, unmodified, from Maven Central.

PySpark brings everything but these jars: the connector, its token provider, Kafka's Java client and
commons-pool2. The newest connector that Maven Central has is taken, beginning with the version of Spark that
is developed on; 4.2.0 loads into it too. They are fetched once into the cache of the benchmarks.
"""

from __future__ import annotations

import shutil
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

from bench.peers.maven import maven_lock
from bench.peers.server_process import NotAvailable
from bench.places import cache

REPOSITORY = "https://repo1.maven.org/maven2"
SCALA = "2.13"
FETCH_SECONDS_MAX = 120.0

# Connector, then the token providers that go with it, the best first: not every mirror of Maven Central has
# all versions of the provider, and nothing is asked of it without Kerberos or delegation tokens.
CHOICES = (
    ("4.3.0", ("4.3.0", "4.2.0", "4.0.0")),
    ("4.2.0", ("4.2.0", "4.0.0")),
)
KAFKA_CLIENTS = "3.9.2"
COMMONS_POOL = "2.13.1"


class Connector(NamedTuple):
    """The jars for `spark.jars`, and what they are."""

    version: str
    token_provider: str
    jars: tuple[Path, ...]

    def __str__(self) -> str:
        return (
            f"spark-sql-kafka-0-10 {self.version}, token provider {self.token_provider}, "
            f"kafka-clients {KAFKA_CLIENTS}"
        )


def spark_connector() -> Connector:
    """The connector, fetched if it is not in the cache; NotAvailable says why it cannot be had."""
    if shutil.which("java") is None:
        raise NotAvailable("no java on PATH")
    for version, providers in CHOICES:
        found = _first_provider(version, providers, fetch=False)
        if found is not None:
            return found
    with maven_lock():
        for version, providers in CHOICES:
            found = _first_provider(version, providers, fetch=True)
            if found is not None:
                return found
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
    """The jar in the cache; None when it is not there and cannot be had under that version."""
    jar = cache() / "spark-connector" / Path(path).name
    if jar.exists():
        return jar
    if not fetch:
        return None
    jar.parent.mkdir(parents=True, exist_ok=True)
    part = jar.with_suffix(".part")
    try:
        with urllib.request.urlopen(f"{REPOSITORY}/{path}", timeout=FETCH_SECONDS_MAX) as answer:
            part.write_bytes(answer.read())
    except urllib.error.HTTPError as refusal:
        if refusal.code == 404:
            return None
        raise NotAvailable(f"Maven Central answered {refusal.code} for {jar.name}") from refusal
    except OSError as trouble:
        raise NotAvailable(f"Maven Central cannot be reached for {jar.name}: {trouble}") from trouble
    part.replace(jar)
    return jar
