"""Hierarchical timing wheel, advanced by its caller.

The lowest level has ``size`` buckets of ``tick_ms`` each; a deadline beyond its span goes to the level above,
whose tick is the whole span of the level below (1 ms, 20 ms, 400 ms, …), created when first needed. A bucket
is a doubly linked ring of timers, so that adding and cancelling are O(1). A heap holds each bucket that has
timers once, by its expiration; when a bucket of an upper level expires, its timers are placed again on lower
levels until they fire.

Invariants: a timer fires once and never before its deadline; timers fire in the order of their ticks; the
timers of a bucket all lie within its tick; every bucket with timers is on the heap.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from odradek.compiled_modules import mypyc_attr


def _no_op() -> None:
    """Default action of a timer."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Timer:
    """Timer with a deadline. Subclasses may override ``fire``."""

    __slots__ = ("_action", "_next", "_previous", "_wheel", "deadline_ms")

    deadline_ms: int
    _wheel: TimingWheel
    _previous: Timer
    _next: Timer

    def __init__(self, action: Callable[[], object] = _no_op) -> None:
        self._action = action
        self._next = _UNLINKED

    def cancel(self) -> bool:
        """Remove the timer from its wheel; return False if it fired, was cancelled or never added."""
        after = self._next
        if after is _UNLINKED:
            return False
        before = self._previous
        before._next = after
        after._previous = before
        self._next = self._previous = _UNLINKED
        self._wheel._count -= 1
        return True

    def fire(self) -> None:
        """Called once by the wheel, after the timer was removed from it."""
        self._action()


class _NoTimer(Timer):
    """Link target of timers that are on no wheel, so that they keep no neighbour alive."""

    __slots__ = ()

    def __init__(self) -> None:
        """Leave it without links, which those of a timer would be initialized with."""


_UNLINKED: Final = _NoTimer()


class _Bucket(Timer):
    """Sentinel of a ring, itself never due. ``expires_ms`` is -1 while the bucket is not on the heap."""

    __slots__ = ("expires_ms",)

    def __init__(self) -> None:
        super().__init__()
        self._next = self._previous = self
        self.expires_ms = -1


def _unlink_first(bucket: _Bucket, timer: Timer) -> None:
    after = timer._next
    bucket._next = after
    after._previous = bucket
    timer._next = timer._previous = _UNLINKED


class _Level:
    """One level: ``end_of_tick_ms`` ends its current tick; ``end_ms`` ends its span."""

    __slots__ = ("_above", "buckets", "depth", "end_ms", "end_of_tick_ms", "size", "span_ms", "tick_ms")

    def __init__(self, depth: int, tick_ms: int, size: int, now_ms: int) -> None:
        self.depth = depth
        self.tick_ms = tick_ms
        self.size = size
        self.span_ms = tick_ms * size
        self.buckets = [_Bucket() for _ in range(size)]
        self._above: _Level | None = None
        self.move_to(now_ms)

    def move_to(self, now_ms: int) -> None:
        """Set the current time; upper levels follow only when their tick changes."""
        start_ms = now_ms - now_ms % self.tick_ms
        self.end_of_tick_ms = start_ms + self.tick_ms
        self.end_ms = start_ms + self.span_ms
        above = self._above
        if above is not None and now_ms >= above.end_of_tick_ms:
            above.move_to(now_ms)

    def above(self) -> _Level:
        if self._above is None:
            self._above = _Level(self.depth + 1, self.span_ms, self.size, self.end_of_tick_ms - self.tick_ms)
        return self._above


class TimingWheel:
    """Timers by deadline. ``add`` and ``cancel`` are O(1); ``advance`` costs what it fires and moves down."""

    __slots__ = ("_buckets_due", "_count", "_lowest", "_overdue", "_tick_ms", "now_ms")

    def __init__(self, start_ms: int, tick_ms: int = 1, size: int = 20) -> None:
        if start_ms < 0 or tick_ms < 1 or size < 2:
            raise ValueError(
                f"start_ms must be >= 0, tick_ms >= 1 and size >= 2, got {start_ms=}, {tick_ms=}, {size=}"
            )
        self.now_ms = start_ms
        self._tick_ms = tick_ms
        self._lowest = _Level(0, tick_ms, size, start_ms)
        self._overdue = _Bucket()
        # (time, depth, bucket): no two buckets of one depth expire together, so buckets are never compared.
        self._buckets_due: list[tuple[int, int, _Bucket]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, deadline_ms: int, action: Callable[[], object]) -> Timer:
        """Call ``action`` at the first ``advance`` to ``deadline_ms`` or later."""
        timer = Timer(action)
        self.schedule(timer, deadline_ms)
        return timer

    def schedule(self, timer: Timer, deadline_ms: int) -> None:
        """Add a timer that is on no wheel. A timer already due fires at the next ``advance``."""
        if self._tick_ms > 1:
            # Round up: a timer must not fire early within a tick.
            deadline_ms += -deadline_ms % self._tick_ms
        timer.deadline_ms = deadline_ms
        timer._wheel = self
        self._count += 1
        self._place(timer, deadline_ms)

    def _place(self, timer: Timer, deadline_ms: int) -> None:
        level = self._lowest
        if deadline_ms < level.end_of_tick_ms:
            bucket = self._overdue
        else:
            while deadline_ms >= level.end_ms:
                level = level.above()
            tick = deadline_ms // level.tick_ms
            bucket = level.buckets[tick % level.size]
            if bucket.expires_ms < 0:
                bucket.expires_ms = expires_ms = tick * level.tick_ms
                heappush(self._buckets_due, (expires_ms, level.depth, bucket))
        last = bucket._previous
        timer._previous = last
        timer._next = bucket
        last._next = bucket._previous = timer

    def next_deadline_ms(self) -> int | None:
        """Return when ``advance`` next has something to do, at the latest at the first deadline, or None.

        It may be earlier than the first deadline: then timers only move to a lower level.
        """
        if self._overdue._next is not self._overdue:
            return self.now_ms
        due = self._buckets_due
        while due:
            expires_ms, _, bucket = due[0]
            if bucket._next is not bucket:
                return expires_ms
            # All its timers were cancelled: no wakeup needed.
            heappop(due)
            bucket.expires_ms = -1
        return None

    def advance(self, now_ms: int) -> int:
        """Fire all timers due at ``now_ms``; return their number. A ``now_ms`` in the past does nothing.

        Actions may add and cancel timers. A timer added with a past deadline fires at the next call, so that
        an action that keeps adding such timers cannot block the caller. If an action raises, ``advance``
        stops; the other timers stay and fire at the next call.
        """
        overdue, fired = self._overdue, 0
        if overdue._next is not overdue:
            self._overdue = _Bucket()
            fired = self._empty(overdue)
        due = self._buckets_due
        while due and due[0][0] <= now_ms:
            expires_ms, _, bucket = heappop(due)
            bucket.expires_ms = -1
            self._move_to(expires_ms)
            fired += self._empty(bucket)
        if now_ms > self.now_ms:
            self._move_to(now_ms)
        return fired

    def _move_to(self, now_ms: int) -> None:
        self.now_ms = now_ms
        if now_ms >= self._lowest.end_of_tick_ms:
            self._lowest.move_to(now_ms)

    def _empty(self, bucket: _Bucket) -> int:
        """Fire the due timers of a bucket and place the others again; return the number fired."""
        due_before_ms = self._lowest.end_of_tick_ms
        fired = 0
        try:
            while (timer := bucket._next) is not bucket:
                _unlink_first(bucket, timer)
                if timer.deadline_ms >= due_before_ms:
                    self._place(timer, timer.deadline_ms)
                else:
                    self._count -= 1
                    fired += 1
                    timer.fire()
        finally:
            # Timers are left only if an action raised; the bucket is off the heap, so none may stay in it.
            while (timer := bucket._next) is not bucket:
                _unlink_first(bucket, timer)
                self._place(timer, timer.deadline_ms)
        return fired
