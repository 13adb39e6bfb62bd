"""Incremental fetch sessions (KIP-227): the partitions of a fetcher, and the last response for each.

A fetcher that opens a session lists all its partitions once; later requests list only what changed, and
responses contain only partitions with something new. A request is one of:

====================  =====================  ==========================================================
session epoch         session id             context
====================  =====================  ==========================================================
-1 (final)            any                    sessionless; a session of that id is closed
0 (initial)           any                    full; a session of that id is closed, a new one is created if
                                             the cache has room
n > 0                 the session's          incremental, if n is the session's epoch and the request
                                             identifies topics as the session does (by name, or by id
                                             since Fetch 13)
====================  =====================  ==========================================================

Invariants: a session's epoch grows by one with every request it serves, so a response prepared for an older
request is recognised and rejected; a later request replaces an entry of a session and never modifies it; the
cache holds at most ``slots_max`` sessions. Kafka shards its cache to spare a lock; here there is one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from odradek.model.errors import ErrorCode
from odradek.model.ids import NO_LEADER_EPOCH, UNKNOWN_OFFSET, TopicId
from odradek.ports.entropy import Entropy
from odradek.ports.files import Part

NO_SESSION: Final = 0
INITIAL_SESSION_EPOCH: Final = 0
FINAL_SESSION_EPOCH: Final = -1
_FULL: Final = (INITIAL_SESSION_EPOCH, FINAL_SESSION_EPOCH)

SLOTS_MAX: Final = 1000
EVICTION_MS: Final = 120_000

_INT32_MAX: Final = 2**31 - 1
_NO_REPLICA: Final = -1
_NONE: Final = ErrorCode.NONE  # looked up once: an enum member costs more than a global

SessionKey = tuple[str | TopicId | None, int]
"""A partition in a session: topic id and partition if the session uses ids, else topic name and partition."""


class FetchPartition:
    """One partition of a fetch request. In a session it also holds the state last sent in a response.

    ``topic`` is None while the topic id is unknown here. ``log_start_offset`` is the fetcher's;
    ``leader_log_start_offset`` is the one last sent to it.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "key",
        "last_fetched_epoch",
        "leader_log_start_offset",
        "log_start_offset",
        "max_bytes",
        "partition",
        "topic",
        "topic_id",
    )

    key: SessionKey

    def __init__(
        self,
        topic: str | None,
        topic_id: TopicId,
        partition: int,
        fetch_offset: int,
        log_start_offset: int,
        max_bytes: int,
        current_leader_epoch: int = NO_LEADER_EPOCH,
        last_fetched_epoch: int = NO_LEADER_EPOCH,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.fetch_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.high_watermark = UNKNOWN_OFFSET
        self.leader_log_start_offset = UNKNOWN_OFFSET


class FetchPartitionData:
    """The result of reading one partition of a fetch. ``log_end_offset`` is set only for followers."""

    __slots__ = (
        "aborted",
        "diverging_end_offset",
        "diverging_epoch",
        "error",
        "high_watermark",
        "last_stable_offset",
        "log_end_offset",
        "log_start_offset",
        "preferred_replica",
        "records",
        "records_bytes",
        "request",
    )

    log_end_offset: int

    def __init__(
        self,
        request: FetchPartition,
        error: ErrorCode,
        high_watermark: int = UNKNOWN_OFFSET,
        last_stable_offset: int = UNKNOWN_OFFSET,
        log_start_offset: int = UNKNOWN_OFFSET,
        records: Part | None = None,
        records_bytes: int = 0,
    ) -> None:
        self.request = request
        self.error = error
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records = records
        self.records_bytes = records_bytes
        self.preferred_replica = _NO_REPLICA
        self.diverging_epoch = NO_LEADER_EPOCH
        self.diverging_end_offset = UNKNOWN_OFFSET
        self.aborted: Sequence[tuple[int, int]] | None = None

    def must_respond(self) -> bool:
        """Return whether the response must include this partition, given the last response."""
        last_response = self.request
        return (
            self.records_bytes > 0
            or self.high_watermark != last_response.high_watermark
            or self.log_start_offset != last_response.leader_log_start_offset
            or self.error != _NONE
            or self.preferred_replica != _NO_REPLICA
            or self.diverging_epoch >= 0
        )


class FetchSessionResponse:
    """Error, session id and partitions of a fetch response."""

    __slots__ = ("error", "results", "session_id")

    def __init__(self, error: ErrorCode, session_id: int, results: list[FetchPartitionData]) -> None:
        self.error = error
        self.session_id = session_id
        self.results = results


class FetchContext:
    """A fetch request without a session: the response contains all its partitions."""

    __slots__ = ("error", "partitions")

    def __init__(self, partitions: list[FetchPartition], error: ErrorCode = _NONE) -> None:
        self.partitions = partitions
        self.error = error

    def select(self, results: list[FetchPartitionData]) -> list[FetchPartitionData]:
        """Return what the response would contain, without changing state: quotas need its size first."""
        return results

    def update_and_generate_response(
        self, results: list[FetchPartitionData], now_ms: int
    ) -> FetchSessionResponse:
        """Choose what is sent, and record it. Call once per request, with one result per partition."""
        return FetchSessionResponse(self.error, NO_SESSION, results)

    def throttled_response(self) -> FetchSessionResponse:
        """Return an empty response for a fetcher over its quota; nothing is recorded as sent."""
        return FetchSessionResponse(_NONE, NO_SESSION, [])


class SessionErrorContext(FetchContext):
    """A request with a wrong session id or epoch; its partitions are unknown."""

    __slots__ = ()

    def __init__(self, error: ErrorCode) -> None:
        super().__init__([], error)

    def select(self, results: list[FetchPartitionData]) -> list[FetchPartitionData]:
        return []

    def update_and_generate_response(
        self, results: list[FetchPartitionData], now_ms: int
    ) -> FetchSessionResponse:
        return FetchSessionResponse(self.error, NO_SESSION, [])


class FullFetchContext(FetchContext):
    """A full fetch request, which asks for a new session."""

    __slots__ = ("_from_follower", "_sessions", "_uses_topic_ids")

    def __init__(
        self,
        sessions: FetchSessionCache,
        partitions: list[FetchPartition],
        uses_topic_ids: bool,
        from_follower: bool,
    ) -> None:
        super().__init__(partitions)
        self._sessions = sessions
        self._uses_topic_ids = uses_topic_ids
        self._from_follower = from_follower

    def update_and_generate_response(
        self, results: list[FetchPartitionData], now_ms: int
    ) -> FetchSessionResponse:
        session = self._sessions.maybe_create_session(
            len(results), self._uses_topic_ids, self._from_follower, now_ms
        )
        if session is None:
            return FetchSessionResponse(_NONE, NO_SESSION, results)
        for result in results:
            entry = result.request
            # A follower does not take over the high watermark with a diverging epoch: it must be sent again.
            entry.high_watermark = result.high_watermark if result.diverging_epoch < 0 else UNKNOWN_OFFSET
            entry.leader_log_start_offset = result.log_start_offset
            session.add(entry)
        self._sessions.touch(session, now_ms)
        return FetchSessionResponse(_NONE, session.session_id, results)


class IncrementalFetchContext(FetchContext):
    """An incremental fetch request: the partitions it lists and all earlier ones of its session."""

    __slots__ = ("_expected_epoch", "_session")

    def __init__(self, session: FetchSession) -> None:
        self.partitions = list(session.partitions.values())
        self.error = _NONE
        self._session = session
        self._expected_epoch = session.session_epoch

    def select(self, results: list[FetchPartitionData]) -> list[FetchPartitionData]:
        if self._session.session_epoch != self._expected_epoch:
            return []
        return [result for result in results if result.must_respond()]

    def update_and_generate_response(
        self, results: list[FetchPartitionData], now_ms: int
    ) -> FetchSessionResponse:
        session = self._session
        if session.session_epoch != self._expected_epoch:
            # The session served another request while this one waited: a duplicate, or a client error.
            return FetchSessionResponse(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.session_id, [])
        changed = [result for result in results if result.must_respond()]
        for result in changed:
            session.update_response_state(result)
        return FetchSessionResponse(_NONE, session.session_id, changed)

    def throttled_response(self) -> FetchSessionResponse:
        stale = self._session.session_epoch != self._expected_epoch
        error = ErrorCode.INVALID_FETCH_SESSION_EPOCH if stale else _NONE
        return FetchSessionResponse(error, self._session.session_id, [])


class FetchSession:
    """The partitions of one fetcher, in the order in which they are read and returned."""

    __slots__ = (
        "cached_size",
        "created_ms",
        "has_unresolved_topics",
        "is_old",
        "last_used_ms",
        "partitions",
        "privileged",
        "session_epoch",
        "session_id",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, privileged: bool, uses_topic_ids: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.session_epoch = INITIAL_SESSION_EPOCH + 1
        self.privileged = privileged
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = self.last_used_ms = now_ms
        self.partitions: dict[SessionKey, FetchPartition] = {}
        self.has_unresolved_topics = False
        self.cached_size = -1
        self.is_old = False

    def add(self, entry: FetchPartition) -> None:
        """Add or update a partition; an update keeps its position and the state last sent."""
        key = (entry.topic_id if self.uses_topic_ids else entry.topic, entry.partition)
        entry.key = key
        known = self.partitions.get(key)
        if known is not None:
            entry.high_watermark = known.high_watermark
            entry.leader_log_start_offset = known.leader_log_start_offset
            if entry.topic is None:
                entry.topic = known.topic
        if entry.topic is None:
            self.has_unresolved_topics = True
        self.partitions[key] = entry

    def update_response_state(self, result: FetchPartitionData) -> None:
        """Record what is being sent to the fetcher."""
        entry = result.request
        # After an error the partition must be sent again once it recovers, whatever its high watermark is;
        # also after a diverging epoch, with which a follower does not take over the high watermark.
        is_usable = result.error == _NONE and result.diverging_epoch < 0
        entry.high_watermark = result.high_watermark if is_usable else UNKNOWN_OFFSET
        entry.leader_log_start_offset = result.log_start_offset
        if result.records_bytes > 0 and len(self.partitions) > 1:
            # To the end, so that partitions with much data do not starve others of a size-limited response.
            del self.partitions[entry.key]
            self.partitions[entry.key] = entry

    def resolve_unknown_topics(self, name_of: Callable[[TopicId], str | None]) -> None:
        """Look up the names of topics whose ids were unknown when they were added."""
        self.has_unresolved_topics = False
        for entry in self.partitions.values():
            if entry.topic is None:
                entry.topic = name_of(entry.topic_id)
                self.has_unresolved_topics = self.has_unresolved_topics or entry.topic is None


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
        "_name_of",
        "_sessions",
        "eviction_ms",
        "evictions",
        "partition_count",
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
        self._name_of = name_of
        self.slots_max = slots_max
        self.eviction_ms = eviction_ms
        self.evictions = 0
        self.partition_count = 0
        # Least recently used first.
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        # Heaps of (privileged, size, session id), lowest rank first; outdated entries are skipped.
        self._by_all: list[tuple[bool, int, int]] = []
        self._by_privileged: list[tuple[bool, int, int]] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def new_context(
        self,
        session_id: int,
        session_epoch: int,
        partitions: list[FetchPartition],
        forgotten: Iterable[SessionKey],
        *,
        uses_topic_ids: bool,
        from_follower: bool,
        now_ms: int,
    ) -> FetchContext:
        """Return the context of a fetch request: its partitions, and how its response is built."""
        session = self._sessions.get(session_id)
        if session_epoch in _FULL:
            if session is not None:
                self._remove(session)
            if len(partitions) > 1:
                partitions = _deduplicate(partitions)
            if session_epoch == FINAL_SESSION_EPOCH:
                return FetchContext(partitions)
            return FullFetchContext(self, partitions, uses_topic_ids, from_follower)
        if session is None:
            return SessionErrorContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.session_epoch != session_epoch:
            return SessionErrorContext(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids is not uses_topic_ids:
            return SessionErrorContext(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        for entry in partitions:
            session.add(entry)
        for key in forgotten:
            session.partitions.pop(key, None)
        if not session.partitions:
            self._remove(session)
            return FetchContext(partitions)
        self.touch(session, now_ms)
        session.session_epoch = session_epoch + 1 if session_epoch < _INT32_MAX else 1
        if session.has_unresolved_topics:
            session.resolve_unknown_topics(self._name_of)
        return IncrementalFetchContext(session)

    def maybe_create_session(
        self, size: int, uses_topic_ids: bool, privileged: bool, now_ms: int
    ) -> FetchSession | None:
        """Return a new session for the caller to fill and touch; None if none can be evicted for it."""
        if len(self._sessions) >= self.slots_max and not self._evict_for(privileged, size, now_ms):
            return None
        session_id = 1 + self._entropy.below(_INT32_MAX - 1)
        while session_id in self._sessions:
            session_id = session_id % _INT32_MAX + 1
        session = FetchSession(session_id, privileged, uses_topic_ids, now_ms)
        self._sessions[session_id] = session
        return session

    def touch(self, session: FetchSession, now_ms: int) -> None:
        """Update a session's last use, cached size and age."""
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
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
            if len(heap) > 2 * len(self._sessions):
                # Mostly outdated entries: rebuild, so that the heap stays as small as the cache.
                heap[:] = [
                    (cached.privileged, cached.cached_size, cached.session_id)
                    for cached in self._sessions.values()
                    if may_evict(cached)
                ]
                heapify(heap)
            elif may_evict(session):
                heappush(heap, rank)

    def _evict_for(self, privileged: bool, size: int, now_ms: int) -> bool:
        """Evict a session for one of this rank; return False if none may be evicted."""
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        victim = (
            oldest
            if now_ms - oldest.last_used_ms > self.eviction_ms
            else self._evictable_for(privileged, size)
        )
        if victim is None:
            return False
        self._remove(victim)
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
            session = self._sessions.get(session_id)
            if (
                session is not None
                and (session.privileged, session.cached_size) == (privileged, size)
                and may_evict(session)
            ):
                return session
            heappop(heap)
        return None

    def _remove(self, session: FetchSession) -> None:
        del self._sessions[session.session_id]
        self.partition_count -= session.cached_size


def _may_evict_for_consumer(session: FetchSession) -> bool:
    return session.is_old


def _may_evict_for_follower(session: FetchSession) -> bool:
    return session.is_old or not session.privileged


def _deduplicate(partitions: list[FetchPartition]) -> list[FetchPartition]:
    """Keep one entry per partition: the last one, at the position of the first."""
    by_key = {(entry.topic_id, entry.topic, entry.partition): entry for entry in partitions}
    return list(by_key.values())
