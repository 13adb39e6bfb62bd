"""A minimal model of the broker side of idempotence: the log of a partition.

Requests wait in channels, one per leader that a partition has had. Only the last leader appends; each
channel is served in order, and a response may be lost with its connection.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition

REMEMBERED_BATCHES = 5
SEQUENCES = 1 << 31


class Request(NamedTuple):
    """A batch as it was sent."""

    name: str
    count: int  # type: ignore[assignment]  # hides tuple.count
    producer_id: int
    epoch: int
    sequence: int


class _Producer:
    """Producer state of a partition; ``recent`` has sequence, count and offset of its last batches."""

    def __init__(self) -> None:
        self.epoch = -1
        self.next_sequence = 0
        self.recent: list[tuple[int, int, int]] = []


class PartitionLog:
    """A log and its producer state; batches have at most ``count_max`` records."""

    def __init__(self, count_max: int) -> None:
        self.written: list[str] = []
        self._count_max = count_max
        self._producers: dict[int, _Producer] = {}

    def take(self, request: Request) -> tuple[ErrorCode, int]:
        """Append a batch, or return an error."""
        if request.count > self._count_max:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        known = self._producers.setdefault(request.producer_id, _Producer())
        if request.epoch < known.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if request.epoch == known.epoch:
            for sequence, count, offset in known.recent:
                if (sequence, count) == (request.sequence, request.count):
                    return ErrorCode.NONE, offset
            if request.sequence != known.next_sequence:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        elif known.epoch >= 0 and request.sequence != 0:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        return ErrorCode.NONE, self._write(known, request)

    def _write(self, known: _Producer, request: Request) -> int:
        if request.epoch != known.epoch:
            known.recent = []
        offset = len(self.written)
        self.written.append(request.name)
        known.epoch = request.epoch
        known.next_sequence = (request.sequence + request.count) % SEQUENCES
        known.recent = [*known.recent, (request.sequence, request.count, offset)][-REMEMBERED_BATCHES:]
        return offset


class Channel:
    """Requests to one leader without a response yet, oldest first; those before ``served`` are handled."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.is_leader = True
        self.requests: list[Request] = []
        self.answers: list[tuple[ErrorCode, int]] = []

    def serve(self, refuse: ErrorCode | None = None) -> None:
        """Handle the next request."""
        if len(self.answers) < len(self.requests):
            request = self.requests[len(self.answers)]
            if not self.is_leader:
                self.answers.append((ErrorCode.NOT_LEADER_OR_FOLLOWER, -1))
            else:
                self.answers.append(self.log.take(request) if refuse is None else (refuse, -1))

    def answered(self) -> tuple[Request, ErrorCode, int] | None:
        """Deliver the next response."""
        if not self.answers:
            return None
        code, offset = self.answers.pop(0)
        return self.requests.pop(0), code, offset

    def broken(self, served_count: int) -> list[Request]:
        """Break the connection: some requests were handled, and all responses are lost."""
        while len(self.answers) < min(served_count, len(self.requests)):
            self.serve()
        lost, self.requests, self.answers = self.requests, [], []
        return lost


class Brokers:
    """Partition logs, and the channels to their leaders."""

    def __init__(self, count_max: int = SEQUENCES) -> None:
        self._count_max = count_max
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.channels: dict[TopicPartition, list[Channel]] = {}

    def at(self, partition: TopicPartition) -> list[Channel]:
        if partition not in self.channels:
            self.logs[partition] = PartitionLog(self._count_max)
            self.channels[partition] = [Channel(self.logs[partition])]
        return self.channels[partition]

    def move(self, partition: TopicPartition) -> None:
        """Move the partition to another leader, which has the whole log."""
        channels = self.at(partition)
        channels[-1].is_leader = False
        channels.append(Channel(self.logs[partition]))
