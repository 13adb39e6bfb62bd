"""The Spark session of the S cases, as the harness sees it: a process that answers questions in turn."""

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

from bench.clients import one_broker
from bench.harness import SUBJECT, Bench, Goal, Row, Sample, load_sample
from bench.loads.worker import LoadFailed, Result
from bench.peers.broker import Broker, NotAvailable
from bench.peers.spark_connector import spark_connector
from bench.places import ROOT

PEER = "JVM connector"
FORMATS = {SUBJECT: "odradek", PEER: "kafka"}
SHORT = os.environ.get("SHORT", "") not in ("", "0")
"""A tenth of the rows and less warming up: shows that the cases run, gives no figure to publish."""
WARM_UP_ROUNDS = 1 if SHORT else 3
START_SECONDS_MAX = 120.0
ANSWER_SECONDS_MAX = 240.0
STOP_SECONDS_MAX = 30.0
WORDS_SHOWN = 600

T = TypeVar("T")
Measure = Callable[[T], Sample]


class SparkStage:
    """A driver process with its session, ended by leaving."""

    def __init__(self, folder: Path, jars: tuple[Path, ...]) -> None:
        self.folder = folder
        self._errors = folder / "spark.err"
        spec = {"folder": str(folder), "jars": [str(jar) for jar in jars]}
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.loads.spark_driver", json.dumps(spec)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
            )
        self.spark_version = self._answer(START_SECONDS_MAX)["spark"]

    def ask(self, measurement: str, broker: Broker, **spec: Any) -> Result:
        """Have one measurement taken; LoadFailed says what went wrong."""
        asked = {
            "measurement": measurement,
            "folder": str(self.folder),
            "bootstrap": broker.bootstrap,
            "broker_pid": broker.pid,
            **spec,
        }
        assert self._process.stdin is not None
        try:
            print(json.dumps(asked), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise LoadFailed(f"Spark has ended: {self._last_words()}") from None
        result = self._answer(ANSWER_SECONDS_MAX)
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

    def _answer(self, seconds_max: float) -> Result:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds_max):
                self._process.kill()
                raise LoadFailed(f"no answer from Spark in {seconds_max:.0f} s: {self._last_words()}")
        line = self._process.stdout.readline()
        if not line:
            raise LoadFailed(f"Spark has ended: {self._last_words()}")
        result: Result = json.loads(line)
        return result

    def _last_words(self) -> str:
        return self._errors.read_text(errors="replace")[-WORDS_SHOWN:].strip()


@dataclass(frozen=True, slots=True)
class SparkSides:
    """A session with both connectors, the broker they talk to, and why a connector is missing."""

    stage: SparkStage
    broker: Broker
    missing: dict[str, str]

    def ask(self, measurement: str, **spec: Any) -> Result:
        return self.stage.ask(measurement, self.broker, **spec)


@contextmanager
def spark_sides(bench: Bench, case: str) -> Iterator[SparkSides | None]:
    """Both connectors in one session, and a broker; None if there is no broker, and the results say why.

    Nothing is pinned: two task slots and the broker share what the machine has.
    """
    missing: dict[str, str] = {}
    jars: tuple[Path, ...] = ()
    try:
        connector = spark_connector()
        bench.versions[PEER] = str(connector)
        jars = connector.jars
    except NotAvailable as reason:
        missing[PEER] = str(reason)
        bench.say(f"{PEER}: not run: {reason}")
    with one_broker(bench, case, pinned=False) as broker:
        if broker is None:
            yield None
            return
        stage = SparkStage(bench.fresh_folder("spark"), jars)
        bench.versions["Spark"] = stage.spark_version
        try:
            yield SparkSides(stage, broker, missing)
        finally:
            stage.close()


def warm_up(bench: Bench, sides: SparkSides, contestants: Mapping[str, T], measure: Measure[T]) -> None:
    """Rounds that are not counted, for both sides alike: the JVM compiles what both need meanwhile."""
    row = Row("", "warm-up", "rows/s", None, peer=PEER)
    bench.compare(row, contestants, measure, missing=sides.missing, warm_up=False, pairs=WARM_UP_ROUNDS)
    bench.rows.remove(row)


def rows_sample(result: Result, broker: Broker, size: int) -> Sample:
    """Rows a second of the wall clock; rows per CPU second of Spark's processes go into the cost."""
    sample = load_sample(result["rows"] / result["seconds"], result, broker, result["rows"] * size)
    sample.cost["rows_per_cpu_second"] = result["rows"] / result["generator_cpu_seconds"]
    return sample


def per_core(row: Row, goal: Goal | None) -> Row:
    """The same measurements again, by CPU seconds of driver, JVM and Python workers."""
    samples = {
        side: [Sample(sample.cost["rows_per_cpu_second"], sample.cost) for sample in taken]
        for side, taken in row.samples.items()
    }
    return Row(row.case, row.load, "rows per CPU s", goal, samples, row.not_run, peer=row.peer)
