"""Incremental fetch sessions (KIP-227): what a fetcher asked for before and has already been told.

A fetcher that opens a session names all its partitions once; later requests name only what changed, and
answers hold only partitions with something new. A request is one of:

====================  =====================  ==========================================================
session epoch         session id             context
====================  =====================  ==========================================================
-1 (final)            any                    sessionless; a session of that id is closed
0 (initial)           any                    full; a session of that id is closed, a new one is tried for
n > 0                 the session's          incremental, if n is the session's epoch and both sides name
                                             topics the same way (names, or ids since Fetch 13)
====================  =====================  ==========================================================

Invariants: a session's epoch grows by one with every request it serves, so an answer prepared for an older
request is recognised and refused; an entry of a session is replaced, never changed, by a later request;
the cache holds at most ``slots_max`` sessions. Kafka spreads its cache over shards to spare a lock; here it
is one.
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
"""A partition inside a session: topic id and number if the session uses ids, else topic name and number."""


class FetchPartition:
    """One partition of a fetch, as asked for. In a session it also remembers what was answered last.

    ``topic`` is None while the topic's id is unknown here. ``log_start_offset`` is the fetcher's own;
    ``leader_log_start_offset`` what it was last told.
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
    """What was read for one partition of a fetch."""

    __slots__ = (
        "aborted",
        "diverging_end_offset",
        "diverging_epoch",
        "error",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "preferred_replica",
        "records",
        "records_bytes",
        "request",
    )

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
        """Whether the fetcher must hear of this, given what it was told last."""
        told = self.request
        return (
            self.records_bytes > 0
            or self.high_watermark != told.high_watermark
            or self.log_start_offset != told.leader_log_start_offset
            or self.error != _NONE
            or self.preferred_replica != _NO_REPLICA
            or self.diverging_epoch >= 0
        )


class FetchSessionResponse:
    """The head of a fetch response, and the partitions that belong into it."""

    __slots__ = ("error", "results", "session_id")

    def __init__(self, error: ErrorCode, session_id: int, results: list[FetchPartitionData]) -> None:
        self.error = error
        self.session_id = session_id
        self.results = results


class FetchContext:
    """One request under way, without a session: all is read and all is answered."""

    __slots__ = ("error", "partitions")

    def __init__(self, partitions: list[FetchPartition], error: ErrorCode = _NONE) -> None:
        self.partitions = partitions
        self.error = error

    def select(self, results: list[FetchPartitionData]) -> list[FetchPartitionData]:
        """What ``answer`` would send, with nothing changed: for quotas, which need its size first."""
        return results

    def update_and_generate_response(
        self, results: list[FetchPartitionData], now_ms: int
    ) -> FetchSessionResponse:
        """Choose what is sent, and remember it. Call once per request, with one result per partition."""
        return FetchSessionResponse(self.error, NO_SESSION, results)

    def throttled(self) -> FetchSessionResponse:
        """An empty answer for a fetcher over its quota; it is told nothing, so nothing is remembered."""
        return FetchSessionResponse(_NONE, NO_SESSION, [])


class SessionErrorContext(FetchContext):
    """A request whose session is not as it says; which partitions it meant is unknown."""

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
    """A request for all its partitions that would like a session to begin."""

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
        session = self._sessions.begin(len(results), self._uses_topic_ids, self._from_follower, now_ms)
        if session is None:
            return FetchSessionResponse(_NONE, NO_SESSION, results)
        for result in results:
            entry = result.request
            entry.high_watermark = result.high_watermark
            entry.leader_log_start_offset = result.log_start_offset
            session.add(entry)
        self._sessions.touch(session, now_ms)
        return FetchSessionResponse(_NONE, session.session_id, results)


class IncrementalFetchContext(FetchContext):
    """A request in a session: what it named and all it had named before."""

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
            # The session served another request while this one waited: a duplicate, or a confused client.
            return FetchSessionResponse(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.session_id, [])
        news = [result for result in results if result.must_respond()]
        for result in news:
            session.tell(result)
        return FetchSessionResponse(_NONE, session.session_id, news)

    def throttled(self) -> FetchSessionResponse:
        stale = self._session.session_epoch != self._expected_epoch
        error = ErrorCode.INVALID_FETCH_SESSION_EPOCH if stale else _NONE
        return FetchSessionResponse(error, self._session.session_id, [])


class FetchSession:
    """The partitions of one fetcher, in the order in which they are read and answered."""

    __slots__ = (
        "cached_size",
        "created_ms",
        "has_unnamed",
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
        self.has_unnamed = False
        self.cached_size = -1
        self.is_old = False

    def add(self, entry: FetchPartition) -> None:
        """Take a partition in, or its new wishes; its place in the order and what was told of it stay."""
        key = (entry.topic_id if self.uses_topic_ids else entry.topic, entry.partition)
        entry.key = key
        old = self.partitions.get(key)
        if old is not None:
            entry.high_watermark = old.high_watermark
            entry.leader_log_start_offset = old.leader_log_start_offset
            if entry.topic is None:
                entry.topic = old.topic
        if entry.topic is None:
            self.has_unnamed = True
        self.partitions[key] = entry

    def tell(self, result: FetchPartitionData) -> None:
        """Remember what the fetcher is being told."""
        entry = result.request
        # After an error the partition must be sent again once it is well, whatever its watermark is then.
        entry.high_watermark = result.high_watermark if result.error == _NONE else UNKNOWN_OFFSET
        entry.leader_log_start_offset = result.log_start_offset
        if result.records_bytes > 0 and len(self.partitions) > 1:
            # To the end, so that partitions with much data do not starve the others of a bounded answer.
            del self.partitions[entry.key]
            self.partitions[entry.key] = entry

    def find_names(self, name_of: Callable[[TopicId], str | None]) -> None:
        """Ask again for the names of topics that were unknown when they were added."""
        self.has_unnamed = False
        for entry in self.partitions.values():
            if entry.topic is None:
                entry.topic = name_of(entry.topic_id)
                self.has_unnamed = self.has_unnamed or entry.topic is None


class FetchSessionCache:
    """The sessions of a broker. A full cache gives up, in this order of reasons, a session that

    - has been unused for more than ``eviction_ms``;
    - is worth less than the new one: followers' sessions (privileged) before consumers', then the one with
      more partitions. Those younger than ``eviction_ms`` are safe, but for consumers' from followers.
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
        # Heaps of (privileged, size, session id), least worth first; entries that no longer hold are skipped.
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
        """The context of a fetch request. Its partitions, and what is answered, are asked of the context."""
        session = self._sessions.get(session_id)
        if session_epoch in _FULL:
            if session is not None:
                self._remove(session)
            if len(partitions) > 1:
                partitions = _distinct(partitions)
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
        if session.has_unnamed:
            session.find_names(self._name_of)
        return IncrementalFetchContext(session)

    def begin(self, size: int, uses_topic_ids: bool, privileged: bool, now_ms: int) -> FetchSession | None:
        """A new session, which its caller fills and touches; None if the cache is full of better ones."""
        if len(self._sessions) >= self.slots_max and not self._evict_for(privileged, size, now_ms):
            return None
        session_id = 1 + self._entropy.below(_INT32_MAX - 1)
        while session_id in self._sessions:
            session_id = session_id % _INT32_MAX + 1
        session = FetchSession(session_id, privileged, uses_topic_ids, now_ms)
        self._sessions[session_id] = session
        return session

    def touch(self, session: FetchSession, now_ms: int) -> None:
        """Note that a session is in use, how large it is now, and whether it has lost its youth's shelter."""
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        size = len(session.partitions)
        is_old = now_ms - session.created_ms > self.eviction_ms
        if size != session.cached_size or is_old is not session.is_old:
            self.partition_count += size - max(session.cached_size, 0)
            session.cached_size = size
            session.is_old = is_old
            self._list_evictable(session)

    def _list_evictable(self, session: FetchSession) -> None:
        worth = (session.privileged, session.cached_size, session.session_id)
        for heap, may_go in ((self._by_all, _may_go_for_all), (self._by_privileged, _may_go_for_privileged)):
            if len(heap) > 2 * len(self._sessions):
                # Mostly entries that no longer hold: begin anew, so that a heap stays as small as the cache.
                heap[:] = [
                    (each.privileged, each.cached_size, each.session_id)
                    for each in self._sessions.values()
                    if may_go(each)
                ]
                heapify(heap)
            elif may_go(session):
                heappush(heap, worth)

    def _evict_for(self, privileged: bool, size: int, now_ms: int) -> bool:
        """Make room for a session of this worth; False if there is none to be had."""
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        victim = (
            oldest if now_ms - oldest.last_used_ms > self.eviction_ms else self._less_worth(privileged, size)
        )
        if victim is None:
            return False
        self._remove(victim)
        self.evictions += 1
        return True

    def _less_worth(self, privileged: bool, size: int) -> FetchSession | None:
        """The session worth least of those that may go for this one, if it is worth less."""
        least = self._least_worth(privileged)
        if least is None or (privileged, size) <= (least.privileged, least.cached_size):
            return None
        return least

    def _least_worth(self, for_privileged: bool) -> FetchSession | None:
        heap = self._by_privileged if for_privileged else self._by_all
        may_go = _may_go_for_privileged if for_privileged else _may_go_for_all
        while heap:
            privileged, size, session_id = heap[0]
            session = self._sessions.get(session_id)
            if (
                session is not None
                and (session.privileged, session.cached_size) == (privileged, size)
                and may_go(session)
            ):
                return session
            heappop(heap)
        return None

    def _remove(self, session: FetchSession) -> None:
        del self._sessions[session.session_id]
        self.partition_count -= session.cached_size


def _may_go_for_all(session: FetchSession) -> bool:
    return session.is_old


def _may_go_for_privileged(session: FetchSession) -> bool:
    return session.is_old or not session.privileged


def _distinct(partitions: list[FetchPartition]) -> list[FetchPartition]:
    """One entry per partition: of two for the same, the later one, in the place of the earlier."""
    by_key = {(entry.topic_id, entry.topic, entry.partition): entry for entry in partitions}
    return list(by_key.values())
