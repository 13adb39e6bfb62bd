"""When a member must be heard of, and when it has been silent for too long: toward the group and toward us.

A heartbeat is due an interval after the one before it, or a short rest after one that failed. A coordinator
that has not answered for a whole session does not count on this member any more, and may be dead itself. An
application that has not polled for too long is taken for stuck: its partitions are better off with others.
"""

from __future__ import annotations


class Heartbeats:
    """The times of one member. Pure: the present is passed in."""

    def __init__(self, interval_ms: int, session_timeout_ms: int, poll_interval_max_ms: int) -> None:
        self._interval_ms = interval_ms
        self._session_timeout_ms = session_timeout_ms
        self._poll_interval_max_ms = poll_interval_max_ms
        self._due_ms = 0
        self._session_ends_ms = 0
        self._poll_due_ms = 0

    def restart(self, now_ms: int) -> None:
        """The member has (re)joined."""
        self._due_ms = now_ms + self._interval_ms
        self._session_ends_ms = now_ms + self._session_timeout_ms

    def polled(self, now_ms: int) -> None:
        self._poll_due_ms = now_ms + self._poll_interval_max_ms

    def sent(self, now_ms: int) -> None:
        self._due_ms = now_ms + self._interval_ms

    def answered(self, now_ms: int) -> None:
        self._session_ends_ms = now_ms + self._session_timeout_ms

    def failed(self, now_ms: int, rest_ms: int) -> None:
        """Try again soon, not an interval later."""
        self._due_ms = now_ms + rest_ms

    def wait_ms(self, now_ms: int) -> int:
        """Until the next heartbeat."""
        return max(0, self._due_ms - now_ms)

    def patience_ms(self, now_ms: int) -> int:
        """How long an answer may take before the session is over."""
        return max(0, self._session_ends_ms - now_ms)

    def is_session_over(self, now_ms: int) -> bool:
        return now_ms >= self._session_ends_ms

    def poll_wait_ms(self, now_ms: int) -> int:
        """Until the application has not polled for too long."""
        return max(0, self._poll_due_ms - now_ms)

    def is_poll_overdue(self, now_ms: int) -> bool:
        return now_ms >= self._poll_due_ms
