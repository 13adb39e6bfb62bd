"""The fetch sessions of a broker, and their eviction.

Invariant: the cache holds at most ``slots_max`` sessions. Kafka shards its cache to spare a lock; here there
is one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from odradek.model.ids import TopicId
from odradek.ports.entropy import Entropy
from odradek.replication.fetch_sessions.fetch_session import FetchSession
from odradek.replication.fetch_sessions.follower_watches import FollowerWatches
from odradek.timers.purgatory import DelayedOperationPurgatory

SLOTS_MAX: Final = 1000
EVICTION_MS: Final = 120_000
SESSION_ID_MAX: Final = 2**31 - 1


class FetchSessionCache:
    """The fetch sessions of a broker. A full cache evicts, in this order, a session that

    - has been unused for more than ``eviction_ms``;
    - ranks below the new one: followers (privileged) rank above consumers, then more partitions above fewer.
      Sessions younger than ``eviction_ms`` are not evicted, except a consumer's by a follower.
    """

    __slots__ = (
        "_by_all",
        "_by_privileged",
        "_entropy",
        "eviction_ms",
        "evictions",
        "name_of",
        "partition_count",
        "purgatory",
        "sessions",
        "slots_max",
    )

    def __init__(
        self,
        entropy: Entropy,
        name_of: Callable[[TopicId], str | None],
        slots_max: int = SLOTS_MAX,
        eviction_ms: int = EVICTION_MS,
    ) -> None:
        self._entropy = entropy
        self.name_of = name_of
        self.slots_max = slots_max
        self.eviction_ms = eviction_ms
        self.purgatory: DelayedOperationPurgatory | None = None
        """Purgatory of fetches, where followers' sessions are watched; without it all partitions are read."""
        self.evictions = 0
        self.partition_count = 0
        self.sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """Sessions by id, least recently used first."""
        # Heaps of (privileged, size, session id), lowest rank first; outdated entries are skipped.
        self._by_all: list[tuple[bool, int, int]] = []
        self._by_privileged: list[tuple[bool, int, int]] = []

    def __len__(self) -> int:
        return len(self.sessions)

    def maybe_create_session(
        self, size: int, uses_topic_ids: bool, privileged: bool, now_ms: int
    ) -> FetchSession | None:
        """Return a new session for the caller to fill and touch; None if none can be evicted for it."""
        if len(self.sessions) >= self.slots_max and not self._evict_for(privileged, size, now_ms):
            return None
        session_id = 1 + self._entropy.below(SESSION_ID_MAX - 1)
        while session_id in self.sessions:
            session_id = session_id % SESSION_ID_MAX + 1
        session = FetchSession(session_id, privileged, uses_topic_ids, now_ms)
        self.sessions[session_id] = session
        return session

    def watch_follower(self, session: FetchSession) -> None:
        """Watch the partitions of a follower's new session, which is complete."""
        if self.purgatory is not None and session.privileged:
            session.watches = FollowerWatches(session, self.purgatory)

    def record_follower_fetches(self) -> None:
        """Write the times of followers' last fetches into the leaders' states, before ISRs are checked."""
        for session in self.sessions.values():
            if session.watches is not None:
                session.watches.record_fetches()

    def touch(self, session: FetchSession, now_ms: int) -> None:
        """Update a session's last use, cached size and age."""
        session.last_used_ms = now_ms
        self.sessions.move_to_end(session.session_id)
        size = len(session.partitions)
        is_old = now_ms - session.created_ms > self.eviction_ms
        if size != session.cached_size or is_old is not session.is_old:
            self.partition_count += size - max(session.cached_size, 0)
            session.cached_size = size
            session.is_old = is_old
            self._push_evictable(session)

    def _push_evictable(self, session: FetchSession) -> None:
        rank = (session.privileged, session.cached_size, session.session_id)
        for heap, may_evict in (
            (self._by_all, _may_evict_for_consumer),
            (self._by_privileged, _may_evict_for_follower),
        ):
            if len(heap) > 2 * len(self.sessions):
                # Mostly outdated entries: rebuild, so that the heap stays as small as the cache.
                heap[:] = [
                    (cached.privileged, cached.cached_size, cached.session_id)
                    for cached in self.sessions.values()
                    if may_evict(cached)
                ]
                heapify(heap)
            elif may_evict(session):
                heappush(heap, rank)

    def _evict_for(self, privileged: bool, size: int, now_ms: int) -> bool:
        """Evict a session for one of this rank; return False if none may be evicted."""
        if not self.sessions:
            return False
        oldest = next(iter(self.sessions.values()))
        victim = (
            oldest
            if now_ms - oldest.last_used_ms > self.eviction_ms
            else self._evictable_for(privileged, size)
        )
        if victim is None:
            return False
        self.remove(victim)
        self.evictions += 1
        return True

    def _evictable_for(self, privileged: bool, size: int) -> FetchSession | None:
        """Return the lowest-ranked evictable session, if it ranks below a new one of this size."""
        candidate = self._least_valuable(privileged)
        if candidate is None or (privileged, size) <= (candidate.privileged, candidate.cached_size):
            return None
        return candidate

    def _least_valuable(self, for_privileged: bool) -> FetchSession | None:
        heap = self._by_privileged if for_privileged else self._by_all
        may_evict = _may_evict_for_follower if for_privileged else _may_evict_for_consumer
        while heap:
            privileged, size, session_id = heap[0]
            session = self.sessions.get(session_id)
            if (
                session is not None
                and (session.privileged, session.cached_size) == (privileged, size)
                and may_evict(session)
            ):
                return session
            heappop(heap)
        return None

    def remove(self, session: FetchSession) -> None:
        del self.sessions[session.session_id]
        self.partition_count -= session.cached_size
        if session.watches is not None:
            session.watches.close()


def _may_evict_for_consumer(session: FetchSession) -> bool:
    return session.is_old


def _may_evict_for_follower(session: FetchSession) -> bool:
    return session.is_old or not session.privileged
