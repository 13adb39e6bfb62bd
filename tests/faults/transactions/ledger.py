"""Many small transactions of many clerks, abandoned, aborted and doubled, over a broker that is killed.

A read_committed reader watches from the first to the last; ``transactions_judge.py`` has the word.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.faults.broker_partitions import create
from tests.faults.fault_report import FaultReport
from tests.faults.transactions.checker import SIDES, judge
from tests.faults.transactions.reader import Reader
from tests.faults.transactions.worker import INPUTS, Clerk
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
    """A broker, whoever wrote it."""

    @property
    def bootstrap(self) -> str: ...
    def start(self) -> object: ...
    def kill(self) -> None: ...


def play(directory: Path, transactions: int, kills: int, seed: int) -> FaultReport:
    """Commit so many transactions on a broker of ours that is killed so many times meanwhile."""
    broker = Broker(directory, SETTINGS).start()
    try:
        report = play_on(broker, transactions, kills, seed)
        broker.stop()
    finally:
        if broker.is_running:
            broker.kill_if_running()
    return report


def play_on(broker: Killable, transactions: int, kills: int, seed: int) -> FaultReport:
    """The same on any broker that is running."""
    report = FaultReport("transactions abandoned, aborted and doubled, kill -9 of the broker", seed)
    prepare(broker.bootstrap, CLERKS, PARTITIONS, report)
    chance = random.Random(seed)
    reader = Reader(broker.bootstrap, PARTITIONS)
    clerks = [
        Clerk(broker.bootstrap, number, -(-transactions // CLERKS), PARTITIONS, chance.getrandbits(32))
        for number in range(CLERKS)
    ]
    for one in (reader, *clerks):
        one.start()
    _kill_between(broker, clerks, transactions, kills, report)
    for clerk in clerks:
        clerk.join()
        if not clerk.wrong:
            clerk.begin_and_go()
    reader.finish()
    _count(report, clerks, reader)
    for words in judge(
        reader.sides(),
        {number: clerk.position for number, clerk in enumerate(clerks)},
        {name: fate for clerk in clerks for name, fate in clerk.fates.items()},
    ):
        report.violate(words)
    return report


def prepare(address: str, clerks: int, partitions: int, report: FaultReport) -> None:
    """Make the topics; the first to ask for a coordinator has its topic made."""
    with RawConnection(address) as connection:
        report.check(create(connection, INPUTS, clerks) == 0, "the topic of inputs was not created")
        for side in SIDES:
            report.check(create(connection, side, partitions) == 0, f"{side} was not created")
        await_coordinators(connection, report)


def await_coordinators(connection: RawConnection, report: FaultReport) -> None:
    """Ask until one of groups and one of transactions is there."""
    for kind in (0, 1):
        request = find_coordinator.FindCoordinatorRequest(key="somebody", key_type=kind)
        while (code := connection.exchange(request).error_code) in NOT_THERE_YET:
            time.sleep(0.05)
        report.check(code == 0, f"no coordinator of kind {kind}: error {code}")


def _kill_between(
    broker: Killable, clerks: Sequence[Clerk], transactions: int, kills: int, report: FaultReport
) -> None:
    """Kill whenever another part of all transactions is done."""
    for number in range(1, kills + 1):
        due = transactions * number // (kills + 1)
        while sum(clerk.committed for clerk in clerks) < due:
            if not any(clerk.is_alive() for clerk in clerks):
                return
            time.sleep(0.02)
        broker.kill()
        broker.start()
        report.outcomes["kills of the broker"] += 1


def _count(report: FaultReport, clerks: Sequence[Clerk], reader: Reader) -> None:
    for clerk in clerks:
        report.outcomes.update(clerk.outcomes)
        report.acknowledged += clerk.committed
        report.violations += clerk.wrong
    report.violations += reader.wrong
    report.outcomes["batches of aborted transactions not shown"] = reader.aborted_batches
    report.outcomes["transactions committed"] = report.acknowledged
    is_fault = ("kills", "zombies", "instances abandoned", "instances that lost")
    report.faults = sum(count for words, count in report.outcomes.items() if words.startswith(is_fault))
