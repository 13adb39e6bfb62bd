"""What a coordinator's state shard may ask of whoever runs it.

A shard is synchronous and knows no clock, log or network: it is given a command and the time, and gives
back effects, which the runtime carries out in order. Durable state is changed by ``CoordinatorShard.apply``
alone,
when an entry is committed and when it is read again after a restart or a move; what is under way (who waits,
who has not rejoined) is the shard's own and is lost with it, as it may be.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, Protocol

from odradek.model.errors import ErrorCode


class CoordinatorRecord(NamedTuple):
    """A record of the internal topic. Without a value it says that its key is no more."""

    key: bytes
    value: bytes | None


class ProducerIdAndEpoch(NamedTuple):
    """The producer on whose behalf entries are written as part of a transaction."""

    producer_id: int
    producer_epoch: int


class Now(NamedTuple):
    """One moment: ``wall_ms`` for what is written down, ``monotonic_ms`` for how long something took."""

    wall_ms: int
    monotonic_ms: int


class Reply(NamedTuple):
    """Answer a command. ``to`` is what was handed in with it."""

    to: Any
    response: Any


class AppendRecords(NamedTuple):
    """Write entries in one batch. Once they are committed and applied,
    ``CoordinatorShard.committed(completion)`` is called;
    if they cannot be, ``CoordinatorShard.refused(completion, code)``."""

    entries: tuple[CoordinatorRecord, ...]
    completion: Any
    producer: ProducerIdAndEpoch | None = None


class ScheduleTimer(NamedTuple):
    """Call ``CoordinatorShard.fired(timer)`` after this time. A timer of the same name is replaced."""

    timer: Hashable
    delay_ms: int


class CancelTimer(NamedTuple):
    """Forget a timer, if it is armed."""

    timer: Hashable


class StartTask(NamedTuple):
    """Have something done that is no shard's: outside, taking its time. Whoever does it tells of its end
    with a command. What was asked for and not done when the partition goes is forgotten."""

    task: Any


class LogEvent(NamedTuple):
    """Write an event to the broker's log, at level info."""

    event: str
    fields: Mapping[str, object]


Effect = Reply | AppendRecords | ScheduleTimer | CancelTimer | StartTask | LogEvent
Effects = list[Effect]


class CoordinatorShard(Protocol):
    """The state behind one partition of an internal topic."""

    def handle(self, command: Any, to: Any, now: Now) -> Effects:
        """Judge a command. Every command is answered exactly once, now or by later effects."""
        ...

    def on_append_committed(self, completion: Any, now: Now) -> Effects:
        """What an ``AppendRecords`` asked for is in the log for good, and applied."""
        ...

    def on_append_failed(self, completion: Any, code: ErrorCode, now: Now) -> Effects:
        """What an ``AppendRecords`` asked for was not written, or nobody knows whether it was."""
        ...

    def on_timer(self, timer: Hashable, now: Now) -> Effects: ...

    def replay(self, entry: CoordinatorRecord, producer_id: int = -1) -> None:
        """Take over a committed entry. ``producer_id`` is set while its transaction is open."""
        ...

    def replay_end_transaction_marker(self, producer_id: int, *, commits: bool) -> None:
        """A marker of this producer is committed in the partition."""
        ...

    def on_loaded(self, now: Now) -> Effects:
        """All that the partition holds was applied: begin to serve."""
        ...

    def on_unloaded(self) -> Effects:
        """This broker no longer leads the partition: answer all who wait; timers are gone by themselves."""
        ...
