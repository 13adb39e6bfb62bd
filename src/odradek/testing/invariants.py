"""Invariants of replication, checked on the replicas of a simulated cluster after every turn of the loop.

A batch is committed once any replica's high watermark has passed it. The checker keeps all committed batches
of each partition and compares with them what replicas do later. Named violations:

- ``two-leaders-in-epoch``: two brokers, or two incarnations of one, were leader in the same epoch.
- ``high-watermark-beyond-log-end``
- ``high-watermark-went-back`` within a leader epoch of one incarnation.
- ``logs-differ``: a replica has another batch below its high watermark than the committed one.
- ``committed-batch-lost``: a leader's log lacks a batch that was committed in an earlier epoch.
- ``stored-isr-not-in-maximal-isr``: the controller may elect a replica that the leader does not wait for.
- ``committed-batch-not-in-isr``: a member of the stored ISR lacks a batch that its leader has committed.
- ``acknowledged-before-commit``: acks=all was answered before the batch was committed.
- ``inconsistent-offset``: an offset was read or acknowledged with another value than before.
- ``lost-write``, ``duplicate``: an acknowledged value is missing from a log at the end, or there twice.
- ``replicas-differ``, ``not-recovered``: after healing, replicas are not equal or partitions not in sync.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from odradek.log.log import Log
from odradek.model.ids import TopicPartition
from odradek.ports.files import FileSlice
from odradek.records.codec import decode, read_headers
from odradek.replication.partition import Partition


class Violation(AssertionError):
    """A broken invariant; ``name`` is one of those listed above."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


class Incarnation(NamedTuple):
    """One life of a broker process, and its replicas."""

    broker_id: int
    number: int
    partitions: Iterable[Partition]


class StoredIsr(NamedTuple):
    """Leader epoch and ISR of a partition as the controller has committed them."""

    leader_epoch: int
    isr: tuple[int, ...]


class _Batch(NamedTuple):
    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int


class _Seen(NamedTuple):
    is_leader: bool
    leader_epoch: int
    high_watermark: int
    log_end_offset: int


class _Committed:
    """Committed batches of one partition, and the leader epoch in which each was, by base offset."""

    def __init__(self) -> None:
        self.batches: dict[int, _Batch] = {}
        self.epochs: dict[int, int] = {}
        self.end_offset = 0


class InvariantChecker:
    def __init__(
        self,
        incarnations: Callable[[], Iterable[Incarnation]],
        stored_isr: Callable[[TopicPartition], StoredIsr | None] = lambda partition: None,
    ) -> None:
        self._incarnations = incarnations
        self._stored_isr = stored_isr
        self._seen: dict[tuple[int, int, TopicPartition], _Seen] = {}
        self._leaders: dict[tuple[TopicPartition, int], tuple[int, int]] = {}
        self._committed: dict[TopicPartition, _Committed] = {}
        self._values: dict[TopicPartition, dict[int, bytes]] = {}
        self.acknowledged_count = 0
        self.check_count = 0

    def committed_end(self, partition: TopicPartition) -> int:
        return self._committed_batches(partition).end_offset

    # After every turn.

    def check(self) -> None:
        """Check all replicas that have changed since the last call."""
        self.check_count += 1
        replicas: dict[tuple[int, TopicPartition], Partition] = {}
        for broker_id, number, partitions in self._incarnations():
            for partition in partitions:
                replicas[broker_id, partition.topic_partition] = partition
                self._check_replica(broker_id, number, partition)
        for partition in replicas.values():
            if partition.is_leader:
                self._check_stored_isr(partition, replicas)

    def _check_replica(self, broker_id: int, number: int, partition: Partition) -> None:
        log = partition.log
        now = _Seen(partition.is_leader, partition.leader_epoch, log.high_watermark, log.log_end_offset)
        key = (broker_id, number, partition.topic_partition)
        before = self._seen.get(key)
        if now == before:
            return
        self._seen[key] = now
        where = f"{partition.topic_partition} on broker {broker_id}"
        if now.high_watermark > now.log_end_offset:
            raise Violation(
                "high-watermark-beyond-log-end", f"{where}: {now.high_watermark} > {now.log_end_offset}"
            )
        is_same_epoch = before is not None and before.leader_epoch == now.leader_epoch
        if before is not None and is_same_epoch and now.high_watermark < before.high_watermark:
            raise Violation(
                "high-watermark-went-back", f"{where}: {before.high_watermark} to {now.high_watermark}"
            )
        self._check_committed(partition, where, before)
        if now.is_leader and (before is None or before[:2] != now[:2]):
            self._check_new_leader(partition, (broker_id, number), where)

    def _check_committed(self, partition: Partition, where: str, before: _Seen | None) -> None:
        """Compare the batches that the high watermark has passed with the committed ones; add new ones."""
        log = partition.log
        first = log.log_start_offset if before is None else min(before.high_watermark, log.high_watermark)
        committed = self._committed_batches(partition.topic_partition)
        for batch in _batches(log, max(first, log.log_start_offset), log.high_watermark):
            known = committed.batches.get(batch.base_offset)
            if known is None and batch.base_offset >= committed.end_offset:
                committed.batches[batch.base_offset] = batch
                committed.epochs[batch.base_offset] = partition.leader_epoch
                committed.end_offset = batch.last_offset + 1
            elif known != batch:
                raise Violation("logs-differ", f"{where}: {batch}, committed is {known}")

    def _check_new_leader(self, partition: Partition, leader: tuple[int, int], where: str) -> None:
        key = (partition.topic_partition, partition.leader_epoch)
        first = self._leaders.setdefault(key, leader)
        if first != leader:
            raise Violation(
                "two-leaders-in-epoch",
                f"{partition.topic_partition} epoch {partition.leader_epoch}: broker and incarnation "
                f"{first} and {leader}",
            )
        log = partition.log
        committed = self._committed_batches(partition.topic_partition)
        own = {batch.base_offset: batch for batch in _batches(log, log.log_start_offset, log.log_end_offset)}
        for batch in committed.batches.values():
            if committed.epochs[batch.base_offset] >= partition.leader_epoch:
                continue  # an outdated leader, which learns too late that it was elected
            if batch.base_offset >= log.log_start_offset and own.get(batch.base_offset) != batch:
                raise Violation(
                    "committed-batch-lost",
                    f"{where}, leader in epoch {partition.leader_epoch}: {batch} is committed, log has "
                    f"{own.get(batch.base_offset)}, log end {log.log_end_offset}",
                )

    def _check_stored_isr(
        self, partition: Partition, replicas: Mapping[tuple[int, TopicPartition], Partition]
    ) -> None:
        """Check that the leader waits for the stored ISR, and that its members have what is committed."""
        stored = self._stored_isr(partition.topic_partition)
        if stored is None or stored.leader_epoch != partition.leader_epoch:
            return
        assert partition.leader_state is not None
        maximal = partition.leader_state.maximal_isr
        if not set(stored.isr) <= set(maximal):
            raise Violation(
                "stored-isr-not-in-maximal-isr",
                f"{partition.topic_partition} epoch {stored.leader_epoch}: {stored.isr}, maximal {maximal}",
            )
        for member in stored.isr:
            replica = replicas.get((member, partition.topic_partition))
            if replica is not None and replica.log.log_end_offset < partition.log.high_watermark:
                raise Violation(
                    "committed-batch-not-in-isr",
                    f"{partition.topic_partition} on broker {member}: log end {replica.log.log_end_offset}, "
                    f"high watermark of the leader {partition.log.high_watermark}",
                )

    def _committed_batches(self, partition: TopicPartition) -> _Committed:
        return self._committed.setdefault(partition, _Committed())

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
            self.on_read(partition, offset + position, value)

    def on_read(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """Note a value that a client has seen at an offset."""
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
            for record in decode(_read(log, log.log_start_offset, log.log_end_offset))
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


def _read(log: Log, first: int, end: int) -> bytes:
    """Read all batches from ``first`` up to ``end``."""
    data = bytearray()
    while first < end:
        part: Any = log.read(first, 1 << 30, end).data
        chunk = part.read() if isinstance(part, FileSlice) else bytes(part)
        if not chunk:
            break
        data += chunk
        first = read_headers(chunk)[-1].next_offset
    return bytes(data)


def _batches(log: Log, first: int, end: int) -> list[_Batch]:
    if first >= end:
        return []
    return [
        _Batch(header.base_offset, header.last_offset, header.leader_epoch, header.crc)
        for header in read_headers(_read(log, first, end))
    ]


def _all_batches(log: Log) -> list[_Batch]:
    return _batches(log, log.log_start_offset, log.log_end_offset)
