"""Throttled sessions: muted for a time, as KIP-219 says.

The response of a throttled request is sent at once, with the throttle time. A client that does not wait so
long by itself is not read from until then.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.broker.network.session import Session
from odradek.timers.timing_wheel import Timer, TimingWheel


class SessionMuter:
    def __init__(self, now_ms: Callable[[], int], wheel: TimingWheel, arm: Callable[[int], None]) -> None:
        """``arm`` advances the wheel in time for a deadline."""
        self._now_ms = now_ms
        self._wheel = wheel
        self._arm = arm

    def mute(self, session: Session, throttle_ms: int) -> None:
        """Read no more requests for this time; of several times that overlap, the last end counts."""
        if self._start(session, throttle_ms):
            session.mute()

    def hold(self, session: Session, throttle_ms: int) -> None:
        """Start no requests of a new session, whose connection is not read yet, for this time."""
        if self._start(session, throttle_ms):
            session.hold()

    def call_later(self, delay_ms: int, action: Callable[[], object]) -> None:
        deadline_ms = self._now_ms() + delay_ms
        self._wheel.add(deadline_ms, action)
        self._arm(deadline_ms)

    def _start(self, session: Session, throttle_ms: int) -> bool:
        """Start the timer of a session, or prolong it; return False if it was muted before."""
        deadline_ms = self._now_ms() + throttle_ms
        timer = session.mute_timer
        was_muted = timer is not None
        if timer is not None:
            if timer.deadline_ms >= deadline_ms:
                return False
            timer.cancel()
        session.mute_timer = timer = Timer(lambda: self._end(session))
        self._wheel.schedule(timer, deadline_ms)
        self._arm(deadline_ms)
        return not was_muted

    def _end(self, session: Session) -> None:
        session.mute_timer = None
        session.release()
