"""Runs text scenarios of a producer's machine.

A file holds steps: a command, a line of dashes, and what comes of it, one event a line, then the state if it
changed. ``ODRADEK_REWRITE=1`` writes down what came instead. After each command the sender looks until
nothing more happens. The producer has the transactional id ``t``, if the first command is not ``plain``.
Batches are named a, b, c in the order they are sent; their numbers are written as id/epoch and sequences.

    plain  |  old                                no transactions  |  a coordinator that cannot bump epochs
    retries 1                                    attempts after the first that a batch has
    init, begin, commit, abort                   the application calls
    send orders-0 3                              a batch of three records
    known orders-0                               a record of this producer is sent and written there
    offsets g orders-0=5  |  offsets g/m/4 …     offsets of a group, or of its member m in generation 4
    7/0  |  ok  |  CODE  |  CODE orders-0        the coordinator answers: an id and epoch, success, an error,
                                                 an error for one partition while another was not tried
    silence                                      it does not
    unfound CODE, unsupported                    it cannot be found for an error; it is too old
    written a 100  |  CODE a  |  lost a          a batch is written at an offset, refused, gets no answer
    expire a                                     its time is over
    deleted 500: CODE a                          the same where the log begins at 500
    wait 100
    close
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.simulation.producer_simulation import ProducerSimulation

from odradek.client.errors import broker_error
from odradek.client.values import GroupMetadata, OffsetAndMetadata
from odradek.model.client_errors import ClientError, ConnectionFailed, UnsupportedVersion
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.wire.messages import add_offsets_to_txn, add_partitions_to_txn, end_txn, init_producer_id
from odradek.wire.messages import txn_offset_commit as commits

SEPARATOR = "----"


class Scenario:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._use(ProducerSimulation("t"))

    def _use(self, world: ProducerSimulation) -> None:
        self.world = world
        world.on_event = self._heard

    def _heard(self, event: str) -> None:
        self.lines.append(event)

    def run(self, line: str) -> list[str]:
        self.lines = []
        before = self.world.machine.state
        try:
            self._command(line)
            self._look()
        except ClientError as refused:
            self.lines.append(f"{type(refused).__name__}: {refused}")
        if self.world.machine.state is not before:
            self.lines.append(f"now {self.world.machine.state.name}")
        return self.lines or ["nothing"]

    def _look(self) -> None:
        """Look until nothing happens any more."""
        count = -1
        while count != len(self.lines):
            count = len(self.lines)
            self.world.look()

    def _command(self, line: str) -> None:
        word, *given = line.split()
        known = getattr(self, f"_{word}", None)
        if known is not None:
            known(*given)
        elif given and given[0] in self.world.in_flight:
            self._refused(word, *given)
        else:
            self.world.answer(_answer(self.world.asked.request if self.world.asked else None, word, given))

    def _plain(self) -> None:
        self._use(ProducerSimulation(None))

    def _old(self) -> None:
        self._use(ProducerSimulation("t", init_version_max=2))

    def _retries(self, count: str) -> None:
        self.world.retries = int(count)

    def _init(self) -> None:
        self.world.watch(self.world.machine.init_transactions())

    def _begin(self) -> None:
        self.world.machine.begin_transaction()

    def _commit(self) -> None:
        self.world.watch(self.world.machine.commit_transaction())

    def _abort(self) -> None:
        self.world.watch(self.world.machine.abort_transaction())

    def _send(self, partition: str, count: str) -> None:
        self.world.send(_partition(partition), int(count))

    def _known(self, partition: str) -> None:
        self.world.send(_partition(partition), 1, name="first")
        self.world.look()
        if self.world.asked is not None:
            self.world.answer(_answer(self.world.asked.request, "ok", []))
            self.world.look()
        self.world.written(self.world.batches.pop("first"), 0)

    def _offsets(self, group: str, *offsets: str) -> None:
        name, _, rest = group.partition("/")
        member, _, generation = rest.partition("/")
        of = GroupMetadata(name, int(generation), member) if rest else GroupMetadata(name)
        given = {_partition(one.split("=")[0]): OffsetAndMetadata(int(one.split("=")[1])) for one in offsets}
        self.world.watch(self.world.machine.send_offsets_to_transaction(given, of))

    def _written(self, name: str, offset: str) -> None:
        self.world.written(self.world.batches[name], int(offset))

    def _lost(self, name: str) -> None:
        self.world.refused(self.world.batches[name], ErrorCode.NETWORK_EXCEPTION)

    def _expire(self, name: str) -> None:
        self.world.expire(self.world.batches[name])

    def _deleted(self, offset: str, code: str, name: str) -> None:
        self.world.refused(self.world.batches[name], ErrorCode[code], int(offset.removesuffix(":")))

    def _refused(self, code: str, name: str) -> None:
        self.world.refused(self.world.batches[name], ErrorCode[code])

    def _silence(self) -> None:
        self.world.answer(ConnectionFailed("the connection has gone"))

    def _unfound(self, code: str) -> None:
        self.world.answer(broker_error(ErrorCode[code], "cannot find the coordinator"))

    def _unsupported(self) -> None:
        self.world.answer(UnsupportedVersion("the broker does not know that"))

    def _wait(self, duration_ms: str) -> None:
        self.world.now_ms += int(duration_ms)

    def _close(self) -> None:
        self.world.machine.close()


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def _answer(request: Any, word: str, given: list[str]) -> Any:
    """What a coordinator says to a request: an id/epoch, ok, or an error."""
    if "/" in word:
        producer_id, _, epoch = word.partition("/")
        return init_producer_id.InitProducerIdResponse(
            producer_id=int(producer_id), producer_epoch=int(epoch)
        )
    code = 0 if word == "ok" else ErrorCode[word]
    at = _partition(given[0]) if given else None
    match type(request).__name__:
        case "InitProducerIdRequest":
            return init_producer_id.InitProducerIdResponse(error_code=code)
        case "AddOffsetsToTxnRequest":
            return add_offsets_to_txn.AddOffsetsToTxnResponse(error_code=code)
        case "EndTxnRequest":
            return end_txn.EndTxnResponse(error_code=code)
        case "AddPartitionsToTxnRequest":
            return _added(request, code, at)
        case "TxnOffsetCommitRequest":
            return _committed(request, code, at)
    raise AssertionError(f"nothing was asked that {word} could answer")


def _added(request: Any, code: int, at: TopicPartition | None) -> Any:
    others = ErrorCode.OPERATION_NOT_ATTEMPTED if at is not None else code
    topics = [
        add_partitions_to_txn.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
                    partition_index=one, partition_error_code=code if (topic.name, one) == at else others
                )
                for one in topic.partitions
            ],
        )
        for topic in request.v3_and_below_topics
    ]
    return add_partitions_to_txn.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def _committed(request: Any, code: int, at: TopicPartition | None) -> Any:
    others = ErrorCode.NONE if at is not None else code
    topics = [
        commits.TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                commits.TxnOffsetCommitResponsePartition(
                    partition_index=one.partition_index,
                    error_code=code if (topic.name, one.partition_index) == at else others,
                )
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return commits.TxnOffsetCommitResponse(topics=topics)


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
