"""Where records wait to be sent: a line of batches for each partition, and what of it may go now.

Pure: times are passed in, nobody sleeps, nothing is sent. The head of a line goes first and the tail takes
appends. A batch is *incomplete* from its opening until its fate is known, wherever it is in between.

Invariants: lines hold no completed batch; a partition has at most one open batch, the tail of its line; a
batch that comes back lies before all that were never sent, and among numbered ones in the order of numbers.
The caller holds one lock around every method; the lines that have nothing in them do not exist.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from odradek.client.producer.transactions.transaction_manager_port import TransactionManagerPort
from odradek.model.client_errors import ClientError
from odradek.model.ids import NO_SEQUENCE, TopicPartition

if TYPE_CHECKING:
    from odradek.records.codec import ProducerBatch

NEVER_MS: Final = 1 << 62
_SEQUENCES: Final = 1 << 31


class Leaders(Protocol):
    """What the accumulator asks of a network's metadata."""

    def leader(self, partition: TopicPartition) -> tuple[int, int]: ...


class Retry(NamedTuple):
    """Kept as the ``tag`` of a batch that came back: not again before this, unless there is a new leader."""

    not_before_ms: int
    leader_epoch: int
    because: ClientError | None = None


class Ready(NamedTuple):
    """Partitions with something to send, by leader; when to look again; topics without a known leader."""

    nodes: dict[int, list[TopicPartition]]
    next_check_ms: int
    leaderless_topics: set[str]


class Flush:
    """Everything that was incomplete when a flush began, and is still."""

    __slots__ = ("on_done", "remaining")

    def __init__(self, remaining: Iterable[ProducerBatch], on_done: Callable[[], None]) -> None:
        self.remaining = set(remaining)
        self.on_done = on_done


class RecordAccumulator:
    """Lines of batches by partition. Those served longest ago come first, so that none starves."""

    def __init__(
        self,
        *,
        batch_bytes: int,
        linger_ms: int,
        delivery_timeout_ms: int,
        order: TransactionManagerPort | None = None,
        sealed: Callable[[str, int], None] = lambda topic, partition: None,
    ) -> None:
        self._batch_bytes = batch_bytes
        self._linger_ms = linger_ms
        self._delivery_timeout_ms = delivery_timeout_ms
        self._order = order
        self._sealed = sealed
        self._lines: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._muted: set[TopicPartition] = set()
        self._flushes: list[Flush] = []
        self._expiry_check_ms = 0
        self._grown: dict[ProducerBatch, int] = {}
        self.incomplete: dict[ProducerBatch, int] = {}
        """Every batch that has been opened and not completed, with the bytes of memory it holds."""
        self.queued_bytes = 0
        """What lies in lines in full batches: they take no more, or only because they have grown."""
        self.closing = False
        self.drains_count = 0

    # Asked by send.

    def tail(self, partition: TopicPartition) -> ProducerBatch | None:
        line = self._lines.get(partition)
        return line[-1] if line else None

    def add(self, batch: ProducerBatch, memory_bytes: int) -> None:
        """Put a new batch at the end of its line; the one before it takes no more."""
        partition = TopicPartition(batch.topic, batch.partition)
        line = self._lines.get(partition)
        if line is None:
            line = self._lines[partition] = deque()
        elif line[-1].is_open:
            self._seal(line[-1])
        line.append(batch)
        self.incomplete[batch] = memory_bytes

    def grew(self, batch: ProducerBatch, memory_bytes: int) -> None:
        """An open batch was full, and has got more room: it holds so much memory now."""
        self.queued_bytes += batch.size_bytes - self._grown.get(batch, 0)
        self._grown[batch] = batch.size_bytes
        self.incomplete[batch] = memory_bytes

    def has_grown(self, batch: ProducerBatch) -> bool:
        return batch in self._grown

    def has_company(self, partition: TopicPartition) -> bool:
        """Whether there is more than one batch in a line: then its head is full."""
        line = self._lines.get(partition)
        return line is not None and len(line) > 1

    def line_length(self, partition: TopicPartition) -> int:
        """How long a line is, in batches of the common size: one that has grown counts as several."""
        line = self._lines.get(partition)
        if line is None:
            return 0
        batch_bytes = self._batch_bytes
        return sum([max(batch.size_bytes // batch_bytes, 1) for batch in line])

    @property
    def has_incomplete(self) -> bool:
        return bool(self.incomplete)

    @property
    def has_queued(self) -> bool:
        return bool(self._lines)

    # Asked by the sender.

    def ready(self, metadata: Leaders, now_ms: int, *, pressing: bool = False) -> Ready:
        """What may go now; ``pressing`` (memory is short, a transaction ends) lets nothing linger."""
        pressing = pressing or self.closing or bool(self._flushes)
        nodes: dict[int, list[TopicPartition]] = {}
        leaderless: set[str] = set()
        next_check_ms = NEVER_MS
        for partition, line in self._lines.items():
            node_id, epoch = metadata.leader(partition)
            if node_id < 0:
                leaderless.add(partition.topic)
            elif partition not in self._muted:
                due_ms = self._due_ms(line, epoch, pressing)
                if due_ms <= now_ms:
                    nodes.setdefault(node_id, []).append(partition)
                elif due_ms < next_check_ms:
                    next_check_ms = due_ms
        return Ready(nodes, next_check_ms, leaderless)

    def _due_ms(self, line: deque[ProducerBatch], epoch: int, pressing: bool) -> int:
        head = line[0]
        retry = head.tag
        if isinstance(retry, Retry):
            return 0 if epoch > retry.leader_epoch else retry.not_before_ms
        if pressing or len(line) > 1 or not head.is_open or head.size_bytes >= self._batch_bytes:
            return 0
        if head in self._grown:
            return 0
        return head.created_ms + self._linger_ms

    def drain(
        self, partitions: Iterable[TopicPartition], request_bytes_max: int, now_ms: int
    ) -> list[ProducerBatch]:
        """Take the heads of lines, up to the size of one request; who was served goes behind the others."""
        taken: list[ProducerBatch] = []
        size_bytes = 0
        for partition in partitions:
            line = self._lines[partition]
            head = line[0]
            if self._order is not None and not self._order.may_drain(head):
                continue
            if taken and size_bytes + head.size_bytes > request_bytes_max:
                break
            self._take_head(partition, line)
            if self._order is not None:
                self._order.assign(head)
            head.drained_ms = now_ms
            size_bytes += head.size_bytes
            taken.append(head)
        self.drains_count += 1
        return taken

    def _take_head(self, partition: TopicPartition, line: deque[ProducerBatch]) -> None:
        head = line.popleft()
        del self._lines[partition]
        if line:
            self._lines[partition] = line
        if head.is_open:
            self._seal(head)
        self.queued_bytes -= head.size_bytes

    def _seal(self, batch: ProducerBatch) -> None:
        batch.seal()
        self.queued_bytes += batch.size_bytes - self._grown.pop(batch, 0)
        self._sealed(batch.topic, batch.partition)

    def seal_open(self) -> None:
        """End all open batches, so that the next record of each partition asks again."""
        for line in self._lines.values():
            if line[-1].is_open:
                self._seal(line[-1])

    def expired(self, now_ms: int) -> list[ProducerBatch]:
        """Take batches whose ``delivery.timeout.ms`` is over. Lines are as old as their heads."""
        if now_ms < self._expiry_check_ms:
            return []
        found = []
        oldest_ms = now_ms
        for partition in list(self._lines):
            line = self._lines[partition]
            while line and line[0].created_ms + self._delivery_timeout_ms <= now_ms:
                found.append(line[0])
                self._take_head(partition, line)
            if line:
                oldest_ms = min(oldest_ms, line[0].created_ms)
        self._expiry_check_ms = oldest_ms + self._delivery_timeout_ms
        return found

    @property
    def expiry_check_ms(self) -> int:
        """No batch in a line expires before this."""
        return self._expiry_check_ms if self._lines else NEVER_MS

    def mute(self, partition: TopicPartition) -> None:
        """Let nothing go until ``unmute``: the batch in flight is to be answered first."""
        self._muted.add(partition)

    def unmute(self, partition: TopicPartition) -> None:
        self._muted.discard(partition)

    def requeue(self, batch: ProducerBatch, retry: Retry) -> None:
        """Put a batch that is to be sent again where it came from: at the head, in the order of numbers."""
        batch.in_retry = True
        batch.tag = retry
        # A batch that came back may be older than what the last look at expiry saw.
        self._expiry_check_ms = min(self._expiry_check_ms, batch.created_ms + self._delivery_timeout_ms)
        self._insert(batch)

    def _insert(self, batch: ProducerBatch) -> None:
        line = self._lines.setdefault(TopicPartition(batch.topic, batch.partition), deque())
        place = 0
        while place < len(line) and _is_before(line[place], batch):
            place += 1
        line.insert(place, batch)
        self.queued_bytes += batch.size_bytes

    def split(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Replace a batch that is too large for the broker by smaller ones at the head of its line."""
        # The broker's bound is not known; half of what it refused gets there, whatever batch.size says.
        parts = batch.split(min(self._batch_bytes, batch.size_bytes // 2))
        sequence = batch.base_sequence
        share_bytes, rest_bytes = divmod(self.incomplete.get(batch, 0), len(parts))
        for part in parts:
            # A part begins anew: it has not been sent, and need not rest.
            part.attempts = part.last_attempt_ms = 0
            part.in_retry = False
            part.tag = None
            part.producer_id, part.producer_epoch = batch.producer_id, batch.producer_epoch
            if batch.base_sequence != NO_SEQUENCE:
                part.base_sequence = sequence
                sequence = (sequence + part.count) % _SEQUENCES
            # The memory of the whole is held until the last part is done.
            self.incomplete[part], rest_bytes = share_bytes + rest_bytes, 0
        if batch in self.incomplete:
            self.incomplete[batch] = 0
        for part in reversed(parts):
            self._insert(part)
        for flush in self._flushes:
            if batch in flush.remaining:
                flush.remaining.update(parts)
        return parts

    # Ends.

    def completed(self, batch: ProducerBatch) -> int:
        """The fate of a batch is known. Gives the bytes of memory it held."""
        memory_bytes = self.incomplete.pop(batch, 0)
        for flush in self._flushes:
            flush.remaining.discard(batch)
        if self._flushes:
            self._end_flushes()
        return memory_bytes

    def begin_flush(self, on_done: Callable[[], None]) -> Flush:
        """Let everything sent so far go without lingering; ``on_done`` is called once all of it is done."""
        flush = Flush(self.incomplete, on_done)
        self._flushes.append(flush)
        self._end_flushes()
        return flush

    def leave_flush(self, flush: Flush) -> None:
        """Whoever waited for it does not any more."""
        if flush in self._flushes:
            self._flushes.remove(flush)

    def _end_flushes(self) -> None:
        for flush in [one for one in self._flushes if not one.remaining]:
            self._flushes.remove(flush)
            flush.on_done()

    def take_all(self) -> list[ProducerBatch]:
        """Empty all lines: their batches are to be failed."""
        return list(self._taken(lambda batch: True))

    def take_never_sent(self) -> list[ProducerBatch]:
        """Take what no broker can have seen: batches without a number."""
        return list(self._taken(lambda batch: batch.base_sequence == NO_SEQUENCE))

    def _taken(self, wanted: Callable[[ProducerBatch], bool]) -> Iterator[ProducerBatch]:
        for partition in list(self._lines):
            line = self._lines.pop(partition)
            kept: deque[ProducerBatch] = deque()
            for batch in line:
                if wanted(batch):
                    if batch.is_open:
                        self._seal(batch)
                    self.queued_bytes -= batch.size_bytes
                    yield batch
                else:
                    kept.append(batch)
            if kept:
                self._lines[partition] = kept


def _is_before(queued: ProducerBatch, batch: ProducerBatch) -> bool:
    """Whether a queued batch has a number lower than the other's; numbers begin anew after 2 ** 31.

    Without numbers, one that came back and is not younger was sent before.
    """
    if batch.base_sequence == NO_SEQUENCE:
        return queued.in_retry and batch.in_retry and queued.created_ms <= batch.created_ms
    if queued.base_sequence == NO_SEQUENCE:
        return False
    ahead = (batch.base_sequence - queued.base_sequence) % _SEQUENCES
    return 0 < ahead < _SEQUENCES // 2
