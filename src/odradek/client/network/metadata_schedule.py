"""Which topics a client wants to know about, and when metadata is due.

Metadata is asked for when somebody wants it, when new topics came into use, and when it is old; but not again
before a rest that grows with each failure, and with each answer that told nothing new. Topics that just came
into use do not wait for that rest, once.

Pure: times are passed in, and so is how long to rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable


class MetadataSchedule:
    """``rest_ms`` gives the rest after a number of fruitless attempts before this one."""

    def __init__(self, age_max_ms: int, idle_max_ms: int, rest_ms: Callable[[int], int]) -> None:
        self._age_max_ms = age_max_ms
        self._idle_max_ms = idle_max_ms
        self._rest_ms = rest_ms
        self._topics: dict[str, int | None] = {}
        self._new: set[str] = set()
        self._wants_all = False
        self._is_wanted = True
        self._is_whole = True
        self._fruitless = 0
        self._old_at_ms = 0
        self._not_before_ms = 0

    @property
    def wants_all(self) -> bool:
        """Whether all topics are asked for, not those in use alone."""
        return self._wants_all

    def wants(self, topic: str) -> bool:
        return self._wants_all or topic in self._topics

    # What is in use.

    def follow(self, topics: Iterable[str], now_ms: int, *, expires: bool = False) -> bool:
        """Add topics; with ``expires``, until they are not named for long. Says whether any was new."""
        until_ms = now_ms + self._idle_max_ms if expires else None
        added = False
        for topic in topics:
            if topic not in self._topics:
                self._new.add(topic)
                added = True
            elif self._topics[topic] is None:
                continue
            self._topics[topic] = until_ms
        if added:
            self._not_before_ms = now_ms
        return added

    def track_only_topics(self, topics: Iterable[str], now_ms: int) -> bool:
        """Replace what is in use. Says whether any was new."""
        kept = dict.fromkeys(topics, None)
        self._topics = {topic: None for topic in self._topics if topic in kept}
        self._new &= kept.keys()
        return self.follow(kept, now_ms)

    def track_all_topics(self, wanted: bool, now_ms: int) -> bool:
        """Ask for all topics, or again for those in use alone. Says whether that is more than before."""
        more = wanted and not self._wants_all
        self._wants_all = wanted
        if more:
            self._is_wanted = True
            self._not_before_ms = now_ms
        return more

    # When to ask.

    def request(self) -> None:
        """Somebody has reason to think that metadata is not what it was."""
        self._is_wanted = True

    def due_at_ms(self) -> int:
        """When to ask next."""
        soon = self._is_wanted or self._new
        return self._not_before_ms if soon else max(self._old_at_ms, self._not_before_ms)

    def begin(self, now_ms: int) -> list[str] | None:
        """Ask now: the topics to ask about; None for all of them."""
        self._expire(now_ms)
        only_new = self._new and not self._is_wanted and now_ms < self._old_at_ms
        self._is_whole = not only_new
        asked = None if self._wants_all else sorted(self._new if only_new else self._topics)
        self._new = set()
        if self._is_whole:
            self._is_wanted = False
        return asked

    def fail(self, now_ms: int) -> None:
        """No answer came: what was asked is still wanted."""
        self._is_wanted = True
        self._rest(now_ms)

    def answer(self, now_ms: int, *, is_news: bool, is_unsettled: bool) -> None:
        """An answer came; an unsettled one is asked for again."""
        if self._is_whole:
            self._old_at_ms = now_ms + self._age_max_ms
        if is_unsettled:
            self._is_wanted = True
        if is_news:
            self._fruitless = 0
        self._rest(now_ms)

    def _rest(self, now_ms: int) -> None:
        rest_ms = self._rest_ms(self._fruitless)
        self._fruitless += 1
        # Topics that came into use meanwhile are asked about at once.
        self._not_before_ms = now_ms if self._new else now_ms + rest_ms

    def _expire(self, now_ms: int) -> None:
        gone = [
            topic for topic, until_ms in self._topics.items() if until_ms is not None and until_ms <= now_ms
        ]
        for topic in gone:
            del self._topics[topic]
            self._new.discard(topic)
