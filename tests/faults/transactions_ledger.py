"""Many small transactions of many clerks, abandoned, aborted and doubled, over a broker that is killed.

A read_committed reader watches from the first to the last; ``transactions_judge.py`` has the word.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.faults.partitions import create
from tests.faults.tally import Tally
from tests.faults.transactions_clerk import INPUTS, Clerk
from tests.faults.transactions_judge import SIDES, judge
from tests.faults.transactions_reader import Reader
from tests.support.broker import Broker
from tests.support.raw import RawConnection
from tests.support.requests import kio_requests

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


def play(directory: Path, transactions: int, kills: int, seed: int) -> Tally:
    """Commit so many transactions on a broker of ours that is killed so many times meanwhile."""
    broker = Broker(directory, SETTINGS).start()
    try:
        tally = play_on(broker, transactions, kills, seed)
        broker.stop()
    finally:
        if broker.is_running:
            broker.end_unchecked()
    return tally


def play_on(broker: Killable, transactions: int, kills: int, seed: int) -> Tally:
    """The same on any broker that is running."""
    tally = Tally("transactions abandoned, aborted and doubled, kill -9 of the broker", seed)
    prepare(broker.bootstrap, CLERKS, PARTITIONS, tally)
    chance = random.Random(seed)
    reader = Reader(broker.bootstrap, PARTITIONS)
    clerks = [
        Clerk(broker.bootstrap, number, -(-transactions // CLERKS), PARTITIONS, chance.getrandbits(32))
        for number in range(CLERKS)
    ]
    for one in (reader, *clerks):
        one.start()
    _kill_between(broker, clerks, transactions, kills, tally)
    for clerk in clerks:
        clerk.join()
        if not clerk.wrong:
            clerk.begin_and_go()
    reader.finish()
    _count(tally, clerks, reader)
    for words in judge(
        reader.sides(),
        {number: clerk.position for number, clerk in enumerate(clerks)},
        {name: fate for clerk in clerks for name, fate in clerk.fates.items()},
    ):
        tally.violate(words)
    return tally


def prepare(address: str, clerks: int, partitions: int, tally: Tally) -> None:
    """Make the topics; the first to ask for a coordinator has its topic made."""
    with RawConnection(address) as connection:
        tally.check(create(connection, INPUTS, clerks) == 0, "the topic of inputs was not created")
        for side in SIDES:
            tally.check(create(connection, side, partitions) == 0, f"{side} was not created")
        await_coordinators(connection, tally)


def await_coordinators(connection: RawConnection, tally: Tally) -> None:
    """Ask until one of groups and one of transactions is there."""
    for kind in (0, 1):
        request = find_coordinator.FindCoordinatorRequest(key="somebody", key_type=kind)
        while (code := connection.exchange(request).error_code) in NOT_THERE_YET:
            time.sleep(0.05)
        tally.check(code == 0, f"no coordinator of kind {kind}: error {code}")


def _kill_between(
    broker: Killable, clerks: Sequence[Clerk], transactions: int, kills: int, tally: Tally
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
        tally.outcomes["kills of the broker"] += 1


def _count(tally: Tally, clerks: Sequence[Clerk], reader: Reader) -> None:
    for clerk in clerks:
        tally.outcomes.update(clerk.outcomes)
        tally.acknowledged += clerk.committed
        tally.violations += clerk.wrong
    tally.violations += reader.wrong
    tally.outcomes["batches of aborted transactions not shown"] = reader.aborted_batches
    tally.outcomes["transactions committed"] = tally.acknowledged
    is_fault = ("kills", "zombies", "instances abandoned", "instances that lost")
    tally.faults = sum(count for words, count in tally.outcomes.items() if words.startswith(is_fault))
