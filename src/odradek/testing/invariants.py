"""Invariants of replication, checked on the replicas of a simulated cluster after every turn of the loop.

A batch is committed once any replica's high watermark has passed it. The checker keeps all committed batches
of each partition and a mirror of each replica, and checks replicas that have changed. Named violations:

- ``two-leaders-in-epoch``: two brokers, or two incarnations of one, were leader in the same epoch.
- ``controller-epoch-went-back``: a broker has obeyed a controller that was replaced.
- ``high-watermark-beyond-log-end``
- ``high-watermark-went-back`` within a leader epoch of one incarnation.
- ``logs-do-not-match``: two batches of one offset and leader epoch differ, or have different predecessors.
- ``foreign-batch``: a leader's log has a batch of another epoch after the start of its own.
- ``epochs-differ-from-log``: the leader epoch cache does not fit the batches, or lacks a leader's own epoch.
- ``logs-differ``: a replica has another batch below its high watermark than the committed one.
- ``committed-below-min-isr``: fewer replicas than ``min.insync.replicas`` have a batch that was committed.
- ``committed-batch-lost``: a leader's log lacks a batch that was committed in an earlier epoch.
- ``stored-isr-not-in-maximal-isr``: the controller may elect a replica that the leader does not wait for.
- ``committed-batch-not-in-isr``: a member of the stored ISR, which may be elected, lacks a committed batch.
- ``follower-overrated``: a leader counts more of a follower than the follower has, in the same epoch.
- ``acknowledged-before-commit``: acks=all was answered before the batch was committed.
- ``read-before-commit``: a consumer got a record that was not committed.
- ``inconsistent-offset``: an offset was read or acknowledged with another value than before.
- ``lost-write``, ``duplicate``: an acknowledged value is missing from a log at the end, or there twice.
- ``replicas-differ``, ``not-recovered``: after healing, replicas are not equal or partitions not in sync.
- ``isr-not-shrunk``: a follower that was cut off is still in the ISR.

Logs start at offset 0: a simulation deletes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from odradek.log.log import Log
from odradek.model.ids import TopicPartition
from odradek.records.codec import decode
from odradek.replication.partition import Partition
from odradek.testing.replica_mirror import Batch, ReplicaMirror, read_batches, read_bytes


class Violation(AssertionError):
    """A broken invariant; ``name`` is one of those listed above."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


class StateChanges(Protocol):
    """State changes of a broker's replicas: the epoch of the last controller that it obeyed."""

    controller_epoch: int


class Incarnation(NamedTuple):
    """One life of a broker process, and its replicas."""

    broker_id: int
    number: int
    partitions: Iterable[Partition]
    state_changes: StateChanges


class StoredState(Protocol):
    """State of a partition as the controller has committed it; replaced whole by every change."""

    @property
    def leader_epoch(self) -> int: ...

    @property
    def isr(self) -> tuple[int, ...]: ...


class _Seen(NamedTuple):
    """A replica at the end of a turn."""

    incarnation: int
    is_leader: bool
    leader_epoch: int
    high_watermark: int
    log_end_offset: int
    maximal_isr: tuple[int, ...] | None
    stored: StoredState | None


class _Change(NamedTuple):
    broker_id: int
    partition: Partition
    before: _Seen | None
    now: _Seen

    @property
    def where(self) -> str:
        return f"{self.partition.topic_partition} on broker {self.broker_id}"

    @property
    def has_new_role(self) -> bool:
        return self.before is None or self.before[:3] != self.now[:3]


class _History:
    """Everything seen of one partition."""

    def __init__(self) -> None:
        self.committed: list[Batch] = []
        self.epochs: list[int] = []
        """Leader epoch in which each batch was committed."""
        self.mirrors: dict[int, ReplicaMirror] = {}
        self.predecessors: dict[tuple[int, int], tuple[Batch, Batch | None]] = {}
        """Batch and the batch before it, by base offset and leader epoch."""
        self.leaders: dict[int, tuple[int, int]] = {}
        """Broker and incarnation that led, by leader epoch."""

    @property
    def end_offset(self) -> int:
        return self.committed[-1].last_offset + 1 if self.committed else 0


class InvariantChecker:
    def __init__(
        self,
        incarnations: Callable[[], Iterable[Incarnation]],
        stored_state: Callable[[TopicPartition], StoredState | None] = lambda partition: None,
        min_isr: Callable[[TopicPartition], int] = lambda partition: 1,
        key_of: Callable[[Partition], TopicPartition] = lambda partition: partition.topic_partition,
    ) -> None:
        """``min_isr`` returns the replicas that must have a batch before it is committed.

        ``key_of`` returns the key under which a partition is known here and to the other functions. Where
        topics are deleted and created again, it tells them apart.
        """
        self._key_of = key_of
        self._incarnations = incarnations
        self._stored_state = stored_state
        self._min_isr = min_isr
        self._seen: dict[Partition, _Seen] = {}
        self._keys: dict[Partition, TopicPartition] = {}
        self._controller_epochs: dict[StateChanges, int] = {}
        self._histories: dict[TopicPartition, _History] = {}
        self._values: dict[TopicPartition, dict[int, bytes]] = {}
        self.acknowledged_count = 0
        self.check_count = 0

    def committed_end(self, partition: TopicPartition) -> int:
        return self._history(partition).end_offset

    def _history(self, partition: TopicPartition) -> _History:
        history = self._histories.get(partition)
        if history is None:
            history = self._histories[partition] = _History()
        return history

    # After every turn.

    def check(self) -> None:
        """Check all replicas that have changed since the last call."""
        self.check_count += 1
        seen, keys, stored_state = self._seen, self._keys, self._stored_state
        changes: list[_Change] = []
        for broker_id, number, partitions, state_changes in self._incarnations():
            if state_changes.controller_epoch != self._controller_epochs.get(state_changes):
                self._check_controller_epoch(broker_id, state_changes)
            for partition in partitions:
                log, leader = partition.log, partition.leader_state
                before = seen.get(partition)
                if before is None:
                    keys[partition] = self._key_of(partition)
                now = (
                    number,
                    partition.is_leader,
                    partition.leader_epoch,
                    log.high_watermark,
                    log.log_end_offset,
                    None if leader is None else leader.maximal_isr,
                    stored_state(keys[partition]),
                )
                if now != before:
                    seen[partition] = after = _Seen(*now)
                    same_life = before if before is not None and before.incarnation == number else None
                    changes.append(_Change(broker_id, partition, same_life, after))
        if changes:
            self._check_changes(changes)

    def _check_controller_epoch(self, broker_id: int, state_changes: StateChanges) -> None:
        before, epoch = self._controller_epochs.get(state_changes, 0), state_changes.controller_epoch
        if epoch < before:
            raise Violation("controller-epoch-went-back", f"broker {broker_id}: {before} to {epoch}")
        self._controller_epochs[state_changes] = epoch

    def _check_changes(self, changes: list[_Change]) -> None:
        """Check in this order: logs, what is committed, leaders, the ISR. Each relies on those before."""
        for change in changes:
            self._check_offsets(change)
            self._follow_log(change)
        for change in changes:
            self._check_committed(change)
        for change in changes:
            if change.now.is_leader and change.has_new_role:
                self._check_new_leader(change)
        for change in changes:
            if change.now.is_leader:
                self._check_leader(change)
        for topic_partition in {self._key_of(change.partition): None for change in changes}:
            self._check_isr_members(topic_partition)

    def _check_offsets(self, change: _Change) -> None:
        before, now = change.before, change.now
        if now.high_watermark > now.log_end_offset:
            raise Violation(
                "high-watermark-beyond-log-end",
                f"{change.where}: {now.high_watermark} > {now.log_end_offset}",
            )
        if (
            before is not None
            and before.leader_epoch == now.leader_epoch
            and now.high_watermark < before.high_watermark
            and not self._may_go_back(before, now)
        ):
            raise Violation(
                "high-watermark-went-back",
                f"{change.where}: {before.high_watermark} to {now.high_watermark}",
            )

    def _may_go_back(self, before: _Seen, now: _Seen) -> bool:
        """Return whether a high watermark may go back within an epoch."""
        return False

    # Logs.

    def _follow_log(self, change: _Change) -> None:
        """Read what was appended, and check it against what is known of all logs."""
        before, now, partition = change.before, change.now, change.partition
        history = self._history(self._key_of(partition))
        mirror = history.mirrors.setdefault(change.broker_id, ReplicaMirror())
        mirror.leader_epoch = now.leader_epoch
        if before is not None and before[:3] == now[:3] and before.log_end_offset == now.log_end_offset:
            return
        first_new = mirror.update(partition.log, reread=change.has_new_role)
        batches = mirror.batches
        for index in range(first_new, len(batches)):
            batch, previous = batches[index], batches[index - 1] if index else None
            known = history.predecessors.setdefault(
                (batch.base_offset, batch.leader_epoch), (batch, previous)
            )
            if known != (batch, previous):
                raise Violation(
                    "logs-do-not-match", f"{change.where}: {batch} after {previous}, elsewhere {known}"
                )
        self._check_epochs(change, mirror)
        if now.is_leader:
            self._check_own_batches(change, batches[first_new:])

    def _check_epochs(self, change: _Change, mirror: ReplicaMirror) -> None:
        epochs = change.partition.log.epochs
        entries = epochs.entries
        last = mirror.batches[-1] if mirror.batches else None
        if (
            (entries and entries[-1].start_offset > mirror.log_end_offset)
            or (last is not None and epochs.epoch_of(last.base_offset) != last.leader_epoch)
            or (change.now.is_leader and epochs.latest != change.now.leader_epoch)
        ):
            raise Violation(
                "epochs-differ-from-log",
                f"{change.where}, epoch {change.now.leader_epoch}, log end {mirror.log_end_offset}: "
                f"{entries[-3:]}, last batch {last}",
            )

    def _check_own_batches(self, change: _Change, new: list[Batch]) -> None:
        leader = change.partition.leader_state
        assert leader is not None
        for batch in new:
            if (
                batch.base_offset >= leader.leader_epoch_start_offset
                and batch.leader_epoch != change.now.leader_epoch
            ):
                raise Violation(
                    "foreign-batch", f"{change.where}, leader in epoch {change.now.leader_epoch}: {batch}"
                )

    # What is committed.

    def _check_committed(self, change: _Change) -> None:
        """Compare the batches that the high watermark has passed with the committed ones; add new ones."""
        history = self._history(self._key_of(change.partition))
        mirror = history.mirrors[change.broker_id]
        committed, batches = history.committed, mirror.batches
        high_watermark = change.now.high_watermark
        index = mirror.matching
        while index < len(batches) and batches[index].last_offset < high_watermark:
            if index == len(committed):
                committed.append(batches[index])
                history.epochs.append(change.now.leader_epoch)
                self._check_copies(change, history)
            elif committed[index] != batches[index]:
                raise Violation(
                    "logs-differ", f"{change.where}: {batches[index]}, committed is {committed[index]}"
                )
            index += 1
        mirror.matching = index

    def _check_copies(self, change: _Change, history: _History) -> None:
        index = len(history.committed) - 1
        batch = history.committed[index]
        copies = [
            broker_id
            for broker_id, mirror in history.mirrors.items()
            if len(mirror.batches) > index and mirror.batches[index] == batch
        ]
        required = self._min_isr(self._key_of(change.partition))
        if len(copies) < required:
            raise Violation(
                "committed-below-min-isr",
                f"{change.where}: {batch} is on brokers {copies}, min.insync.replicas is {required}",
            )

    def _matches(self, history: _History, mirror: ReplicaMirror) -> bool:
        """Return whether a replica has every committed batch."""
        committed, batches = history.committed, mirror.batches
        index = mirror.matching
        while index < len(committed) and index < len(batches) and committed[index] == batches[index]:
            index += 1
        mirror.matching = index
        return index == len(committed)

    # Leaders.

    def _check_single_leader(self, change: _Change) -> None:
        epoch = change.now.leader_epoch
        leader = (change.broker_id, change.now.incarnation)
        first = self._history(self._key_of(change.partition)).leaders.setdefault(epoch, leader)
        if first != leader:
            raise Violation(
                "two-leaders-in-epoch",
                f"{change.partition.topic_partition} epoch {epoch}: broker and incarnation "
                f"{first} and {leader}",
            )

    def _check_new_leader(self, change: _Change) -> None:
        self._check_single_leader(change)
        epoch = change.now.leader_epoch
        history = self._history(self._key_of(change.partition))
        mirror = history.mirrors[change.broker_id]
        if self._matches(history, mirror):
            return
        for index in range(mirror.matching, len(history.committed)):
            # An outdated leader learns too late that it was elected.
            if history.epochs[index] < epoch:
                raise Violation(
                    "committed-batch-lost",
                    f"{change.where}, leader in epoch {epoch}: {history.committed[index]} is committed, "
                    f"log end {mirror.log_end_offset}",
                )

    def _check_leader(self, change: _Change) -> None:
        """Check that a leader waits for the stored ISR, and overrates no follower."""
        leader, now = change.partition.leader_state, change.now
        assert leader is not None
        stored, maximal = now.stored, leader.maximal_isr
        if (
            stored is not None
            and stored.leader_epoch == now.leader_epoch
            and not set(stored.isr) <= set(maximal)
        ):
            raise Violation(
                "stored-isr-not-in-maximal-isr",
                f"{change.partition.topic_partition} epoch {now.leader_epoch}: {stored.isr}, "
                f"maximal {maximal}",
            )
        for broker_id, mirror in self._history(self._key_of(change.partition)).mirrors.items():
            replica = leader.replica(broker_id)
            if (
                replica is not None
                and mirror.leader_epoch == now.leader_epoch
                and replica.log_end_offset > mirror.log_end_offset
            ):
                raise Violation(
                    "follower-overrated",
                    f"{change.partition.topic_partition} epoch {now.leader_epoch}: {replica.log_end_offset} "
                    f"of broker {broker_id}, which has {mirror.log_end_offset}",
                )

    def _check_isr_members(self, topic_partition: TopicPartition) -> None:
        stored = self._stored_state(topic_partition)
        if stored is None:
            return
        history = self._history(topic_partition)
        for member in stored.isr:
            mirror = history.mirrors.get(member)
            if mirror is not None and not self._matches(history, mirror):
                raise Violation(
                    "committed-batch-not-in-isr",
                    f"{topic_partition} on broker {member}, log end {mirror.log_end_offset}: lacks "
                    f"{history.committed[mirror.matching]}; {stored}",
                )

    # Reports of clients.

    def on_acknowledged(self, partition: TopicPartition, offset: int, values: list[bytes]) -> None:
        """Note the offsets of values acknowledged with acks=all."""
        self.check()
        end_offset = self.committed_end(partition)
        if offset + len(values) > end_offset:
            raise Violation(
                "acknowledged-before-commit",
                f"{partition} offset {offset} with {len(values)} records, committed up to {end_offset}",
            )
        self.acknowledged_count += len(values)
        for position, value in enumerate(values):
            self._note(partition, offset + position, value)

    def on_read(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """Note a value that a consumer has read."""
        if offset >= self.committed_end(partition):
            raise Violation(
                "read-before-commit",
                f"{partition} offset {offset}, committed up to {self.committed_end(partition)}",
            )
        self._note(partition, offset, value)

    def _note(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        known = self._values.setdefault(partition, {}).setdefault(offset, value)
        if known != value:
            raise Violation("inconsistent-offset", f"{partition} offset {offset}: {known!r} and {value!r}")

    # At the end.

    def check_final(self, replicas: Mapping[TopicPartition, list[tuple[int, Log]]]) -> None:
        """Check that replicas are equal and have every value that a client has seen, once."""
        for partition, logs in replicas.items():
            first_id, first_log = logs[0]
            expected = _all_batches(first_log)
            for broker_id, log in logs[1:]:
                if _all_batches(log) != expected:
                    raise Violation(
                        "replicas-differ", f"{partition}: brokers {first_id} and {broker_id} after healing"
                    )
            self._check_values(partition, first_log)

    def _check_values(self, partition: TopicPartition, log: Log) -> None:
        stored = {
            record.offset: bytes(record.value or b"")
            for record in decode(read_bytes(log, log.log_start_offset, log.log_end_offset))
        }
        for offset, value in self._values.get(partition, {}).items():
            if stored.get(offset) != value:
                raise Violation(
                    "lost-write",
                    f"{partition} offset {offset}: {value!r} expected, got {stored.get(offset)!r}",
                )
        if len(set(stored.values())) != len(stored):
            twice = [value for value in stored.values() if list(stored.values()).count(value) > 1]
            raise Violation("duplicate", f"{partition}: {sorted(set(twice))}")


class UncleanChecker(InvariantChecker):
    """The invariants that are left with unclean elections, which lose committed records."""

    def _check_changes(self, changes: list[_Change]) -> None:
        for change in changes:
            self._check_offsets(change)
            if change.now.is_leader and change.has_new_role:
                self._check_single_leader(change)

    def _may_go_back(self, before: _Seen, now: _Seen) -> bool:
        """Return whether a follower has truncated committed records that its new leader does not have.

        Its high watermark is then its log end offset, as in Kafka (``UnifiedLog``).
        """
        return not now.is_leader and now.high_watermark == now.log_end_offset < before.log_end_offset

    def on_acknowledged(self, partition: TopicPartition, offset: int, values: list[bytes]) -> None:
        self.acknowledged_count += len(values)

    def on_read(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """Check nothing: the record may be lost."""

    def _check_values(self, partition: TopicPartition, log: Log) -> None:
        """Check nothing: records may be lost."""


def _all_batches(log: Log) -> list[Batch]:
    return read_batches(log, log.log_start_offset, log.log_end_offset)
