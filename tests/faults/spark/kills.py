"""Spark drivers killed with SIGKILL at any moment of copying a topic, and restarted; then brokers.

A killed driver leaves batches planned and not written, or written and not committed, open transactions, and
tasks that outlive their JVM. A killed broker must not fail a query: the last driver survives all broker
kills. At the end each record of the source must be exactly once in the exactly-once copy and in the table;
the at-least-once copy may have duplicates.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

from tests.faults.fault_report import FaultReport
from tests.faults.spark.copies import Copies, Feed
from tests.faults.spark.driver import FINISH
from tests.faults.spark.driver_process import Driver, DriverEnded
from tests.support.broker import Broker

from odradek import Admin

ANY = "any"
BOTH = "both"
MOMENTS = {ANY: "at any moment", BOTH: "at any moment, and the broker with it"}
LONG_FORM = (
    *(ANY, ANY, BOTH, "at_least_once", ANY, ANY, BOTH, "exactly_once", ANY, ANY, "delta"),
    *(ANY, ANY, ANY, ANY),
)
"""Moments of driver kills: any; any, together with the broker; or when this sink has written an uncommitted
batch."""
KILL_AFTER_SECONDS_MAX = 2.5
AWAY_SECONDS_MAX = 4.0
BATCHES_BETWEEN = 2


def play(directory: Path, moments: tuple[str, ...], broker_kills: int, seed: int) -> FaultReport:
    """Kill a driver at each of these moments, then the broker; let the last driver finish; check."""
    report = FaultReport("kills of Spark's driver and of its broker", seed)
    broker = Broker(directory / "broker").start()
    feed = Feed(broker.bootstrap).start()
    run_state = KillRun(directory, broker, random.Random(seed), report)
    try:
        run_state.kill_drivers(moments)
        run_state.kill_brokers(broker_kills)
        feed.stop()
        report.check(feed.failure is None, f"the feed ended: {feed.failure}")
        run_state.finish()
        Copies(broker.bootstrap, directory).check_history(feed.acknowledged, report)
        broker.stop()
    except DriverEnded as ended:
        report.violate(f"a driver ended by itself, or stood still: {ended}")
    finally:
        run_state.end()
        feed.stop()
        if broker.is_running:
            broker.kill_if_running()
    return report


class KillRun:
    """The broker and the current driver."""

    def __init__(self, directory: Path, broker: Broker, rng: random.Random, report: FaultReport) -> None:
        self._directory = directory
        self._broker = broker
        self._rng = rng
        self._report = report
        self._drivers: list[Driver] = []

    def _start(self) -> Driver:
        driver = Driver(self._directory, self._broker.bootstrap, len(self._drivers))
        self._drivers.append(driver)
        return driver

    def kill_drivers(self, moments: tuple[str, ...]) -> None:
        copies = Copies(self._broker.bootstrap, self._directory)
        with Admin(bootstrap_servers=self._broker.bootstrap) as admin:
            for moment in moments:
                driver = self._start()
                driver.wait_for_own_plan()
                if moment in {ANY, BOTH}:
                    time.sleep(self._rng.random() * KILL_AFTER_SECONDS_MAX)
                else:
                    driver.stop_between_output_and_note(moment, copies.mark(admin, moment))
                self._kill(driver, moment)

    def _kill(self, driver: Driver, moment: str) -> None:
        self._report.check(driver.is_alive, f"a driver ended by itself: {driver.output()}")
        if moment == BOTH:
            self._broker.kill()
        driver.kill()
        if moment == BOTH:
            self._broker.start()
        self._report.faults += 1
        self._report.outcomes[
            f"drivers killed: {MOMENTS.get(moment, f'{moment} written and not noted')}"
        ] += 1
        for sink in driver.unfinished():
            self._report.outcomes[f"{sink}: batches cut by a kill"] += 1

    def kill_brokers(self, count: int) -> None:
        """Kill the broker under one driver; each query must finish batches afterwards."""
        driver = self._start()
        for _ in range(count):
            driver.wait_for_batches(BATCHES_BETWEEN)
            time.sleep(self._rng.random() * KILL_AFTER_SECONDS_MAX)
            self._broker.kill()
            time.sleep(self._rng.random() * AWAY_SECONDS_MAX)
            self._broker.start()
            self._report.faults += 1
            self._report.outcomes["brokers killed under a running driver"] += 1
        driver.wait_for_batches(BATCHES_BETWEEN)

    def finish(self) -> None:
        (self._directory / FINISH).touch()
        driver = self._drivers[-1]
        self._report.check(driver.ends_well(), f"the last driver failed: {driver.output()}")

    def end(self) -> None:
        """Stop all processes."""
        for driver in self._drivers:
            driver.kill()
        left = sum(driver.end_workers() for driver in self._drivers)
        self._report.outcomes["workers that outlived their JVM for long"] = left
        for reason, count in sum((driver.again() for driver in self._drivers), Counter()).items():
            self._report.outcomes[f"queries started again: {reason}"] = count
