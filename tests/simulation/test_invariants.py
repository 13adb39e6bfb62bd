"""The checker of invariants finds what it promises to find, on logs made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.log.leader_epoch_cache import EpochEntry, LeaderEpochCache
from odradek.model.ids import TopicPartition
from odradek.records.batch import BatchBuilder
from odradek.replication.partition import Partition
from odradek.testing.controller.state import PartitionState
from odradek.testing.invariants import Incarnation, InvariantChecker, UncleanChecker, Violation

PARTITION = TopicPartition("events", 0)


class FakeLog:
    """A log as the checker reads it: batches of one record in memory."""

    def __init__(self, *values: tuple[int, bytes]) -> None:
        """``values`` are (leader epoch, value), one batch each."""
        self.batches = [_batch(offset, epoch, value) for offset, (epoch, value) in enumerate(values)]
        self.log_start_offset = 0
        self.high_watermark = 0
        self.epochs = LeaderEpochCache(EpochEntry(epoch, offset) for offset, (epoch, _) in enumerate(values))

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
    """A replica, and the broker that has only this one."""

    def __init__(self, log: FakeLog, *, leads: bool = False, epoch: int = 0) -> None:
        self.topic_partition = PARTITION
        self.controller_epoch = 0
        self.log = log
        self.is_leader = leads
        self.leader_epoch = epoch
        self.leader_state: Any = None
        if leads:
            log.epochs.assign(epoch, log.log_end_offset)
            self.followers = {broker_id: SimpleNamespace(log_end_offset=-1) for broker_id in (1, 2)}
            self.leader_state = SimpleNamespace(
                maximal_isr=(0, 1),
                leader_epoch_start_offset=log.log_end_offset,
                replica=self.followers.get,
            )


class Cluster:
    """Replicas by broker, checked together."""

    def __init__(
        self,
        *replicas: Replica,
        stored: PartitionState | None = None,
        min_isr: int = 1,
        kind: type[InvariantChecker] = InvariantChecker,
    ) -> None:
        self.replicas = list(replicas)
        self.incarnation = 1
        self.checker = kind(self._incarnations, lambda partition: stored, lambda _: min_isr)

    def _incarnations(self) -> list[Incarnation]:
        return [
            Incarnation(broker_id, self.incarnation, [cast(Partition, replica)], replica)
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


def stored(epoch: int, *isr: int) -> PartitionState:
    return PartitionState(0, epoch, isr, 0, 1)


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


@pytest.mark.parametrize(
    ("kind", "name"), [(InvariantChecker, "high-watermark-went-back"), (UncleanChecker, None)]
)
def test_follower_that_truncates_below_its_high_watermark(kind, name):
    replica = Replica(log(A, B, high_watermark=2))
    cluster = Cluster(replica, kind=kind)
    assert cluster.violation() is None
    replica.log = log(A, high_watermark=1)
    assert cluster.violation() == name


@pytest.mark.parametrize(
    ("leads", "values", "high_watermark"),
    [(True, [A], 1), (False, [A, B], 1), (False, [A], 0)],
    ids=["leader", "not truncated", "below the log end"],
)
def test_other_high_watermarks_that_go_back_with_unclean_elections(leads, values, high_watermark):
    replica = Replica(log(A, B, high_watermark=2), leads=leads)
    cluster = Cluster(replica, kind=UncleanChecker)
    assert cluster.violation() is None
    replica.log = log(*values, high_watermark=high_watermark)
    assert cluster.violation() == "high-watermark-went-back"


def test_two_leaders_in_one_epoch():
    cluster = Cluster(Replica(log(A), leads=True, epoch=3), Replica(log(A), leads=True, epoch=3))
    assert cluster.violation() == "two-leaders-in-epoch"


def test_restarted_leader_in_its_old_epoch():
    cluster = Cluster(Replica(log(A), leads=True, epoch=3))
    cluster.checker.check()
    cluster.incarnation = 2
    assert cluster.violation() == "two-leaders-in-epoch"


def test_controller_epoch_that_goes_back():
    replica = Replica(log(A))
    cluster = Cluster(replica)
    replica.controller_epoch = 3
    assert cluster.violation() is None
    replica.controller_epoch = 2
    assert cluster.violation() == "controller-epoch-went-back"


def test_two_batches_of_one_offset_and_epoch():
    cluster = Cluster(Replica(log(A, B)), Replica(log(A, (0, b"other"))))
    assert cluster.violation() == "logs-do-not-match"


def test_equal_batches_after_different_ones():
    cluster = Cluster(Replica(log(A, (2, b"c"))), Replica(log((1, b"b"), (2, b"c"))))
    assert cluster.violation() == "logs-do-not-match"


def test_leader_epochs_beyond_the_log():
    replica = Replica(log(A, B))
    replica.log.epochs.assign(1, 5)
    assert Cluster(replica).violation() == "epochs-differ-from-log"


def test_leader_epochs_of_other_batches():
    replica = Replica(log(A, (1, b"b")))
    replica.log.epochs.truncate_from_end(1)
    assert Cluster(replica).violation() == "epochs-differ-from-log"


def test_leader_without_a_start_of_its_epoch():
    leader = Replica(log(A), leads=True, epoch=1)
    leader.log.epochs.truncate_from_end(1)
    assert Cluster(leader).violation() == "epochs-differ-from-log"


def test_leader_with_a_later_batch_of_another_epoch():
    leader = Replica(log(A, B), leads=True, epoch=1)
    leader.leader_state.leader_epoch_start_offset = 1
    leader.log.epochs = LeaderEpochCache([EpochEntry(0, 0), EpochEntry(1, 2)])
    assert Cluster(leader).violation() == "foreign-batch"


def test_truncated_and_appended_again_in_one_turn():
    replica = Replica(log(A, B))
    cluster = Cluster(replica)
    assert cluster.violation() is None
    replica.log, replica.leader_epoch = log(A, (1, b"c"), (1, b"d"), high_watermark=3), 1
    assert cluster.violation() is None
    assert cluster.checker.committed_end(PARTITION) == 3


def test_commit_on_fewer_replicas_than_required():
    replicas = Replica(log(A, B, high_watermark=2), leads=True), Replica(log(A))
    assert Cluster(*replicas, min_isr=2).violation() == "committed-below-min-isr"
    assert Cluster(*replicas, min_isr=1).violation() is None


def test_same_record_of_another_epoch_below_the_high_watermark():
    replicas = Replica(log(A, B, high_watermark=2)), Replica(log(A, (1, b"b"), high_watermark=2), epoch=1)
    assert Cluster(*replicas).violation() == "logs-differ"


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
    assert Cluster(leader, stored=stored(1, 0, 2)).violation() == "stored-isr-not-in-maximal-isr"
    assert Cluster(leader, stored=stored(1, 0, 1)).violation() is None
    assert Cluster(leader, stored=stored(2, 0, 2)).violation() is None, "of a newer epoch"


@pytest.mark.parametrize("epoch", [1, 2])
def test_isr_member_without_a_committed_batch(epoch):
    replicas = Replica(log(A, B, high_watermark=2), leads=True, epoch=1), Replica(log(A), epoch=1)
    assert Cluster(*replicas, stored=stored(epoch, 0, 1)).violation() == "committed-batch-not-in-isr"
    assert Cluster(*replicas, stored=stored(epoch, 0)).violation() is None


def test_dead_isr_member_without_a_committed_batch():
    leader = Replica(log(A, B, high_watermark=1), leads=True, epoch=1)
    cluster = Cluster(leader, Replica(log(A), epoch=1), stored=stored(1, 0, 1))
    assert cluster.violation() is None
    cluster.replicas.pop()
    leader.log.high_watermark = 2
    assert cluster.violation() == "committed-batch-not-in-isr"


def test_follower_that_has_less_than_its_leader_counts():
    leader, follower = Replica(log(A, B), leads=True, epoch=1), Replica(log(A), epoch=1)
    leader.followers[1].log_end_offset = 2
    assert Cluster(leader, follower).violation() == "follower-overrated"
    follower.leader_epoch = 2
    assert Cluster(leader, follower).violation() is None, "truncated under a newer leader"


def test_acknowledgement_before_commit():
    cluster = Cluster(Replica(log(A, B, high_watermark=1), leads=True))
    cluster.checker.on_acknowledged(PARTITION, 0, [b"a"])
    with pytest.raises(Violation, match="acknowledged-before-commit"):
        cluster.checker.on_acknowledged(PARTITION, 1, [b"b"])


def committed_cluster(*values: tuple[int, bytes]) -> Cluster:
    cluster = Cluster(Replica(log(*values, high_watermark=len(values))))
    cluster.checker.check()
    return cluster


def test_two_values_at_one_offset():
    checker = committed_cluster(A).checker
    checker.on_read(PARTITION, 0, b"a")
    with pytest.raises(Violation, match="inconsistent-offset"):
        checker.on_read(PARTITION, 0, b"b")


def test_read_before_commit():
    checker = committed_cluster(A).checker
    with pytest.raises(Violation, match="read-before-commit"):
        checker.on_read(PARTITION, 1, b"b")


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
    checker = committed_cluster(A).checker
    checker.on_read(PARTITION, 0, b"a")
    replicas = {PARTITION: list(enumerate(logs))}
    if name is None:
        checker.check_final(replicas)
    else:
        with pytest.raises(Violation, match=name):
            checker.check_final(replicas)
