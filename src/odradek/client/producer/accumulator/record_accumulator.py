"""Queues of batches by partition, and the batches that are ready to be sent.

Pure: times are passed in, nothing blocks or is sent. The head of a queue is sent first and the tail takes
appends. A batch is *incomplete* from its creation until it is completed, wherever it is in between.

Invariants: queues hold no completed batch; a partition has at most one open batch, the tail of its queue; a
requeued batch comes before all that were never sent, and batches with a sequence are in the order of
sequences. The caller holds one lock around every method; empty queues are removed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from odradek.client.producer.transactions.transaction_manager_port import TransactionManagerPort
from odradek.model.client_errors import ClientError
from odradek.model.ids import NO_SEQUENCE, TopicPartition

if TYPE_CHECKING:
    from odradek.records.client.producer import ProducerBatch

NEVER_MS: Final = 1 << 62
_SEQUENCES: Final = 1 << 31


class Leaders(Protocol):
    """The part of the cluster metadata that the accumulator needs."""

    def leader(self, partition: TopicPartition) -> tuple[int, int]: ...


class Retry(NamedTuple):
    """The ``tag`` of a requeued batch: not sent again before this time, unless there is a new leader."""

    not_before_ms: int
    leader_epoch: int
    cause: ClientError | None = None


class Ready(NamedTuple):
    """Ready partitions by leader; the time of the next check; topics without a known leader."""

    nodes: dict[int, list[TopicPartition]]
    next_check_ms: int
    leaderless_topics: set[str]


class Flush:
    """The batches that a flush still waits for."""

    __slots__ = ("on_done", "remaining")

    def __init__(self, remaining: Iterable[ProducerBatch], on_done: Callable[[], None]) -> None:
        self.remaining = set(remaining)
        self.on_done = on_done


class RecordAccumulator:
    """Queues by partition. The least recently drained partition comes first, so that none starves."""

    def __init__(
        self,
        *,
        batch_bytes: int,
        linger_ms: int,
        delivery_timeout_ms: int,
        transaction_manager: TransactionManagerPort | None = None,
        on_sealed: Callable[[str, int], None] = lambda topic, partition: None,
    ) -> None:
        self._batch_bytes = batch_bytes
        self._linger_ms = linger_ms
        self._delivery_timeout_ms = delivery_timeout_ms
        self._transaction_manager = transaction_manager
        self._on_sealed = on_sealed
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._muted: set[TopicPartition] = set()
        self._flushes: list[Flush] = []
        self._expiry_check_ms = 0
        self._grown: dict[ProducerBatch, int] = {}
        self.incomplete: dict[ProducerBatch, int] = {}
        """Every batch that is not completed, with the memory it holds in bytes."""
        self.queued_bytes = 0
        """Bytes in queued full batches, including grown ones that are still open."""
        self.closing = False
        self.drains_count = 0

    # Called by send.

    def tail(self, partition: TopicPartition) -> ProducerBatch | None:
        queue = self._queues.get(partition)
        return queue[-1] if queue else None

    def add(self, batch: ProducerBatch, memory_bytes: int) -> None:
        """Add a new batch to the end of its queue, and seal the one before it."""
        partition = TopicPartition(batch.topic, batch.partition)
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = deque()
        elif queue[-1].is_open:
            self._seal(queue[-1])
        queue.append(batch)
        self.incomplete[batch] = memory_bytes

    def on_batch_grown(self, batch: ProducerBatch, memory_bytes: int) -> None:
        """Note the memory of a full batch that was extended."""
        self.queued_bytes += batch.size_bytes - self._grown.get(batch, 0)
        self._grown[batch] = batch.size_bytes
        self.incomplete[batch] = memory_bytes

    def has_grown(self, batch: ProducerBatch) -> bool:
        return batch in self._grown

    def has_successor(self, partition: TopicPartition) -> bool:
        """Return whether a queue has more than one batch: then its head is full."""
        queue = self._queues.get(partition)
        return queue is not None and len(queue) > 1

    def queue_length(self, partition: TopicPartition) -> int:
        """Return the length of a queue in units of ``batch.size``: a grown batch counts as several."""
        queue = self._queues.get(partition)
        if queue is None:
            return 0
        batch_bytes = self._batch_bytes
        return sum([max(batch.size_bytes // batch_bytes, 1) for batch in queue])

    @property
    def has_incomplete(self) -> bool:
        return bool(self.incomplete)

    @property
    def has_queued(self) -> bool:
        return bool(self._queues)

    # Called by the sender.

    def ready(self, metadata: Leaders, now_ms: int, *, skip_linger: bool = False) -> Ready:
        """Return the ready partitions; ``skip_linger`` if memory is exhausted or a transaction ends."""
        skip_linger = skip_linger or self.closing or bool(self._flushes)
        nodes: dict[int, list[TopicPartition]] = {}
        leaderless: set[str] = set()
        next_check_ms = NEVER_MS
        for partition, queue in self._queues.items():
            node_id, epoch = metadata.leader(partition)
            if node_id < 0:
                leaderless.add(partition.topic)
            elif partition not in self._muted:
                due_ms = self._due_ms(queue, epoch, skip_linger)
                if due_ms <= now_ms:
                    nodes.setdefault(node_id, []).append(partition)
                elif due_ms < next_check_ms:
                    next_check_ms = due_ms
        return Ready(nodes, next_check_ms, leaderless)

    def _due_ms(self, queue: deque[ProducerBatch], epoch: int, skip_linger: bool) -> int:
        head = queue[0]
        retry = head.tag
        if isinstance(retry, Retry):
            return 0 if epoch > retry.leader_epoch else retry.not_before_ms
        if skip_linger or len(queue) > 1 or not head.is_open or head.size_bytes >= self._batch_bytes:
            return 0
        if head in self._grown:
            return 0
        return head.created_ms + self._linger_ms

    def drain(
        self, partitions: Iterable[TopicPartition], request_bytes_max: int, now_ms: int
    ) -> list[ProducerBatch]:
        """Take the heads of queues, up to the size of one request; drained partitions move to the end."""
        drained: list[ProducerBatch] = []
        size_bytes = 0
        for partition in partitions:
            queue = self._queues[partition]
            head = queue[0]
            if self._transaction_manager is not None and not self._transaction_manager.may_drain(head):
                continue
            if drained and size_bytes + head.size_bytes > request_bytes_max:
                break
            self._take_head(partition, queue)
            if self._transaction_manager is not None:
                self._transaction_manager.assign(head)
            head.drained_ms = now_ms
            size_bytes += head.size_bytes
            drained.append(head)
        self.drains_count += 1
        return drained

    def _take_head(self, partition: TopicPartition, queue: deque[ProducerBatch]) -> None:
        head = queue.popleft()
        del self._queues[partition]
        if queue:
            self._queues[partition] = queue
        if head.is_open:
            self._seal(head)
        self.queued_bytes -= head.size_bytes

    def _seal(self, batch: ProducerBatch) -> None:
        batch.seal()
        self.queued_bytes += batch.size_bytes - self._grown.pop(batch, 0)
        self._on_sealed(batch.topic, batch.partition)

    def seal_open(self) -> None:
        """Seal all open batches, so that the next record of each partition takes the slow path."""
        for queue in self._queues.values():
            if queue[-1].is_open:
                self._seal(queue[-1])

    def take_expired(self, now_ms: int) -> list[ProducerBatch]:
        """Take the batches whose ``delivery.timeout.ms`` has passed. The head of a queue is its oldest."""
        if now_ms < self._expiry_check_ms:
            return []
        expired = []
        oldest_ms = now_ms
        for partition in list(self._queues):
            queue = self._queues[partition]
            while queue and queue[0].created_ms + self._delivery_timeout_ms <= now_ms:
                expired.append(queue[0])
                self._take_head(partition, queue)
            if queue:
                oldest_ms = min(oldest_ms, queue[0].created_ms)
        self._expiry_check_ms = oldest_ms + self._delivery_timeout_ms
        return expired

    @property
    def expiry_check_ms(self) -> int:
        """The earliest time at which a queued batch expires."""
        return self._expiry_check_ms if self._queues else NEVER_MS

    def mute(self, partition: TopicPartition) -> None:
        """Send nothing of a partition until ``unmute``: its batch in flight must complete first."""
        self._muted.add(partition)

    def unmute(self, partition: TopicPartition) -> None:
        self._muted.discard(partition)

    def requeue(self, batch: ProducerBatch, retry: Retry) -> None:
        """Put a batch back to the head of its queue, in the order of sequences, to be sent again."""
        batch.in_retry = True
        batch.tag = retry
        # A requeued batch may be older than the oldest one at the last expiry check.
        self._expiry_check_ms = min(self._expiry_check_ms, batch.created_ms + self._delivery_timeout_ms)
        self._insert(batch)

    def _insert(self, batch: ProducerBatch) -> None:
        queue = self._queues.setdefault(TopicPartition(batch.topic, batch.partition), deque())
        index = 0
        while index < len(queue) and _is_before(queue[index], batch):
            index += 1
        queue.insert(index, batch)
        self.queued_bytes += batch.size_bytes

    def split(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Replace a batch that is too large for the broker by smaller ones at the head of its queue."""
        # The broker's limit is unknown: halving reaches it, whatever batch.size is.
        parts = batch.split(min(self._batch_bytes, batch.size_bytes // 2))
        sequence = batch.base_sequence
        share_bytes, rest_bytes = divmod(self.incomplete.get(batch, 0), len(parts))
        for part in parts:
            # A part counts as never sent, and does not back off.
            part.attempts = part.last_attempt_ms = 0
            part.in_retry = False
            part.tag = None
            part.producer_id, part.producer_epoch = batch.producer_id, batch.producer_epoch
            if batch.base_sequence != NO_SEQUENCE:
                part.base_sequence = sequence
                sequence = (sequence + part.count) % _SEQUENCES
            # The memory of the whole is held until the last part is completed.
            self.incomplete[part], rest_bytes = share_bytes + rest_bytes, 0
        if batch in self.incomplete:
            self.incomplete[batch] = 0
        for part in reversed(parts):
            self._insert(part)
        for flush in self._flushes:
            if batch in flush.remaining:
                flush.remaining.update(parts)
        return parts

    # Completion.

    def remove(self, batch: ProducerBatch) -> int:
        """Remove a completed batch; return the memory it held in bytes."""
        memory_bytes = self.incomplete.pop(batch, 0)
        for flush in self._flushes:
            flush.remaining.discard(batch)
        if self._flushes:
            self._end_flushes()
        return memory_bytes

    def begin_flush(self, on_done: Callable[[], None]) -> Flush:
        """Send all batches without linger; ``on_done`` is called once all of them are completed."""
        flush = Flush(self.incomplete, on_done)
        self._flushes.append(flush)
        self._end_flushes()
        return flush

    def cancel_flush(self, flush: Flush) -> None:
        """Forget a flush whose caller stopped waiting."""
        if flush in self._flushes:
            self._flushes.remove(flush)

    def _end_flushes(self) -> None:
        for flush in [flush for flush in self._flushes if not flush.remaining]:
            self._flushes.remove(flush)
            flush.on_done()

    def take_all(self) -> list[ProducerBatch]:
        """Empty all queues and return their batches, to be failed."""
        return list(self._take(lambda batch: True))

    def take_never_sent(self) -> list[ProducerBatch]:
        """Take the batches without a sequence, which no broker can have received."""
        return list(self._take(lambda batch: batch.base_sequence == NO_SEQUENCE))

    def _take(self, matches: Callable[[ProducerBatch], bool]) -> Iterator[ProducerBatch]:
        for partition in list(self._queues):
            queue = self._queues.pop(partition)
            kept: deque[ProducerBatch] = deque()
            for batch in queue:
                if matches(batch):
                    if batch.is_open:
                        self._seal(batch)
                    self.queued_bytes -= batch.size_bytes
                    yield batch
                else:
                    kept.append(batch)
            if kept:
                self._queues[partition] = kept


def _is_before(queued: ProducerBatch, batch: ProducerBatch) -> bool:
    """Return whether a queued batch has a lower sequence; sequences wrap at 2 ** 31.

    Without sequences, a requeued batch that is not younger was sent before.
    """
    if batch.base_sequence == NO_SEQUENCE:
        return queued.in_retry and batch.in_retry and queued.created_ms <= batch.created_ms
    if queued.base_sequence == NO_SEQUENCE:
        return False
    ahead = (batch.base_sequence - queued.base_sequence) % _SEQUENCES
    return 0 < ahead < _SEQUENCES // 2
