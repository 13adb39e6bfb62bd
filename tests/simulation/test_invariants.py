"""The checker of invariants finds what it promises to find, on logs made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from odradek.model.ids import TopicPartition
from odradek.records.batch import BatchBuilder
from odradek.replication.partition import Partition
from odradek.testing.invariants import Incarnation, InvariantChecker, StoredIsr, Violation

PARTITION = TopicPartition("events", 0)


class FakeLog:
    """A log as the checker reads it: batches of one record in memory."""

    def __init__(self, *values: tuple[int, bytes]) -> None:
        """``values`` are (leader epoch, value), one batch each."""
        self.batches = [_batch(offset, epoch, value) for offset, (epoch, value) in enumerate(values)]
        self.log_start_offset = 0
        self.high_watermark = 0

    @property
    def log_end_offset(self) -> int:
        return len(self.batches)

    def read(self, offset: int, bytes_max: int, end_offset: int) -> SimpleNamespace:
        return SimpleNamespace(data=b"".join(self.batches[offset:end_offset]))


def _batch(offset: int, epoch: int, value: bytes) -> bytes:
    builder = BatchBuilder(offset, leader_epoch=epoch)
    builder.append(0, None, value)
    return builder.build()


class Replica:
    def __init__(self, log: FakeLog, *, leads: bool = False, epoch: int = 0) -> None:
        self.topic_partition = PARTITION
        self.log = log
        self.is_leader = leads
        self.leader_epoch = epoch
        self.leader_state = SimpleNamespace(maximal_isr=(0, 1))


class Cluster:
    """Replicas by broker, checked together."""

    def __init__(self, *replicas: Replica, stored: StoredIsr | None = None) -> None:
        self.replicas = list(replicas)
        self.incarnation = 1
        self.checker = InvariantChecker(self._incarnations, lambda partition: stored)

    def _incarnations(self) -> list[Incarnation]:
        return [
            Incarnation(broker_id, self.incarnation, cast(list[Partition], [replica]))
            for broker_id, replica in enumerate(self.replicas)
        ]

    def violation(self) -> str | None:
        try:
            self.checker.check()
        except Violation as violation:
            return violation.name
        return None


def log(*values: tuple[int, bytes], high_watermark: int = 0) -> FakeLog:
    made = FakeLog(*values)
    made.high_watermark = high_watermark
    return made


A, B = (0, b"a"), (0, b"b")


def test_equal_replicas_are_accepted():
    cluster = Cluster(Replica(log(A, B, high_watermark=2), leads=True), Replica(log(A, B, high_watermark=1)))
    assert cluster.violation() is None


def test_high_watermark_beyond_the_log_end():
    assert Cluster(Replica(log(A, high_watermark=2))).violation() == "high-watermark-beyond-log-end"


def test_high_watermark_that_goes_back_in_an_epoch():
    replica = Replica(log(A, B, high_watermark=2))
    cluster = Cluster(replica)
    assert cluster.violation() is None
    replica.log.high_watermark = 1
    assert cluster.violation() == "high-watermark-went-back"


def test_high_watermark_may_go_back_in_a_new_epoch():
    replica = Replica(log(A, B, high_watermark=2))
    cluster = Cluster(replica)
    cluster.checker.check()
    replica.log.high_watermark, replica.leader_epoch = 1, 1
    assert cluster.violation() is None


def test_two_leaders_in_one_epoch():
    cluster = Cluster(Replica(log(A), leads=True, epoch=3), Replica(log(A), leads=True, epoch=3))
    assert cluster.violation() == "two-leaders-in-epoch"


def test_restarted_leader_in_its_old_epoch():
    cluster = Cluster(Replica(log(A), leads=True, epoch=3))
    cluster.checker.check()
    cluster.incarnation = 2
    assert cluster.violation() == "two-leaders-in-epoch"


def test_another_batch_below_the_high_watermark():
    cluster = Cluster(Replica(log(A, B, high_watermark=2)), Replica(log(A, (0, b"other"), high_watermark=2)))
    assert cluster.violation() == "logs-differ"


def test_same_record_of_another_epoch_below_the_high_watermark():
    cluster = Cluster(Replica(log(A, B, high_watermark=2)), Replica(log(A, (1, b"b"), high_watermark=2)))
    assert cluster.violation() == "logs-differ"


def test_new_leader_without_a_committed_batch():
    cluster = Cluster(Replica(log(A, B, high_watermark=2)), Replica(log(A), leads=True, epoch=1))
    assert cluster.violation() == "committed-batch-lost"


def test_outdated_leader_without_a_later_commit_is_accepted():
    replicas = Replica(log(A, B, high_watermark=2), epoch=2), Replica(log(A), leads=True, epoch=1)
    assert Cluster(*replicas).violation() is None


def test_new_leader_without_an_uncommitted_batch_is_accepted():
    cluster = Cluster(Replica(log(A, B, high_watermark=1)), Replica(log(A), leads=True, epoch=1))
    assert cluster.violation() is None


def test_stored_isr_with_a_replica_the_leader_does_not_wait_for():
    leader = Replica(log(A), leads=True, epoch=1)
    assert Cluster(leader, stored=StoredIsr(1, (0, 2))).violation() == "stored-isr-not-in-maximal-isr"
    assert Cluster(leader, stored=StoredIsr(1, (0, 1))).violation() is None
    assert Cluster(leader, stored=StoredIsr(2, (0, 2))).violation() is None, "of a newer epoch"


def test_isr_member_without_a_committed_batch():
    replicas = Replica(log(A, B, high_watermark=2), leads=True, epoch=1), Replica(log(A), epoch=1)
    assert Cluster(*replicas, stored=StoredIsr(1, (0, 1))).violation() == "committed-batch-not-in-isr"
    assert Cluster(*replicas, stored=StoredIsr(1, (0,))).violation() is None


def test_acknowledgement_before_commit():
    cluster = Cluster(Replica(log(A, B, high_watermark=1), leads=True))
    cluster.checker.on_acknowledged(PARTITION, 0, [b"a"])
    with pytest.raises(Violation, match="acknowledged-before-commit"):
        cluster.checker.on_acknowledged(PARTITION, 1, [b"b"])


def test_two_values_at_one_offset():
    checker = Cluster().checker
    checker.on_read(PARTITION, 5, b"a")
    with pytest.raises(Violation, match="inconsistent-offset"):
        checker.on_read(PARTITION, 5, b"b")


@pytest.mark.parametrize(
    ("logs", "name"),
    [
        ([log(A, B), log(A, B)], None),
        ([log(A, B), log(A)], "replicas-differ"),
        ([log((0, b"x"), B), log((0, b"x"), B)], "lost-write"),
        ([log(A), log(A)], None),
        ([log(A, A), log(A, A)], "duplicate"),
    ],
)
def test_final_check(logs, name):
    checker = Cluster().checker
    checker.on_read(PARTITION, 0, b"a")
    replicas = {PARTITION: list(enumerate(logs))}
    if name is None:
        checker.check_final(replicas)
    else:
        with pytest.raises(Violation, match=name):
            checker.check_final(replicas)
