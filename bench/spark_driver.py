"""Spark session of the S cases: a driver process that takes one measurement after another."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bench.client_comparison import one_broker
from bench.harness import SUBJECT, Bench, Goal, Row, Sample, load_sample
from bench.loads.worker import LoadFailed, Result
from bench.paths import ROOT
from bench.peers.broker import Broker, NotAvailable
from bench.peers.spark_connector import spark_connector

PEER = "JVM connector"
FORMATS = {SUBJECT: "odradek", PEER: "kafka"}
SHORT = os.environ.get("SHORT", "") not in ("", "0")
"""A tenth of the rows and a shorter warm-up: a smoke test, not for published figures."""
WARM_UP_ROUNDS = 1 if SHORT else 3
START_SECONDS_MAX = 120.0
RESULT_SECONDS_MAX = 240.0
STOP_SECONDS_MAX = 30.0
ERROR_CHARACTERS_MAX = 600

T = TypeVar("T")
Measure = Callable[[T], Sample]


class SparkDriver:
    """Driver process with its session."""

    def __init__(self, folder: Path, jars: tuple[Path, ...]) -> None:
        self.folder = folder
        self._errors = folder / "spark.err"
        spec = {"folder": str(folder), "jars": [str(jar) for jar in jars]}
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.loads.spark.driver", json.dumps(spec)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
            )
        self.spark_version = self._read_result(START_SECONDS_MAX)["spark"]

    def measure(self, measurement: str, broker: Broker, **spec: Any) -> Result:
        """Take one measurement; raise LoadFailed with the reason if it fails."""
        request = {
            "measurement": measurement,
            "folder": str(self.folder),
            "bootstrap": broker.bootstrap,
            "broker_pid": broker.pid,
            **spec,
        }
        assert self._process.stdin is not None
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise LoadFailed(f"Spark exited: {self._error_output()}") from None
        result = self._read_result(RESULT_SECONDS_MAX)
        if "failed" in result:
            raise LoadFailed(f"{spec.get('format')}: {result['failed']}")
        return result

    def close(self) -> None:
        assert self._process.stdin is not None
        if self._process.poll() is None:
            self._process.stdin.close()
            try:
                self._process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _read_result(self, seconds_max: float) -> Result:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds_max):
                self._process.kill()
                raise LoadFailed(f"no result from Spark in {seconds_max:.0f} s: {self._error_output()}")
        line = self._process.stdout.readline()
        if not line:
            raise LoadFailed(f"Spark exited: {self._error_output()}")
        result: Result = json.loads(line)
        return result

    def _error_output(self) -> str:
        return self._errors.read_text(errors="replace")[-ERROR_CHARACTERS_MAX:].strip()


@dataclass(frozen=True, slots=True)
class SparkSides:
    """Session with both connectors, their broker, and reasons of missing connectors."""

    driver: SparkDriver
    broker: Broker
    missing: dict[str, str]

    def measure(self, measurement: str, **spec: Any) -> Result:
        return self.driver.measure(measurement, self.broker, **spec)


@contextmanager
def spark_sides(bench: Bench, case: str) -> Iterator[SparkSides | None]:
    """Run a session with both connectors and a broker; yield None without a broker (reason in the results).

    Nothing is pinned: two task slots and the broker share the cores.
    """
    missing: dict[str, str] = {}
    jars: tuple[Path, ...] = ()
    try:
        connector = spark_connector()
        bench.versions[PEER] = str(connector)
        jars = connector.jars
    except NotAvailable as reason:
        missing[PEER] = str(reason)
        bench.log(f"{PEER}: not run: {reason}")
    with one_broker(bench, case, pinned=False) as broker:
        if broker is None:
            yield None
            return
        driver = SparkDriver(bench.fresh_directory("spark"), jars)
        bench.versions["Spark"] = driver.spark_version
        try:
            yield SparkSides(driver, broker, missing)
        finally:
            driver.close()


def warm_up(bench: Bench, sides: SparkSides, sides_by_name: Mapping[str, T], measure: Measure[T]) -> None:
    """Run uncounted rounds for both sides, while the JVM compiles."""
    row = Row("", "warm-up", "rows/s", None, peer=PEER)
    bench.compare(row, sides_by_name, measure, missing=sides.missing, warm_up=False, pairs=WARM_UP_ROUNDS)
    bench.rows.remove(row)


def rows_sample(result: Result, broker: Broker, size: int) -> Sample:
    """Return rows per second of wall time, with rows per CPU second of Spark's processes as cost."""
    sample = load_sample(result["rows"] / result["seconds"], result, broker, result["rows"] * size)
    sample.cost["rows_per_cpu_second"] = result["rows"] / result["generator_cpu_seconds"]
    return sample


def per_core(row: Row, goal: Goal | None) -> Row:
    """Return the same measurements per CPU second of driver, JVM and Python workers."""
    samples = {
        side: [Sample(sample.cost["rows_per_cpu_second"], sample.cost) for sample in samples_of_side]
        for side, samples_of_side in row.samples.items()
    }
    return Row(row.case, row.load, "rows per CPU s", goal, samples, row.not_run, peer=row.peer)
