"""A transactional producer under faults that commits some transactions and aborts others."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException, Producer
from tests.mixed.harness.mixed_cluster import MixedCluster
from tests.mixed.workload.completion_times import CompletionTimes
from tests.mixed.workload.gate import Gate
from tests.mixed.workload.transaction_ledger import Outcome

SECONDS_MAX = 120.0
PAUSE_SECONDS = 0.05
ABORT_EVERY = 3


class TransactionLoad:
    """Transactions in a thread, each with a record in every partition whose value is its name."""

    def __init__(
        self, cluster: MixedCluster, transactional_id: str, topic: str, partitions: Sequence[int]
    ) -> None:
        self.transactional_id = transactional_id
        self.outcomes: dict[bytes, Outcome] = {}
        self.times = CompletionTimes()
        self.failures: list[str] = []
        """Errors after which the transaction was aborted, or the producer replaced."""
        self.gate = Gate()
        self._topic = topic
        self._partitions = partitions
        self._settings = {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 60_000,
            "log_level": 2,
        }
        self._producer = self._connect()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join()

    @property
    def prefix(self) -> bytes:
        """The beginning of the names of this producer's transactions."""
        return self.transactional_id.encode() + b" "

    def count(self, outcome: Outcome) -> int:
        return list(self.outcomes.values()).count(outcome)

    def _connect(self) -> Producer:
        """Return a new producer; its predecessor's transaction is completed before."""
        producer = Producer(self._settings)
        retry(producer.init_transactions)
        return producer

    def _run(self) -> None:
        for number in itertools.count():
            if self._ends.is_set():
                return
            with self.gate.step():
                name = b"%b%d" % (self.prefix, number)
                self.outcomes[name] = self._run_transaction(name, commits=bool(number % ABORT_EVERY))
                self.times.note()
            time.sleep(PAUSE_SECONDS)

    def _run_transaction(self, name: bytes, *, commits: bool) -> Outcome:
        try:
            self._producer.begin_transaction()
            for partition in self._partitions:
                self._producer.produce(self._topic, name, partition=partition)
            self._producer.flush(SECONDS_MAX)
            retry(self._producer.commit_transaction if commits else self._producer.abort_transaction)
        except KafkaException as failure:
            self.failures.append(str(failure))
            if failure.args[0].txn_requires_abort():
                retry(self._producer.abort_transaction)
                return Outcome.ABORTED
            self._producer = self._connect()
            return Outcome.UNKNOWN if commits else Outcome.ABORTED
        return Outcome.COMMITTED if commits else Outcome.ABORTED


def retry(operation: Callable[[float], object]) -> None:
    """Call an operation of a transactional producer until it succeeds, or its error is not retriable."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            operation(SECONDS_MAX)
        except KafkaException as failure:
            if not failure.args[0].retriable() or time.monotonic() > deadline:
                raise
        else:
            return
