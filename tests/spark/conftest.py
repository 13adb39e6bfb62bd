"""A local Spark session and a broker shared by all tests: a session takes six seconds to start."""

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
    """Group tests for two processes: those that share the session, and the others."""
    for item in items:
        shares_session = "spark" in getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("shared session" if shares_session else "own session"))


@pytest.fixture(scope="session", autouse=True)
def _java() -> None:
    """Provide Java if there is none, as for users."""
    os.environ.update(java_variables(os.environ))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start a session with two task slots, without UI, and with its files in a temporary directory."""
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
    """Return a checkpoint location for this test."""
    return str(tmp_path / "checkpoint")
