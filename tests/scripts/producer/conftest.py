"""Runs scripts of the producer's transaction manager.

A file holds steps: a command, a line of dashes, and its events, one per line, then the state if it changed.
``ODRADEK_REWRITE=1`` writes the actual events to the file. After each command the sender runs until nothing
more happens. The producer has the transactional id ``t``, unless the first command is ``plain``. Batches are
named a, b, c in send order; their sequences are written as id/epoch and first..last.

    plain  |  old                                no transactions  |  a coordinator that cannot bump epochs
    retries 1                                    retries of a batch
    init, begin, commit, abort                   calls of the application
    send orders-0 3                              a batch of three records
    known orders-0                               a record of this producer is sent and written there
    offsets g orders-0=5  |  offsets g/m/4 …     offsets of a group, or of its member m in generation 4
    7/0  |  ok  |  CODE  |  CODE orders-0        coordinator's response: an id and epoch, success, an error,
                                                 an error for one partition while others were not attempted
    silence                                      no response
    unfound CODE, unsupported                    the coordinator lookup fails; the coordinator is too old
    written a 100  |  CODE a  |  lost a          a batch is written at an offset, rejected, gets no response
    expire a                                     its delivery timeout passes
    deleted 500: CODE a                          rejected, with log start offset 500
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

    def _use(self, simulation: ProducerSimulation) -> None:
        self.simulation = simulation
        simulation.on_event = self._on_event

    def _on_event(self, event: str) -> None:
        self.lines.append(event)

    def run(self, line: str) -> list[str]:
        self.lines = []
        before = self.simulation.manager.state
        try:
            self._command(line)
            self._run_until_idle()
        except ClientError as error:
            self.lines.append(f"{type(error).__name__}: {error}")
        if self.simulation.manager.state is not before:
            self.lines.append(f"now {self.simulation.manager.state.name}")
        return self.lines or ["nothing"]

    def _run_until_idle(self) -> None:
        """Run the sender until nothing more happens."""
        count = -1
        while count != len(self.lines):
            count = len(self.lines)
            self.simulation.run_once()

    def _command(self, line: str) -> None:
        name, *args = line.split()
        command = getattr(self, f"_{name}", None)
        if command is not None:
            command(*args)
        elif args and args[0] in self.simulation.in_flight:
            self._rejected(name, *args)
        else:
            request = self.simulation.request_in_flight
            self.simulation.respond(_response(None if request is None else request.request, name, args))

    def _plain(self) -> None:
        self._use(ProducerSimulation(None))

    def _old(self) -> None:
        self._use(ProducerSimulation("t", init_version_max=2))

    def _retries(self, count: str) -> None:
        self.simulation.retries = int(count)

    def _init(self) -> None:
        self.simulation.watch(self.simulation.manager.init_transactions())

    def _begin(self) -> None:
        self.simulation.manager.begin_transaction()

    def _commit(self) -> None:
        self.simulation.watch(self.simulation.manager.commit_transaction())

    def _abort(self) -> None:
        self.simulation.watch(self.simulation.manager.abort_transaction())

    def _send(self, partition: str, count: str) -> None:
        self.simulation.send(_partition(partition), int(count))

    def _known(self, partition: str) -> None:
        self.simulation.send(_partition(partition), 1, name="first")
        self.simulation.run_once()
        if self.simulation.request_in_flight is not None:
            self.simulation.respond(_response(self.simulation.request_in_flight.request, "ok", []))
            self.simulation.run_once()
        self.simulation.acknowledge(self.simulation.batches.pop("first"), 0)

    def _offsets(self, group: str, *offsets: str) -> None:
        name, _, rest = group.partition("/")
        member, _, generation = rest.partition("/")
        metadata = GroupMetadata(name, int(generation), member) if rest else GroupMetadata(name)
        pairs = (text.split("=") for text in offsets)
        to_commit = {_partition(partition): OffsetAndMetadata(int(offset)) for partition, offset in pairs}
        self.simulation.watch(self.simulation.manager.send_offsets_to_transaction(to_commit, metadata))

    def _written(self, name: str, offset: str) -> None:
        self.simulation.acknowledge(self.simulation.batches[name], int(offset))

    def _lost(self, name: str) -> None:
        self.simulation.respond_with_error(self.simulation.batches[name], ErrorCode.NETWORK_EXCEPTION)

    def _expire(self, name: str) -> None:
        self.simulation.expire(self.simulation.batches[name])

    def _deleted(self, offset: str, code: str, name: str) -> None:
        self.simulation.respond_with_error(
            self.simulation.batches[name], ErrorCode[code], int(offset.removesuffix(":"))
        )

    def _rejected(self, code: str, name: str) -> None:
        self.simulation.respond_with_error(self.simulation.batches[name], ErrorCode[code])

    def _silence(self) -> None:
        self.simulation.respond(ConnectionFailed("connection lost"))

    def _unfound(self, code: str) -> None:
        self.simulation.respond(broker_error(ErrorCode[code], "cannot find the coordinator"))

    def _unsupported(self) -> None:
        self.simulation.respond(UnsupportedVersion("not supported by the broker"))

    def _wait(self, duration_ms: str) -> None:
        self.simulation.now_ms += int(duration_ms)

    def _close(self) -> None:
        self.simulation.manager.close()


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def _response(request: Any, result: str, args: list[str]) -> Any:
    """Return a coordinator's response: an id/epoch, ok, or an error."""
    if "/" in result:
        producer_id, _, epoch = result.partition("/")
        return init_producer_id.InitProducerIdResponse(
            producer_id=int(producer_id), producer_epoch=int(epoch)
        )
    code = 0 if result == "ok" else ErrorCode[result]
    failed = _partition(args[0]) if args else None
    match type(request).__name__:
        case "InitProducerIdRequest":
            return init_producer_id.InitProducerIdResponse(error_code=code)
        case "AddOffsetsToTxnRequest":
            return add_offsets_to_txn.AddOffsetsToTxnResponse(error_code=code)
        case "EndTxnRequest":
            return end_txn.EndTxnResponse(error_code=code)
        case "AddPartitionsToTxnRequest":
            return _added(request, code, failed)
        case "TxnOffsetCommitRequest":
            return _committed(request, code, failed)
    raise AssertionError(f"no request in flight for {result}")


def _added(request: Any, code: int, failed: TopicPartition | None) -> Any:
    others = ErrorCode.OPERATION_NOT_ATTEMPTED if failed is not None else code
    topics = [
        add_partitions_to_txn.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
                    partition_index=partition,
                    partition_error_code=code if (topic.name, partition) == failed else others,
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.v3_and_below_topics
    ]
    return add_partitions_to_txn.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def _committed(request: Any, code: int, failed: TopicPartition | None) -> Any:
    others = ErrorCode.NONE if failed is not None else code
    topics = [
        commits.TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                commits.TxnOffsetCommitResponsePartition(
                    partition_index=partition.partition_index,
                    error_code=code if (topic.name, partition.partition_index) == failed else others,
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return commits.TxnOffsetCommitResponse(topics=topics)


def run_script(path: Path) -> None:
    scenario, written = Scenario(), []
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        head, _, expected = block.partition(f"\n{SEPARATOR}")
        command = [line for line in head.splitlines() if not line.startswith("#")][-1]
        events = "\n".join(scenario.run(command))
        written.append(f"{head}\n{SEPARATOR}\n{events}")
        if "ODRADEK_REWRITE" not in os.environ:
            assert events == expected.strip(), f"after: {command}"
    if "ODRADEK_REWRITE" in os.environ:
        path.write_text("\n\n".join(written) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def run() -> Callable[[Path], None]:
    return run_script
