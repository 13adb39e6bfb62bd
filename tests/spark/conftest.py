"""One local Spark and one broker for all tests of this folder: a session takes six seconds to start."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.support.fixtures import bootstrap, broker, start_broker, topic

from odradek.pipelines.run.java import java_variables

__all__ = ["bootstrap", "broker", "spark", "start_broker", "topic"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two processes: one holds the session that most tests share, the other what starts its own."""
    for item in items:
        shares = "spark" in getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("shared session" if shares else "their own"))


@pytest.fixture(scope="session", autouse=True)
def _java() -> None:
    """Tests need no more of a machine than users do: where there is no Java, one is provided."""
    os.environ.update(java_variables(os.environ))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two task slots, without a web interface, with all its files in a temporary directory."""
    directory = tmp_path_factory.mktemp("spark")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.sql.adaptive.streaming.stateless.enabled", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """A checkpoint directory no other test uses."""
    return str(tmp_path / "checkpoint")
