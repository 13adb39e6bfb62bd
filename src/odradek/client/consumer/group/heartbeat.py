"""Timers of a member: the next heartbeat, the session timeout, and the poll timeout.

A heartbeat is due one interval after the previous one, or one backoff after a failed one. After a session
timeout without a response the coordinator has expired this member, or is dead itself. An application that
has not polled for ``max.poll.interval.ms`` is taken for stuck, and its partitions should go to others.
"""

from __future__ import annotations


class Heartbeat:
    """Timers of one member. Pure: the time is passed in."""

    def __init__(self, interval_ms: int, session_timeout_ms: int, poll_interval_max_ms: int) -> None:
        self._interval_ms = interval_ms
        self._session_timeout_ms = session_timeout_ms
        self._poll_interval_max_ms = poll_interval_max_ms
        self._due_ms = 0
        self._session_ends_ms = 0
        self._poll_due_ms = 0

    def restart(self, now_ms: int) -> None:
        """Restart the heartbeat interval and the session, after a join."""
        self._due_ms = now_ms + self._interval_ms
        self._session_ends_ms = now_ms + self._session_timeout_ms

    def record_poll(self, now_ms: int) -> None:
        self._poll_due_ms = now_ms + self._poll_interval_max_ms

    def record_sent(self, now_ms: int) -> None:
        self._due_ms = now_ms + self._interval_ms

    def record_response(self, now_ms: int) -> None:
        self._session_ends_ms = now_ms + self._session_timeout_ms

    def record_failure(self, now_ms: int, backoff_ms: int) -> None:
        """Retry after the backoff instead of the interval."""
        self._due_ms = now_ms + backoff_ms

    def time_to_next_heartbeat_ms(self, now_ms: int) -> int:
        return max(0, self._due_ms - now_ms)

    def time_to_session_timeout_ms(self, now_ms: int) -> int:
        return max(0, self._session_ends_ms - now_ms)

    def is_session_expired(self, now_ms: int) -> bool:
        return now_ms >= self._session_ends_ms

    def time_to_poll_timeout_ms(self, now_ms: int) -> int:
        return max(0, self._poll_due_ms - now_ms)

    def is_poll_timeout_expired(self, now_ms: int) -> bool:
        return now_ms >= self._poll_due_ms
