"""Many small transactions of many workers, abandoned, aborted and doubled, on a broker that is killed.

A read_committed reader reads all the time; ``checker.py`` checks what it saw.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.faults.broker_partitions import create
from tests.faults.fault_report import FaultReport
from tests.faults.transactions.checker import SIDES, check_history
from tests.faults.transactions.reader import Reader
from tests.faults.transactions.worker import INPUTS, Worker
from tests.support.broker import Broker
from tests.support.kio_requests import kio_requests
from tests.support.raw_connection import RawConnection

CLERKS = 8
PARTITIONS = 3
NOT_THERE_YET = (14, 15, 16)
SETTINGS = {
    "transaction.state.log.num.partitions": "5",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.segment.bytes": "1048576",
    "offsets.topic.segment.bytes": "1048576",
}

find_coordinator = kio_requests("find_coordinator", 2)


class Killable(Protocol):
    """Any broker that can be killed and restarted."""

    @property
    def bootstrap(self) -> str: ...
    def start(self) -> object: ...
    def kill(self) -> None: ...


def play(directory: Path, transactions: int, kills: int, seed: int) -> FaultReport:
    """Commit ``transactions`` on a new broker that is killed ``kills`` times meanwhile."""
    broker = Broker(directory, SETTINGS).start()
    try:
        report = play_on(broker, transactions, kills, seed)
        broker.stop()
    finally:
        if broker.is_running:
            broker.kill_if_running()
    return report


def play_on(broker: Killable, transactions: int, kills: int, seed: int) -> FaultReport:
    """The same on a running broker."""
    report = FaultReport("transactions abandoned, aborted and doubled, kill -9 of the broker", seed)
    prepare(broker.bootstrap, CLERKS, PARTITIONS, report)
    keep(broker, transactions, kills, report)
    return report


def keep(
    broker: Killable,
    transactions: int,
    kills: int,
    report: FaultReport,
    make_worker: type[Worker] = Worker,
    make_reader: type[Reader] = Reader,
) -> None:
    """The same with topics that exist."""
    rng = random.Random(report.seed)
    reader = make_reader(broker.bootstrap, PARTITIONS)
    workers = [
        make_worker(broker.bootstrap, number, -(-transactions // CLERKS), PARTITIONS, rng.getrandbits(32))
        for number in range(CLERKS)
    ]
    for thread in (reader, *workers):
        thread.start()
    _kill_between(broker, workers, transactions, kills, report)
    for worker in workers:
        worker.join()
        if not worker.wrong:
            worker.start_and_close()
    reader.finish()
    _count(report, workers, reader)
    for words in check_history(
        reader.sides(),
        {number: worker.position for number, worker in enumerate(workers)},
        {name: outcome for worker in workers for name, outcome in worker.outcomes_by_attempt.items()},
    ):
        report.violate(words)


def prepare(address: str, workers: int, partitions: int, report: FaultReport) -> None:
    """Create the topics, and the coordinators' topics by a first request."""
    with RawConnection(address) as connection:
        report.check(create(connection, INPUTS, workers) == 0, "the topic of inputs was not created")
        for side in SIDES:
            report.check(create(connection, side, partitions) == 0, f"{side} was not created")
        await_coordinators(connection, report)


def await_coordinators(connection: RawConnection, report: FaultReport) -> None:
    """Wait for a group and a transaction coordinator."""
    for kind in (0, 1):
        request = find_coordinator.FindCoordinatorRequest(key="somebody", key_type=kind)
        while (code := connection.exchange(request).error_code) in NOT_THERE_YET:
            time.sleep(0.05)
        report.check(code == 0, f"no coordinator of kind {kind}: error {code}")


def _kill_between(
    broker: Killable, workers: Sequence[Worker], transactions: int, kills: int, report: FaultReport
) -> None:
    """Kill the broker after each equal part of the transactions."""
    for number in range(1, kills + 1):
        due = transactions * number // (kills + 1)
        while sum(worker.committed for worker in workers) < due:
            if not any(worker.is_alive() for worker in workers):
                return
            time.sleep(0.02)
        broker.kill()
        broker.start()
        report.outcomes["kills of the broker"] += 1


def _count(report: FaultReport, workers: Sequence[Worker], reader: Reader) -> None:
    for worker in workers:
        report.outcomes.update(worker.outcomes)
        report.acknowledged += worker.committed
        report.violations += worker.wrong
    report.violations += reader.wrong
    report.outcomes["batches of aborted transactions not shown"] = reader.aborted_batches
    report.outcomes["transactions committed"] = report.acknowledged
    is_fault = ("kills", "zombies", "instances abandoned", "instances that lost")
    report.faults = sum(count for words, count in report.outcomes.items() if words.startswith(is_fault))
