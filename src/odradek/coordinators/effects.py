"""Effects: the actions a coordinator shard requests from its runtime.

A shard is synchronous and has no access to a clock, a log or the network. It receives a command and the
time, and returns effects, which the runtime executes in order. Durable state changes only in
``CoordinatorShard.replay``, which is called when a record is committed and again when the partition is loaded
after a restart or a leader change. Transient state (waiting requests, members that have not rejoined) belongs
to the shard and may be lost with it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, Protocol

from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class CoordinatorRecord(NamedTuple):
    """A record of the internal topic. A value of None is a tombstone."""

    key: bytes
    value: bytes | None


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class Now(NamedTuple):
    """The current time: ``wall_ms`` for timestamps, ``monotonic_ms`` for durations."""

    wall_ms: int
    monotonic_ms: int


class Reply(NamedTuple):
    """Respond to a command. ``to`` is the reply handle that came with it."""

    to: Any
    response: Any


class AppendRecords(NamedTuple):
    """Append records in one batch, as part of the producer's transaction if ``producer`` is set.

    Once they are committed and replayed, ``on_append_committed(completion)`` is called; otherwise
    ``on_append_failed(completion, code)``. If ``content`` is set, it is replayed instead of the records.
    """

    records: tuple[CoordinatorRecord, ...]
    completion: Any
    producer: ProducerIdAndEpoch | None = None
    content: Any = None
    """Decoded content of all records, in a form that the shard replays with the same result."""


class ScheduleTimer(NamedTuple):
    """Call ``on_timer(timer)`` after a delay. Replaces a scheduled timer with the same key."""

    timer: Hashable
    delay_ms: int


class CancelTimer(NamedTuple):
    """Cancel a timer if it is scheduled."""

    timer: Hashable


class StartTask(NamedTuple):
    """Start asynchronous work outside the shard. Its completion is reported by a command. A task that has
    not completed when the partition is unloaded is dropped."""

    task: Any


class LogEvent(NamedTuple):
    """Write an event to the broker's log, at level info."""

    event: str
    fields: Mapping[str, object]


Effect = Reply | AppendRecords | ScheduleTimer | CancelTimer | StartTask | LogEvent
Effects = list[Effect]


class CoordinatorShard(Protocol):
    """The state behind one partition of an internal topic."""

    def handle(self, command: Any, to: object, now: Now) -> Effects:
        """Handle a command. Every command gets exactly one reply, now or from a later call."""
        ...

    def on_append_committed(self, completion: Any, now: Now) -> Effects:
        """Continue after the records of an ``AppendRecords`` were committed and replayed."""
        ...

    def on_append_failed(self, completion: Any, code: ErrorCode, now: Now) -> Effects:
        """Continue after an append failed or timed out. Its records may still be committed."""
        ...

    def on_timer(self, timer: Hashable, now: Now) -> Effects: ...

    def replay(self, record: Any, producer_id: int = -1) -> None:
        """Apply a committed ``CoordinatorRecord``, or the ``content`` of committed records with the same
        result. ``producer_id`` is set if they are part of a transaction."""
        ...

    def replay_end_transaction_marker(self, producer_id: int, *, commits: bool) -> None:
        """Apply a committed transaction marker of this producer."""
        ...

    def on_loaded(self, now: Now) -> Effects:
        """Start serving: the whole partition has been replayed."""
        ...

    def on_unloaded(self) -> Effects:
        """Reply to all waiting requests: this broker no longer leads the partition. Timers are cancelled by
        the runtime."""
        ...
