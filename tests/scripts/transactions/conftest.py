"""Runs text scenarios of the transaction shard.

A file holds steps: a command, a line of dashes, and what comes of it, one effect a line, then what is stored
of the transactional id if that changed. ``ODRADEK_REWRITE=1`` writes down what came instead. The id is called
``t``, if a command does not begin with another one and a colon. Producers are written as id/epoch; fresh ids
are counted from 1. Transactions may last 30 s, if a command does not say otherwise.

    init  |  init 1/0  |  init timeout=5000     a producer comes, or goes on as the one it is
    add 1/0 orders-0 orders-1                   it writes to these; ``verify`` only asks
    end 1/0 commit                              or abort
    marked  |  marked orders-0                  the markers that were asked for last are written, all or some
    marked before                               those that were asked for before the partition moved are
    write | refuse CODE                         what becomes of the oldest write
    late | late CODE, then arrive               it takes too long, and gets through after all
    replicas leave                              it gets through, but not as safely as it should
    wait 3000                                   time passes
    move | move without                         the partition goes to another broker, which has what is late
    raise 32765                                 the epoch, as if the producer had come back that often
    set timeout_max_ms 2, describe, list
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from tests.support.simulation.transaction_simulation import TransactionSimulation

from odradek.coordinators.effects import (
    AppendRecords,
    CoordinatorRecord,
    Effect,
    Reply,
    ScheduleTimer,
    StartTask,
)
from odradek.coordinators.transactions import commands as c
from odradek.coordinators.transactions.handlers import TIMEOUT_TIMER
from odradek.coordinators.transactions.records import (
    StoredTransaction,
    read_key,
    read_transaction,
    transaction_record,
)
from odradek.coordinators.transactions.transition_appends import RetryTimer
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition

SEPARATOR = "----"
ID = "t"
TIMEOUT_MS = 30_000


class Scenario:
    def __init__(self) -> None:
        self.world = TransactionSimulation()
        self.world.on_effect = lambda effect: self.lines.append(_shown(effect))
        self.lines: list[str] = []
        self.line = ""
        self.old_tasks: list[c.WriteMarkers] = []

    def run(self, line: str) -> list[str]:
        self.lines, self.line = [], line
        before = self._stored()
        name, _, command = line.rpartition(": ")
        word, *given = command.split()
        options = dict(one.split("=", 1) for one in given if "=" in one)
        self.name = "" if name == "nameless" else name or ID
        getattr(self, f"_{word}")([one for one in given if "=" not in one], options)
        if self._stored() != before:
            self.lines.append(f"now {_state(self._stored())}")
        return _shortened(self.lines) or ["nothing"]

    def _stored(self) -> StoredTransaction | None:
        one = self.world.shard.ids.get(ID)
        return None if one is None else one.stored

    def _submit(self, command: Any) -> None:
        self.world.submit(command, self.line)

    def _init(self, words: list[str], options: dict[str, str]) -> None:
        timeout_ms = int(options.get("timeout", TIMEOUT_MS))
        self._submit(c.InitProducerId(self.name, timeout_ms, *_producer(words[0] if words else "-1/-1")))

    def _add(self, words: list[str], _options: dict[str, str], *, verify_only: bool = False) -> None:
        producer, *partitions = words
        named = tuple(map(_partition, partitions))
        self._submit(c.AddPartitions(self.name, *_producer(producer), named, verify_only))

    def _verify(self, words: list[str], options: dict[str, str]) -> None:
        self._add(words, options, verify_only=True)

    def _end(self, words: list[str], _options: dict[str, str]) -> None:
        self._submit(c.EndTransaction(self.name, *_producer(words[0]), words[1] == "commit"))

    def _marked(self, words: list[str], _options: dict[str, str]) -> None:
        is_old = words == ["before"]
        task = (self.old_tasks if is_old else self.world.tasks)[-1]
        partitions = tuple(map(_partition, words)) if words and not is_old else task.partitions
        self._submit(c.MarkersWritten(task, partitions))

    def _write(self, _words: list[str], _options: dict[str, str]) -> None:
        self.world.commit()

    def _refuse(self, words: list[str], _options: dict[str, str]) -> None:
        self.world.refuse(ErrorCode[words[0]])

    def _late(self, words: list[str], _options: dict[str, str]) -> None:
        self.world.delay(*(ErrorCode[one] for one in words))

    def _arrive(self, _words: list[str], _options: dict[str, str]) -> None:
        self.world.catch_up()

    def _replicas(self, _words: list[str], _options: dict[str, str]) -> None:
        self.world.refuse_committed()

    def _wait(self, words: list[str], _options: dict[str, str]) -> None:
        self.world.wait(int(words[0]))

    def _move(self, words: list[str], _options: dict[str, str]) -> None:
        self.old_tasks += self.world.tasks
        self.world.move(with_late=not words)

    def _raise(self, words: list[str], _options: dict[str, str]) -> None:
        stored = self._stored()
        assert stored is not None
        entry = transaction_record(ID, stored._replace(producer_epoch=int(words[0])))
        self.world.committed.append(entry)
        self.world.shard.replay(entry)

    def _set(self, words: list[str], _options: dict[str, str]) -> None:
        self.world.set(**{words[0]: int(words[1])})

    def _describe(self, _words: list[str], _options: dict[str, str]) -> None:
        told = self.world.shard.describe(self.name)
        since = f"since {told.start_ms - self.world.now.wall_ms}" if told.start_ms >= 0 else "not begun"
        facts = f"{told.state} {told.producer_id}/{told.producer_epoch} {told.timeout_ms} {since}"
        partitions = " ".join(map(str, told.partitions))
        self.lines.append(told.error.name if told.error else f"{facts} [{partitions}]")

    def _list(self, words: list[str], options: dict[str, str]) -> None:
        """list Ongoing producer=1 longer=5000 - those in a state, of a producer, of that duration."""
        producer_ids = {int(one) for one in options.get("producer", "").split(",") if one}
        found = self.world.shard.listing(
            words, producer_ids, int(options.get("longer", -1)), self.world.now.wall_ms
        )
        self.lines += [f"{one.transactional_id} {one.state} {one.producer_id}" for one in found]


def _shortened(lines: list[str]) -> list[str]:
    """Lines that come many times in a row are shown once, with their number."""
    counted = [(line, len(list(same))) for line, same in groupby(lines)]
    return [line if count == 1 else f"{line} ({count} times)" for line, count in counted]


def _producer(text: str) -> tuple[int, int]:
    producer_id, _, epoch = text.partition("/")
    return int(producer_id), int(epoch)


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def _shown(effect: Effect) -> str:
    match effect:
        case Reply(to, answer):
            return f"{to} <- {_answer(answer)}"
        case AppendRecords(entries):
            return f"write {', '.join(map(_entry, entries))}"
        case ScheduleTimer(timer, delay_ms):
            return f"in {delay_ms}: {_timer(timer)}"
        case StartTask(task):
            word = "commit" if task.commits else "abort"
            named = " ".join(map(str, task.partitions))
            return f"{word} {task.producer_id}/{task.producer_epoch} in {named}"
    raise AssertionError(effect)


def _timer(timer: object) -> str:
    if isinstance(timer, RetryTimer):
        return f"look at {timer.transactional_id} again"
    return "look for long transactions" if timer == TIMEOUT_TIMER else "look for unused ids"


def _entry(entry: CoordinatorRecord) -> str:
    name = read_key(entry.key)
    told = _state(None if entry.value is None else read_transaction(entry.value))
    return told if name == ID else f"{name}: {told}"


def _state(stored: StoredTransaction | None) -> str:
    if stored is None:
        return "nothing"
    timeout = "" if stored.timeout_ms == TIMEOUT_MS else f" timeout {stored.timeout_ms}"
    partitions = "".join(f" {one}" for one in sorted(stored.partitions))
    return f"{stored.state.value} {stored.producer_id}/{stored.producer_epoch}{partitions}{timeout}"


def _answer(answer: Any) -> str:
    match answer:
        case ErrorCode():
            return answer.name
        case c.InitProducerIdResult(ErrorCode.NONE):
            return f"{answer.producer_id}/{answer.producer_epoch}"
        case c.InitProducerIdResult(code):
            return code.name
        case c.AddPartitionsResult(errors):
            return " ".join(f"{one}={code.name}" for one, code in errors.items()) or "nothing"
    raise AssertionError(answer)


def play(path: Path) -> None:
    scenario, written = Scenario(), []
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        head, _, expected = block.partition(f"\n{SEPARATOR}")
        command = [line for line in head.splitlines() if not line.startswith("#")][-1]
        found = "\n".join(scenario.run(command))
        written.append(f"{head}\n{SEPARATOR}\n{found}")
        if "ODRADEK_REWRITE" not in os.environ:
            assert found == expected.strip(), f"after: {command}"
    if "ODRADEK_REWRITE" in os.environ:
        path.write_text("\n\n".join(written) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def run() -> Callable[[Path], None]:
    return play
