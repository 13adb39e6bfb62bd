"""All kinds of clients at once: idempotent and transactional producers, and consumer groups."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import NamedTuple, Self

from tests.mixed.harness.coordinators import OFFSETS, TRANSACTIONS, partition_of, spread_leaders
from tests.mixed.harness.load import compare, read_values
from tests.mixed.harness.log_files import check_replicas_equal, read_high_watermark
from tests.mixed.harness.mixed_cluster import MixedCluster
from tests.mixed.workload.completion_times import Gap
from tests.mixed.workload.group_reader import GroupReader
from tests.mixed.workload.rare_producer import RareProducer
from tests.mixed.workload.timed_load import TimedLoad
from tests.mixed.workload.transaction_ledger import Outcome, find_anomalies
from tests.mixed.workload.transaction_load import TransactionLoad
from tests.support.interbroker.clients import Clients

PARTITIONS = range(3)
ASSIGNMENT = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
TOPIC_CONFIG = {"segment.bytes": "262144"}
"""Small, so that a broker takes over many segments with their indexes and snapshots."""
PREFIXES = (b"first", b"second")


class Figures(NamedTuple):
    """Counts of a workload so far.

    ``failures`` are errors of transactional producers; their transactions count as aborted or unknown.
    """

    acknowledged: int
    read: int
    read_again: int
    failed_commits: int
    committed: int
    aborted: int
    unknown: int
    failures: list[str]


def name_of_partition(prefix: str, partition: int) -> str:
    """Return a group or transactional id that is stored in this partition."""
    return next(
        name for number in itertools.count() if partition_of(name := f"{prefix}-{number}") == partition
    )


class Workload:
    """Clients of which every partition of an internal topic, so every broker, coordinates some."""

    def __init__(self, cluster: MixedCluster, clients: Clients, name: str) -> None:
        self._cluster = cluster
        self._clients = clients
        self.records, self.payments, self._rarities = (
            f"{name}-records",
            f"{name}-payments",
            f"{name}-rarities",
        )
        self.topics = (self.records, self.payments, self._rarities, OFFSETS, TRANSACTIONS)
        for topic in (self.records, self.payments, self._rarities):
            clients.create_topic(topic, ASSIGNMENT, TOPIC_CONFIG)
            for partition, (leader, *_) in enumerate(ASSIGNMENT):
                cluster.wait_for_partition(topic, partition, leader=leader)
        self.loads = [TimedLoad(cluster, self.records, PARTITIONS, prefix) for prefix in PREFIXES]
        self.readers = [
            GroupReader(cluster, name_of_partition(f"{name}-readers", partition), self.records, PARTITIONS)
            for partition in PARTITIONS
        ]
        self.transactions = [
            TransactionLoad(cluster, name_of_partition(f"{name}-payer", partition), self.payments, PARTITIONS)
            for partition in PARTITIONS
        ]
        self._rare = RareProducer(cluster, self._rarities, PARTITIONS)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        clients: list[TimedLoad | GroupReader | TransactionLoad] = []
        for client in [*clients, *self.loads, *self.readers, *self.transactions]:
            self._stack.enter_context(client)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def figures(self) -> Figures:
        outcomes = {outcome: sum(each.count(outcome) for each in self.transactions) for outcome in Outcome}
        return Figures(
            acknowledged=sum(load.count for load in self.loads),
            read=sum(len(values) for each in self.readers for values in each.journal.values.values()),
            read_again=sum(reader.journal.repeated for reader in self.readers),
            failed_commits=sum(reader.failed_commits for reader in self.readers),
            committed=outcomes[Outcome.COMMITTED],
            aborted=outcomes[Outcome.ABORTED],
            unknown=outcomes[Outcome.UNKNOWN],
            failures=[failure for each in self.transactions for failure in each.failures],
        )

    def spread_leaders(self) -> None:
        """Wait until all replicas are in sync, and let each broker lead a partition of each topic."""
        for topic in self.topics:
            spread_leaders(self._cluster, self._clients, topic)

    def make_progress(self, count: int) -> None:
        """Wait for more acknowledged records and ended transactions; let the idle producer send, too."""
        if self._rare.has_sent:
            self._rare.repeat()
        self._rare.send()
        goals = [len(each.outcomes) + 2 for each in self.transactions]
        for load in self.loads:
            load.wait_for_acknowledged(count)
        self._cluster.wait_until(
            lambda: all(
                len(each.outcomes) >= goal for each, goal in zip(self.transactions, goals, strict=True)
            )
        )

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Pause all clients: producers first, groups when they have read everything."""
        with ExitStack() as stack:
            for load in self.loads:
                stack.enter_context(load.paused())
            for transactions in self.transactions:
                stack.enter_context(transactions.gate.closed())
            ends = {partition: self.high_watermark(partition) for partition in PARTITIONS}
            for reader in self.readers:
                reader.wait_for_commits(ends)
            for reader in self.readers:
                stack.enter_context(reader.gate.closed())
            yield

    def check(self) -> None:
        """Check while all is quiet what was written, and that all replicas are equal."""
        self._check_records()
        self._rare.check()
        for reader in self.readers:
            assert reader.journal.anomalies == []
            assert reader.stored_offsets() == reader.journal.committed
        visible = {partition: self._read(self.payments, partition) for partition in PARTITIONS}
        for each in self.transactions:
            own = {p: [v for v in values if v.startswith(each.prefix)] for p, values in visible.items()}
            assert find_anomalies(each.outcomes, own) == []
        for topic in self.topics:
            check_replicas_equal(self._cluster, topic, PARTITIONS)

    def _check_records(self) -> None:
        """Check that consumers and each group read exactly what was acknowledged."""
        for partition in PARTITIONS:
            values = self._read(self.records, partition)
            for load in self.loads:
                assert load.failures == []
                own = [value for value in values if value.startswith(load.prefix)]
                assert compare(load.acknowledged[partition], own) == (0, 0, 0, 0)
            for reader in self.readers:
                assert compare(values, reader.journal.values[partition]) == (0, 0, 0, 0)

    def longest_gaps(self, since: float) -> tuple[Gap, Gap]:
        """Return the longest times without an acknowledgement in a partition, and without a transaction."""
        until = time.monotonic()
        return (
            max(load.longest_gap(since, until) for load in self.loads),
            max(each.times.longest_gap(since, until) for each in self.transactions),
        )

    def _read(self, topic: str, partition: int) -> list[bytes]:
        return read_values(self._cluster.bootstrap, topic, partition)

    def high_watermark(self, partition: int) -> int:
        """Return the high watermark of a partition of the records."""
        leader = self._cluster.znodes.partition_state(self.records, partition)["leader"]
        return read_high_watermark(self._cluster.address(leader), self.records, partition)
