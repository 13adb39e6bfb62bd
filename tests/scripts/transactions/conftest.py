"""Runs text scenarios of the transaction shard.

A file consists of steps: a command, a line of dashes, and the resulting effects, one per line, then the
stored state of the transactional id if it changed. ``ODRADEK_REWRITE=1`` writes the actual effects instead of
comparing. The transactional id is ``t``, unless a command has a prefix with another one and a colon.
Producers are written as id/epoch; new ids are counted from 1. The default transaction timeout is 30 s.

    init  |  init 1/0  |  init timeout=5000     InitProducerId, without or with a current producer
    add 1/0 orders-0 orders-1                   add partitions; ``verify`` only verifies them
    end 1/0 commit                              or abort
    markers_written  |  markers_written orders-0  the markers requested last are written, all or some
    markers_written before_move                 the markers requested before the partition moved are written
    write | fail CODE                           result of the oldest append
    delay | delay CODE, then complete_delayed   the append times out, and is committed later
    shrink_isr                                  the append succeeds with too few in-sync replicas
    wait 3000                                   advance the clock
    move | move without_delayed                 move the partition to a broker with or without delayed appends
    set_epoch 32765                             set the stored epoch
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
        self.simulation = TransactionSimulation()
        self.simulation.on_effect = lambda effect: self.lines.append(_format_effect(effect))
        self.lines: list[str] = []
        self.line = ""
        self.old_tasks: list[c.WriteMarkers] = []

    def run(self, line: str) -> list[str]:
        self.lines, self.line = [], line
        before = self._stored()
        name, _, command = line.rpartition(": ")
        command_name, *arguments = command.split()
        options = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
        self.name = "" if name == "nameless" else name or ID
        positional = [argument for argument in arguments if "=" not in argument]
        getattr(self, f"_{command_name}")(positional, options)
        if self._stored() != before:
            self.lines.append(f"now {_format_state(self._stored())}")
        return _merge_repeated(self.lines) or ["no effect"]

    def _stored(self) -> StoredTransaction | None:
        metadata = self.simulation.shard.ids.get(ID)
        return None if metadata is None else metadata.stored

    def _submit(self, command: Any) -> None:
        self.simulation.submit(command, self.line)

    def _init(self, arguments: list[str], options: dict[str, str]) -> None:
        timeout_ms = int(options.get("timeout", TIMEOUT_MS))
        self._submit(
            c.InitProducerId(self.name, timeout_ms, *_producer(arguments[0] if arguments else "-1/-1"))
        )

    def _add(self, arguments: list[str], _options: dict[str, str], *, verify_only: bool = False) -> None:
        producer, *partitions = arguments
        requested = tuple(map(_partition, partitions))
        self._submit(c.AddPartitions(self.name, *_producer(producer), requested, verify_only))

    def _verify(self, arguments: list[str], options: dict[str, str]) -> None:
        self._add(arguments, options, verify_only=True)

    def _end(self, arguments: list[str], _options: dict[str, str]) -> None:
        self._submit(c.EndTransaction(self.name, *_producer(arguments[0]), arguments[1] == "commit"))

    def _markers_written(self, arguments: list[str], _options: dict[str, str]) -> None:
        is_old = arguments == ["before_move"]
        task = (self.old_tasks if is_old else self.simulation.tasks)[-1]
        partitions = tuple(map(_partition, arguments)) if arguments and not is_old else task.partitions
        self._submit(c.MarkersWritten(task, partitions))

    def _write(self, _words: list[str], _options: dict[str, str]) -> None:
        self.simulation.commit()

    def _fail(self, arguments: list[str], _options: dict[str, str]) -> None:
        self.simulation.refuse(ErrorCode[arguments[0]])

    def _delay(self, arguments: list[str], _options: dict[str, str]) -> None:
        self.simulation.delay(*(ErrorCode[name] for name in arguments))

    def _complete_delayed(self, _words: list[str], _options: dict[str, str]) -> None:
        self.simulation.catch_up()

    def _shrink_isr(self, _words: list[str], _options: dict[str, str]) -> None:
        self.simulation.refuse_committed()

    def _wait(self, arguments: list[str], _options: dict[str, str]) -> None:
        self.simulation.wait(int(arguments[0]))

    def _move(self, arguments: list[str], _options: dict[str, str]) -> None:
        self.old_tasks += self.simulation.tasks
        self.simulation.move(with_late=not arguments)

    def _set_epoch(self, arguments: list[str], _options: dict[str, str]) -> None:
        stored = self._stored()
        assert stored is not None
        entry = transaction_record(ID, stored._replace(producer_epoch=int(arguments[0])))
        self.simulation.committed.append(entry)
        self.simulation.shard.replay(entry)

    def _set(self, arguments: list[str], _options: dict[str, str]) -> None:
        self.simulation.set(**{arguments[0]: int(arguments[1])})

    def _describe(self, _words: list[str], _options: dict[str, str]) -> None:
        description = self.simulation.shard.describe(self.name)
        age_ms = description.start_ms - self.simulation.now.wall_ms
        started = f"started {age_ms}" if description.start_ms >= 0 else "not started"
        producer = f"{description.producer_id}/{description.producer_epoch}"
        fields = f"{description.state} {producer} {description.timeout_ms} {started}"
        partitions = " ".join(map(str, description.partitions))
        self.lines.append(description.error.name if description.error else f"{fields} [{partitions}]")

    def _list(self, arguments: list[str], options: dict[str, str]) -> None:
        """list Ongoing producer=1 longer=5000 - filter by state, producer and duration."""
        producer_ids = {int(number) for number in options.get("producer", "").split(",") if number}
        transactions = self.simulation.shard.listing(
            arguments, producer_ids, int(options.get("longer", -1)), self.simulation.now.wall_ms
        )
        self.lines += [
            f"{transaction.transactional_id} {transaction.state} {transaction.producer_id}"
            for transaction in transactions
        ]


def _merge_repeated(lines: list[str]) -> list[str]:
    """Merge repeated lines into one with their number."""
    counted = [(line, len(list(same))) for line, same in groupby(lines)]
    return [line if count == 1 else f"{line} ({count} times)" for line, count in counted]


def _producer(text: str) -> tuple[int, int]:
    producer_id, _, epoch = text.partition("/")
    return int(producer_id), int(epoch)


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def _format_effect(effect: Effect) -> str:
    match effect:
        case Reply(to, response):
            return f"{to} <- {_format_response(response)}"
        case AppendRecords(records):
            return f"append {', '.join(map(_format_record, records))}"
        case ScheduleTimer(timer, delay_ms):
            return f"schedule {_format_timer(timer)} in {delay_ms} ms"
        case StartTask(task):
            result = "commit" if task.commits else "abort"
            partitions = " ".join(map(str, task.partitions))
            return f"write {result} markers of {task.producer_id}/{task.producer_epoch} to {partitions}"
    raise AssertionError(effect)


def _format_timer(timer: object) -> str:
    if isinstance(timer, RetryTimer):
        return f"retry timer of {timer.transactional_id}"
    return "transaction timeout timer" if timer == TIMEOUT_TIMER else "id expiration timer"


def _format_record(record: CoordinatorRecord) -> str:
    name = read_key(record.key)
    state = _format_state(None if record.value is None else read_transaction(record.value))
    return state if name == ID else f"{name}: {state}"


def _format_state(stored: StoredTransaction | None) -> str:
    if stored is None:
        return "tombstone"
    timeout = "" if stored.timeout_ms == TIMEOUT_MS else f" timeout {stored.timeout_ms}"
    partitions = "".join(f" {partition}" for partition in sorted(stored.partitions))
    return f"{stored.state.value} {stored.producer_id}/{stored.producer_epoch}{partitions}{timeout}"


def _format_response(response: Any) -> str:
    match response:
        case ErrorCode():
            return response.name
        case c.InitProducerIdResult(ErrorCode.NONE):
            return f"{response.producer_id}/{response.producer_epoch}"
        case c.InitProducerIdResult(code):
            return code.name
        case c.AddPartitionsResult(errors):
            return (
                " ".join(f"{partition}={code.name}" for partition, code in errors.items()) or "no partitions"
            )
    raise AssertionError(response)


def run_script(path: Path) -> None:
    scenario, written = Scenario(), []
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        head, _, expected = block.partition(f"\n{SEPARATOR}")
        command = [line for line in head.splitlines() if not line.startswith("#")][-1]
        actual = "\n".join(scenario.run(command))
        written.append(f"{head}\n{SEPARATOR}\n{actual}")
        if "ODRADEK_REWRITE" not in os.environ:
            assert actual == expected.strip(), f"after: {command}"
    if "ODRADEK_REWRITE" in os.environ:
        path.write_text("\n\n".join(written) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def run() -> Callable[[Path], None]:
    return run_script
