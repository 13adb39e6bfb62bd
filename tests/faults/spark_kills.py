"""Drivers of Spark killed with SIGKILL at any moment of copying a topic, and started again.

A killed driver leaves everything as it is: batches planned and not written, written and not noted, open
transactions, tasks that go on for a moment after their JVM. In the end each record of the source must be in
the exactly-once copy once, under ``read_committed``; the plain copy shows what happens otherwise.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
from tests.faults.spark_driver import GUARANTEES
from tests.faults.tally import Tally
from tests.support.broker import Broker

from odradek import Admin, Consumer, NewTopic, Producer, TopicPartition

SOURCE = "source"
PARTITIONS = 2
ROWS = 100
BATCHES_PER_KILL = 25
ROWS_AT_THE_END = 5_000
KILL_AFTER_SECONDS_MAX = 2.5
DRIVER_SECONDS_MAX = 300
SPARE_STARTS = 5
"""Spark gives a Python process of its own ten seconds to start, which is little on a busy machine."""
SCRIPT = Path(__file__).with_name("spark_driver.py")


def play(directory: Path, kills: int, seed: int) -> Tally:
    """Kill the driver so many times, then let it finish and judge both copies."""
    tally = Tally("kills of Spark's driver", seed)
    broker = Broker(directory / "broker").start()
    try:
        expected = _fill(broker.bootstrap, max(kills, 1) * BATCHES_PER_KILL * ROWS)
        drivers = (
            Driver(directory, broker.bootstrap, number, ROWS if tally.faults < kills else ROWS_AT_THE_END)
            for number in itertools.count()
        )
        _kill(drivers, kills, random.Random(seed), tally)
        _finish(drivers, tally)
        for guarantee in GUARANTEES:
            _judge(broker.bootstrap, guarantee, expected, tally)
        tally.acknowledged = len(expected)
        broker.stop()
    finally:
        if broker.is_running:
            broker.end_unchecked()
    return tally


def _kill(drivers: Iterator[Driver], kills: int, chance: random.Random, tally: Tally) -> None:
    """Kill so many drivers. One that ends by itself, as Spark's do on a busy machine, is started again."""
    for _ in range(kills + SPARE_STARTS):
        driver = next(drivers)
        if driver.kill_after_a_batch(chance.random() * KILL_AFTER_SECONDS_MAX):
            tally.faults += 1
        else:
            tally.outcomes["drivers that ended by themselves"] += 1
        if tally.faults == kills:
            return
    tally.violate(f"only {tally.faults} drivers wrote something: {driver.words()}")


def _finish(drivers: Iterator[Driver], tally: Tally) -> None:
    for _ in range(1 + SPARE_STARTS):
        driver = next(drivers)
        if driver.ends_well():
            return
    tally.violate(f"the last driver failed: {driver.words()}")


class Driver:
    """One process of ``spark_driver.py``, with the JVM and the workers that it starts."""

    def __init__(self, directory: Path, bootstrap: str, number: int, rows_per_batch: int) -> None:
        self._checkpoints = directory / "checkpoints"
        self._output = directory / f"driver-{number}.txt"
        self._known = self._batches()
        given = (bootstrap, SOURCE, str(self._checkpoints), str(rows_per_batch))
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(SCRIPT), *given],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _batches(self) -> set[Path]:
        return {path for path in self._checkpoints.glob("*/offsets/*") if path.name.isdigit()}

    def kill_after_a_batch(self, seconds: float) -> bool:
        """SIGKILL so long after both queries planned a new batch; False if it ended before."""
        deadline = time.monotonic() + DRIVER_SECONDS_MAX
        while len({path.parts[-3] for path in self._batches() - self._known}) < len(GUARANTEES):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._end()
                return False
            time.sleep(0.02)
        time.sleep(seconds)
        is_alive = self._process.poll() is None
        self._end()
        return is_alive

    def ends_well(self) -> bool:
        try:
            return self._process.wait(DRIVER_SECONDS_MAX) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            self._end()

    def _end(self) -> None:
        """Kill the Python driver and its JVM at once. Workers end when they hear nothing any more."""
        family = [] if self._process.poll() is not None else _family(self._process.pid)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        _, left = psutil.wait_procs(family, 20)
        for one in left:
            one.kill()

    def words(self) -> str:
        return self._output.read_text(errors="replace")[-2_000:]


def _family(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _fill(bootstrap: str, count: int) -> set[str]:
    """Make the topics; what each copy must hold."""
    names = [SOURCE, *(f"{SOURCE}.{guarantee}" for guarantee in GUARANTEES)]
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names])
    with Producer(bootstrap_servers=bootstrap) as producer:
        values = [f"record {number}".encode() for number in range(count)]
        producer.send_many(SOURCE, values, keys=[b"%d" % number for number in range(count)]).result()
    return set(_committed(bootstrap, SOURCE, with_place=True))


def _committed(bootstrap: str, topic: str, *, with_place: bool) -> list[str]:
    """Values that readers of committed records are given, in front of them the place of each if wanted."""
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(places)
        found = []
        while any(consumer.position(place) < ends[place] for place in places):
            for record in consumer.poll(timeout_s=1):
                value = record.value.decode()
                found.append(f"{record.partition}:{record.offset}:{value}" if with_place else value)
    return found


def _judge(bootstrap: str, guarantee: str, expected: set[str], tally: Tally) -> None:
    copies = Counter(_committed(bootstrap, f"{SOURCE}.{guarantee}", with_place=False))
    missing, strange = expected - copies.keys(), copies.keys() - expected
    surplus = copies.total() - len(copies)
    tally.check(not missing, f"{guarantee}: {len(missing)} records are missing, as {sorted(missing)[:3]}")
    tally.check(not strange, f"{guarantee}: {len(strange)} records nobody sent, as {sorted(strange)[:3]}")
    if guarantee == "exactly_once":
        twice = [value for value, count in copies.items() if count > 1]
        tally.check(not surplus, f"{guarantee}: {surplus} records too many, as {twice[:3]}")
    tally.outcomes[f"records copied more than once with {guarantee}, of {len(expected)}"] = surplus
