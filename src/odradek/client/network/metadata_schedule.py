"""Tracked topics of a client, and the time of its next metadata request.

Metadata is requested when an update was requested, when a topic is new, and when it is older than
``metadata.max.age.ms``; but not before a backoff that grows with each failure and with each response that
changed nothing. The backoff after a response stays short. New topics skip the backoff once.

Pure: times and the backoff are passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

ANSWERED_ATTEMPTS_MAX: Final = 2
"""Attempts that count for the backoff after a response.

With the default backoffs that is 400 ms instead of a second: brokers respond, and a client that waits for
the next leader of a partition hears of it soon after the election.
"""


class MetadataSchedule:
    """Schedule of metadata requests. ``backoff_ms`` gets the number of attempts that changed nothing."""

    def __init__(self, max_age_ms: int, max_idle_ms: int, backoff_ms: Callable[[int], int]) -> None:
        self._max_age_ms = max_age_ms
        self._max_idle_ms = max_idle_ms
        self._backoff_ms = backoff_ms
        self._topics: dict[str, int | None] = {}
        self._new_topics: set[str] = set()
        self._all_topics = False
        self._update_requested = True
        self._is_full_update = True
        self._attempts = 0
        self._expires_at_ms = 0
        self._not_before_ms = 0

    def retains(self, topic: str) -> bool:
        """Return whether metadata of a topic is kept."""
        return self._all_topics or topic in self._topics

    # Tracked topics.

    def track_topics(self, topics: Iterable[str], now_ms: int, *, expires: bool = False) -> bool:
        """Add topics; with ``expires``, until they are idle for long. Return whether any was new."""
        expires_at_ms = now_ms + self._max_idle_ms if expires else None
        added = False
        for topic in topics:
            if topic not in self._topics:
                self._new_topics.add(topic)
                added = True
            elif self._topics[topic] is None:
                continue
            self._topics[topic] = expires_at_ms
        if added:
            self._not_before_ms = now_ms
        return added

    def track_only_topics(self, topics: Iterable[str], now_ms: int) -> bool:
        """Replace the tracked topics. Return whether any was new."""
        kept = dict.fromkeys(topics, None)
        self._topics = {topic: None for topic in self._topics if topic in kept}
        self._new_topics &= kept.keys()
        return self.track_topics(kept, now_ms)

    def track_all_topics(self, enabled: bool, now_ms: int) -> bool:
        """Request all topics, or only the tracked ones again. Return whether that adds topics."""
        adds_topics = enabled and not self._all_topics
        self._all_topics = enabled
        if adds_topics:
            self._update_requested = True
            self._not_before_ms = now_ms
        return adds_topics

    # Requests.

    def request_update(self) -> None:
        """Make an update due after the backoff: metadata may be stale."""
        self._update_requested = True

    def due_at_ms(self) -> int:
        """Return the time of the next request."""
        is_due = self._update_requested or self._new_topics
        return self._not_before_ms if is_due else max(self._expires_at_ms, self._not_before_ms)

    def begin_request(self, now_ms: int) -> list[str] | None:
        """Return the topics to request now; None for all topics."""
        self._expire(now_ms)
        only_new = self._new_topics and not self._update_requested and now_ms < self._expires_at_ms
        self._is_full_update = not only_new
        topics = None if self._all_topics else sorted(self._new_topics if only_new else self._topics)
        self._new_topics = set()
        if self._is_full_update:
            self._update_requested = False
        return topics

    def on_failure(self, now_ms: int) -> None:
        """Request again after the backoff: no response came."""
        self._update_requested = True
        self._back_off(now_ms)

    def on_response(self, now_ms: int, *, is_changed: bool, is_stale: bool) -> None:
        """Schedule the next request after a response; one with stale partitions is requested again."""
        if self._is_full_update:
            self._expires_at_ms = now_ms + self._max_age_ms
        if is_stale:
            self._update_requested = True
        self._attempts = 0 if is_changed else min(self._attempts, ANSWERED_ATTEMPTS_MAX)
        self._back_off(now_ms)

    def _back_off(self, now_ms: int) -> None:
        backoff_ms = self._backoff_ms(self._attempts)
        self._attempts += 1
        # Topics added during the request are requested without backoff.
        self._not_before_ms = now_ms if self._new_topics else now_ms + backoff_ms

    def _expire(self, now_ms: int) -> None:
        expired = [
            topic
            for topic, expires_at_ms in self._topics.items()
            if expires_at_ms is not None and expires_at_ms <= now_ms
        ]
        for topic in expired:
            del self._topics[topic]
            self._new_topics.discard(topic)
