"""The context of a fetch request: its partitions, and how its response is built (KIP-227).

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
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from odradek.model.errors import ErrorCode
from odradek.model.ids import UNKNOWN_OFFSET
from odradek.replication.fetch_sessions.fetch_partition import FetchPartition, FetchPartitionData, SessionKey
from odradek.replication.fetch_sessions.fetch_session import (
    FINAL_SESSION_EPOCH,
    INITIAL_SESSION_EPOCH,
    NO_SESSION,
    FetchSession,
)
from odradek.replication.fetch_sessions.fetch_session_cache import FetchSessionCache
from odradek.replication.fetch_sessions.follower_watches import FollowerWatches

_FULL: Final = (INITIAL_SESSION_EPOCH, FINAL_SESSION_EPOCH)
_INT32_MAX: Final = 2**31 - 1
_NONE: Final = ErrorCode.NONE  # looked up once: an enum member costs more than a global


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

    watches: FollowerWatches | None = None
    """Set if only changed partitions of a follower's session are read."""

    def __init__(self, partitions: list[FetchPartition], error: ErrorCode = _NONE) -> None:
        self.partitions = partitions
        self.error = error

    @property
    def is_current(self) -> bool:
        """False if the session has served another request meanwhile."""
        return True

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
        self._sessions.watch_follower(session)
        return FetchSessionResponse(_NONE, session.session_id, results)


class IncrementalFetchContext(FetchContext):
    """An incremental fetch request: the partitions it lists and all earlier ones of its session.

    Of a follower's session, ``partitions`` are those that must be read.
    """

    __slots__ = ("_expected_epoch", "_session", "watches")

    def __init__(self, session: FetchSession) -> None:
        self.watches = watches = session.watches
        self.partitions = list(session.partitions.values()) if watches is None else watches.take_pending()
        self.error = _NONE
        self._session = session
        self._expected_epoch = session.session_epoch

    @property
    def is_current(self) -> bool:
        return self._session.session_epoch == self._expected_epoch

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


def new_context(
    cache: FetchSessionCache,
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
    session = cache.sessions.get(session_id)
    if session_epoch in _FULL:
        if session is not None:
            cache.remove(session)
        if len(partitions) > 1:
            partitions = _deduplicate(partitions)
        if session_epoch == FINAL_SESSION_EPOCH:
            return FetchContext(partitions)
        return FullFetchContext(cache, partitions, uses_topic_ids, from_follower)
    if session is None:
        return SessionErrorContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    if session.session_epoch != session_epoch:
        return SessionErrorContext(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    if session.uses_topic_ids is not uses_topic_ids:
        return SessionErrorContext(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
    for entry in partitions:
        session.add(entry)
    for key in forgotten:
        session.forget(key)
    if not session.partitions:
        cache.remove(session)
        return FetchContext(partitions)
    cache.touch(session, now_ms)
    session.session_epoch = session_epoch + 1 if session_epoch < _INT32_MAX else 1
    if session.has_unresolved_topics:
        session.resolve_unknown_topics(cache.name_of)
    return IncrementalFetchContext(session)


def _deduplicate(partitions: list[FetchPartition]) -> list[FetchPartition]:
    """Keep one entry per partition: the last one, at the position of the first."""
    by_key = {(entry.topic_id, entry.topic, entry.partition): entry for entry in partitions}
    return list(by_key.values())
