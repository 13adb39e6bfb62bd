"""Fetch sessions: contexts, responses, eviction."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.errors import ErrorCode
from odradek.model.ids import ZERO_TOPIC_ID
from odradek.replication.fetch_sessions.fetch_context import FetchContext, new_context
from odradek.replication.fetch_sessions.fetch_partition import FetchPartition, FetchPartitionData, SessionKey
from odradek.replication.fetch_sessions.fetch_session import (
    FINAL_SESSION_EPOCH,
    INITIAL_SESSION_EPOCH,
    NO_SESSION,
)
from odradek.replication.fetch_sessions.fetch_session_cache import EVICTION_MS, FetchSessionCache

ORDERS, BILLS = b"o" * 16, b"b" * 16
INT32_MAX = 2**31 - 1


class CountingEntropy:
    """Entropy that counts up: session ids 1, 2, 3 …"""

    def __init__(self) -> None:
        self.drawn = 0

    def below(self, limit: int) -> int:
        self.drawn += 1
        return (self.drawn - 1) % limit

    def token(self, size_bytes: int) -> bytes:
        raise AssertionError

    def uuid(self) -> bytes:
        raise AssertionError


class Fetcher:
    """A client with one session, and the cache it talks to."""

    def __init__(self, slots_max: int = 1000, names: dict[bytes, str] | None = None) -> None:
        self.names = {ORDERS: "orders", BILLS: "bills"} if names is None else names
        self.sessions = FetchSessionCache(CountingEntropy(), self.names.get, slots_max)

    def open(
        self,
        session_id: int,
        session_epoch: int,
        entries: Sequence[FetchPartition] = (),
        forgotten: Sequence[SessionKey] = (),
        *,
        ids: bool = True,
        follower: bool = False,
        now_ms: int = 0,
    ) -> FetchContext:
        return new_context(
            self.sessions,
            session_id,
            session_epoch,
            list(entries),
            forgotten,
            uses_topic_ids=ids,
            from_follower=follower,
            now_ms=now_ms,
        )

    def create_session(
        self,
        size: int = 1,
        *,
        follower: bool = False,
        now_ms: int = 0,
        entries: Sequence[FetchPartition] = (),
    ) -> int:
        """Open a session of ``size`` partitions; return its id, or 0."""
        requested = list(entries) or [entry(partition=n) for n in range(size)]
        context = self.open(NO_SESSION, INITIAL_SESSION_EPOCH, requested, follower=follower, now_ms=now_ms)
        return context.update_and_generate_response(
            [result(e) for e in context.partitions], now_ms
        ).session_id


def entry(
    topic_id: bytes = ORDERS, partition: int = 0, offset: int = 0, name: str | None = "orders"
) -> FetchPartition:
    return FetchPartition(name, topic_id, partition, offset, -1, 1024, 3, -1)


def result(
    request: FetchPartition,
    watermark: int = 10,
    start: int = 0,
    size: int = 0,
    error: ErrorCode = ErrorCode.NONE,
) -> FetchPartitionData:
    return FetchPartitionData(request, error, watermark, watermark, start, b"x" * size, size)


def requested(context: FetchContext) -> list[tuple[bytes, int, int]]:
    return [(e.topic_id, e.partition, e.fetch_offset) for e in context.partitions]


def test_sessionless_fetch_returns_all_partitions_and_keeps_no_state() -> None:
    fetcher = Fetcher()
    context = fetcher.open(NO_SESSION, FINAL_SESSION_EPOCH, [entry(), entry(partition=1)])
    assert requested(context) == [(ORDERS, 0, 0), (ORDERS, 1, 0)]
    results = [result(e) for e in context.partitions]
    assert context.select(results) == results
    response = context.update_and_generate_response(results, 0)
    assert (response.error, response.session_id, response.results) == (ErrorCode.NONE, NO_SESSION, results)
    throttled_response = context.throttled_response()
    assert (throttled_response.error, throttled_response.session_id, throttled_response.results) == (
        ErrorCode.NONE,
        NO_SESSION,
        [],
    )
    assert len(fetcher.sessions) == 0


def test_duplicate_partition_uses_last_entry() -> None:
    context = Fetcher().open(0, FINAL_SESSION_EPOCH, [entry(offset=1), entry(partition=1), entry(offset=7)])
    assert requested(context) == [(ORDERS, 0, 7), (ORDERS, 1, 0)]


def test_full_fetch_creates_session_and_returns_all_partitions() -> None:
    fetcher = Fetcher()
    context = fetcher.open(NO_SESSION, INITIAL_SESSION_EPOCH, [entry(), entry(BILLS, name="bills")])
    results = [result(e) for e in context.partitions]
    assert context.select(results) == results
    response = context.update_and_generate_response(results, 0)
    assert (response.error, response.session_id, response.results) == (ErrorCode.NONE, 1, results)
    assert len(fetcher.sessions) == 1
    assert fetcher.sessions.partition_count == 2


def test_throttled_full_fetch_creates_no_session() -> None:
    fetcher = Fetcher()
    context = fetcher.open(NO_SESSION, INITIAL_SESSION_EPOCH, [entry()])
    assert context.throttled_response().session_id == NO_SESSION
    assert len(fetcher.sessions) == 0


def test_incremental_fetch_returns_only_changed_partitions() -> None:
    fetcher = Fetcher()
    session_id = fetcher.create_session(3)
    context = fetcher.open(session_id, 1, [entry(partition=1, offset=5)])
    assert requested(context) == [(ORDERS, 0, 0), (ORDERS, 1, 5), (ORDERS, 2, 0)]
    quiet, moved, data = context.partitions
    results = [result(quiet), result(moved, watermark=11), result(data, size=100)]
    assert context.select(results) == results[1:]
    response = context.update_and_generate_response(results, 0)
    assert (response.error, response.session_id, response.results) == (
        ErrorCode.NONE,
        session_id,
        results[1:],
    )
    again = fetcher.open(session_id, 2)
    changed_again = again.update_and_generate_response([result(e) for e in again.partitions], 0).results
    assert [r.request.partition for r in changed_again] == [1]


def test_partitions_with_data_move_to_the_end() -> None:
    fetcher = Fetcher()
    session_id = fetcher.create_session(3)
    context = fetcher.open(session_id, 1)
    first, second, third = context.partitions
    results = [result(first, size=5), result(second, watermark=99), result(third)]
    context.update_and_generate_response(results, 0)
    assert [e.partition for e in fetcher.open(session_id, 2).partitions] == [1, 2, 0]


def test_select_has_no_side_effects() -> None:
    fetcher = Fetcher()
    session_id = fetcher.create_session(2)
    context = fetcher.open(session_id, 1)
    results = [result(e, watermark=20, size=1) for e in context.partitions]
    assert context.select(results) == context.select(results) == results
    assert context.throttled_response().session_id == session_id
    assert [e.partition for e in fetcher.open(session_id, 2).partitions] == [0, 1]


def changed(**changes: object) -> bool:
    """Return whether a partition last sent with high watermark 10 and start 0 is sent again after changes."""
    fetcher = Fetcher()
    session_id = fetcher.create_session(1)
    context = fetcher.open(session_id, 1)
    data = result(context.partitions[0])
    for name, value in changes.items():
        setattr(data, name, value)
    return context.update_and_generate_response([data], 0).results == [data]


def test_unchanged_partition_is_omitted() -> None:
    assert not changed()
    assert not changed(last_stable_offset=3)


@pytest.mark.parametrize(
    "changes",
    [
        {"records_bytes": 1},
        {"high_watermark": 11},
        {"log_start_offset": 1},
        {"error": ErrorCode.NOT_LEADER_OR_FOLLOWER},
        {"preferred_replica": 0},
        {"diverging_epoch": 0},
    ],
)
def test_each_kind_of_change_is_returned(changes: dict[str, object]) -> None:
    assert changed(**changes)


def test_partition_is_returned_again_after_an_error() -> None:
    fetcher = Fetcher()
    session_id = fetcher.create_session(1)
    context = fetcher.open(session_id, 1)
    context.update_and_generate_response(
        [result(context.partitions[0], error=ErrorCode.KAFKA_STORAGE_ERROR)], 0
    )
    well = fetcher.open(session_id, 2)
    assert len(well.update_and_generate_response([result(well.partitions[0])], 0).results) == 1
    quiet = fetcher.open(session_id, 3)
    assert quiet.update_and_generate_response([result(quiet.partitions[0])], 0).results == []


@pytest.mark.parametrize("is_first", [True, False])
def test_partition_is_returned_again_after_a_diverging_epoch(is_first: bool) -> None:
    fetcher = Fetcher()
    session_id = 1 if is_first else fetcher.create_session(1)
    context = fetcher.open(0, 0, [entry()]) if is_first else fetcher.open(session_id, 1)
    diverging = result(context.partitions[0])
    diverging.diverging_epoch = 0
    session_id = context.update_and_generate_response([diverging], 0).session_id
    equal = fetcher.open(session_id, 1 if is_first else 2)
    assert len(equal.update_and_generate_response([result(equal.partitions[0])], 0).results) == 1


def test_last_sent_state_survives_partition_update() -> None:
    fetcher = Fetcher()
    session_id = fetcher.create_session(1)
    context = fetcher.open(session_id, 1, [entry(offset=4)])
    assert context.update_and_generate_response([result(context.partitions[0])], 0).results == []


def test_request_in_progress_keeps_its_own_entries() -> None:
    fetcher = Fetcher()
    session_id = fetcher.create_session(1)
    first = fetcher.open(session_id, 1, [entry(offset=4)])
    fetcher.open(session_id, 2, [entry(offset=9)])
    assert requested(first) == [(ORDERS, 0, 4)]


def test_forgotten_partitions_are_removed_from_session() -> None:
    fetcher = Fetcher()
    session_id = fetcher.create_session(3)
    context = fetcher.open(session_id, 1, [], [(ORDERS, 1), (BILLS, 0)])
    assert [e.partition for e in context.partitions] == [0, 2]
    assert fetcher.sessions.partition_count == 2


def test_partition_added_and_forgotten_in_one_request_is_removed() -> None:
    fetcher = Fetcher()
    session_id = fetcher.create_session(1)
    context = fetcher.open(session_id, 1, [entry(BILLS, name="bills")], [(BILLS, 0)])
    assert requested(context) == [(ORDERS, 0, 0)]


def test_empty_session_is_closed() -> None:
    fetcher = Fetcher()
    session_id = fetcher.create_session(1)
    context = fetcher.open(session_id, 1, [], [(ORDERS, 0)])
    assert context.update_and_generate_response([], 0).session_id == NO_SESSION
    assert len(fetcher.sessions) == 0
    assert fetcher.sessions.partition_count == 0


@pytest.mark.parametrize("session_epoch", [INITIAL_SESSION_EPOCH, FINAL_SESSION_EPOCH])
def test_full_fetch_closes_the_given_session(session_epoch: int) -> None:
    fetcher = Fetcher()
    session_id = fetcher.create_session(1)
    fetcher.open(session_id, session_epoch, [entry()])
    assert len(fetcher.sessions) == 0
    assert fetcher.open(session_id, 1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def raised(context: FetchContext) -> ErrorCode:
    response = context.update_and_generate_response([result(entry())], 0)
    assert context.partitions == []
    assert context.select([result(entry())]) == response.results == []
    assert response.session_id == NO_SESSION
    assert response.error is context.error
    return response.error


def test_unknown_session_id_is_rejected() -> None:
    fetcher = Fetcher()
    for session_id in (0, 7, -3, INT32_MAX):
        assert raised(fetcher.open(session_id, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("session_epoch", [2, 5, -2, INT32_MAX])
def test_wrong_session_epoch_is_rejected(session_epoch: int) -> None:
    fetcher = Fetcher()
    session_id = fetcher.create_session(1)
    assert raised(fetcher.open(session_id, session_epoch)) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert fetcher.open(session_id, 1).error is ErrorCode.NONE


def test_repeated_session_epoch_is_rejected() -> None:
    fetcher = Fetcher()
    session_id = fetcher.create_session(1)
    fetcher.open(session_id, 1)
    assert raised(fetcher.open(session_id, 1)) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_topic_names_and_ids_cannot_be_mixed_in_a_session() -> None:
    fetcher = Fetcher()
    session_id = fetcher.create_session(1)
    assert raised(fetcher.open(session_id, 1, ids=False)) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    context = fetcher.open(0, 0, [FetchPartition("orders", ZERO_TOPIC_ID, 0, 0, -1, 100)], ids=False)
    by_name = context.update_and_generate_response([result(context.partitions[0])], 0).session_id
    assert raised(fetcher.open(by_name, 1, ids=True)) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert fetcher.open(by_name, 1, ids=False).partitions[0].topic == "orders"


def test_session_by_name_distinguishes_topics_by_name() -> None:
    fetcher = Fetcher()
    entries = [FetchPartition(name, ZERO_TOPIC_ID, 0, 0, -1, 100) for name in ("orders", "bills")]
    context = fetcher.open(0, 0, entries, ids=False)
    session_id = context.update_and_generate_response([result(e) for e in context.partitions], 0).session_id
    later = fetcher.open(session_id, 1, [], [("orders", 0)], ids=False)
    assert [e.topic for e in later.partitions] == ["bills"]


def test_response_for_an_older_session_epoch_is_rejected() -> None:
    fetcher = Fetcher()
    session_id = fetcher.create_session(1)
    slow = fetcher.open(session_id, 1)
    fetcher.open(session_id, 2)
    results = [result(slow.partitions[0], size=9)]
    assert slow.select(results) == []
    for response in (slow.update_and_generate_response(results, 0), slow.throttled_response()):
        assert (response.error, response.session_id, response.results) == (
            ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            session_id,
            [],
        )


def test_session_epoch_wraps_to_one() -> None:
    fetcher = Fetcher()
    session_id = fetcher.create_session(1)
    fetcher.sessions.sessions[session_id].session_epoch = INT32_MAX
    context = fetcher.open(session_id, INT32_MAX)
    assert context.update_and_generate_response([], 0).error is ErrorCode.NONE
    assert fetcher.open(session_id, 1).error is ErrorCode.NONE


def test_unknown_topic_ids_are_resolved_later() -> None:
    fetcher = Fetcher(names={})
    session_id = fetcher.create_session(
        entries=[entry(name=None), entry(BILLS, name=None), entry(ORDERS, 1, name=None)]
    )
    assert [e.topic for e in fetcher.open(session_id, 1).partitions] == [None, None, None]
    fetcher.names[ORDERS] = "orders"
    assert [e.topic for e in fetcher.open(session_id, 2).partitions] == ["orders", None, "orders"]
    # A name once known stays, even if a later request comes at a moment when it is not.
    fetcher.names.clear()
    named = fetcher.open(session_id, 3, [entry(name=None, offset=8)])
    assert [(e.topic, e.fetch_offset) for e in named.partitions] == [("orders", 8), (None, 0), ("orders", 0)]
    fetcher.names[BILLS] = "bills"
    fetcher.open(session_id, 4)
    assert not fetcher.sessions.sessions[session_id].has_unresolved_topics


def test_session_ids_are_unique() -> None:
    fetcher = Fetcher()

    class ConstantEntropy(CountingEntropy):
        def below(self, limit: int) -> int:
            assert limit == INT32_MAX - 1
            return limit - 1

    fetcher.sessions = FetchSessionCache(ConstantEntropy(), fetcher.names.get, 10)
    assert [fetcher.create_session() for _ in range(3)] == [INT32_MAX - 1, INT32_MAX, 1]


# Eviction.


def test_full_cache_of_new_sessions_rejects_consumer_session() -> None:
    fetcher = Fetcher(slots_max=2)
    assert [fetcher.create_session(), fetcher.create_session(), fetcher.create_session(100)] == [
        1,
        2,
        NO_SESSION,
    ]


def test_cache_without_slots_creates_no_sessions() -> None:
    assert Fetcher(slots_max=0).create_session(follower=True) == NO_SESSION


def test_least_recently_used_expired_session_is_evicted_first() -> None:
    fetcher = Fetcher(slots_max=2)
    fetcher.create_session(50)
    fetcher.create_session(1, now_ms=1)
    fetcher.open(1, 1, now_ms=10)
    assert fetcher.create_session(1, now_ms=1 + EVICTION_MS) == NO_SESSION
    assert fetcher.create_session(1, now_ms=2 + EVICTION_MS) == 3
    assert fetcher.open(2, 1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert fetcher.sessions.evictions == 1
    assert fetcher.sessions.partition_count == 51


def test_follower_evicts_new_consumer_session_but_not_new_follower_session() -> None:
    fetcher = Fetcher(slots_max=2)
    fetcher.create_session(5, follower=True)
    fetcher.create_session(100)
    assert fetcher.create_session(1, follower=True) == 3
    assert fetcher.open(2, 1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert fetcher.create_session(100, follower=True) == NO_SESSION


def test_larger_session_evicts_smallest_old_session() -> None:
    fetcher = Fetcher(slots_max=2)
    fetcher.create_session(5)
    fetcher.create_session(3)
    late = EVICTION_MS + 1
    fetcher.open(1, 1, now_ms=late)
    fetcher.open(2, 1, now_ms=late)
    assert fetcher.create_session(3, now_ms=late) == NO_SESSION
    assert fetcher.create_session(4, now_ms=late) == 3
    assert fetcher.open(2, 2).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert fetcher.create_session(5, now_ms=late) == NO_SESSION


def test_consumer_never_evicts_active_follower_session() -> None:
    fetcher = Fetcher(slots_max=1)
    fetcher.create_session(1, follower=True)
    fetcher.open(1, 1, now_ms=EVICTION_MS + 1)
    assert fetcher.create_session(1000, now_ms=EVICTION_MS + 1) == NO_SESSION
    assert fetcher.create_session(2, follower=True, now_ms=EVICTION_MS + 1) == 2


class Model:
    """Kafka's three sorted maps, said as plainly as can be."""

    def __init__(self, slots_max: int) -> None:
        self.slots_max = slots_max
        self.rows: dict[int, dict[str, int]] = {}

    def touch(self, session_id: int, size: int, now_ms: int) -> None:
        row = self.rows[session_id]
        row.update(size=size, used=now_ms, old=now_ms - row["created"] > EVICTION_MS)

    def create_session(self, session_id: int, size: int, privileged: bool, now_ms: int) -> bool:
        if len(self.rows) >= self.slots_max and not self.evict(size, privileged, now_ms):
            return False
        self.rows[session_id] = {"created": now_ms, "privileged": privileged}
        self.touch(session_id, size, now_ms)
        return True

    def evict(self, size: int, privileged: bool, now_ms: int) -> bool:
        oldest = min(self.rows, key=lambda i: self.rows[i]["used"])
        if now_ms - self.rows[oldest]["used"] > EVICTION_MS:
            del self.rows[oldest]
            return True
        worth = [
            (row["privileged"], row["size"], i)
            for i, row in self.rows.items()
            if row["old"] or (privileged and not row["privileged"])
        ]
        if not worth or (privileged, size, 0) < min(worth):
            return False
        del self.rows[min(worth)[2]]
        return True


steps = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.integers(1, 6), st.booleans()),
        st.tuples(st.just("use"), st.integers(0, 30), st.integers(0, 6)),
        st.tuples(st.just("close"), st.integers(0, 30), st.booleans()),
        st.tuples(st.just("wait"), st.integers(1, EVICTION_MS), st.booleans()),
    ),
    max_size=60,
)


@given(st.integers(1, 5), steps)
def test_eviction_matches_reference_model(slots_max: int, plan: list[tuple[str, int, int]]) -> None:
    fetcher, model, now_ms, last = Fetcher(slots_max), Model(slots_max), 0, 0
    for what, amount, extra in plan:
        now_ms += 1  # no two at the same moment: Kafka breaks such ties by session id
        cache = fetcher.sessions.sessions
        if what == "wait":
            now_ms += amount
        elif what == "begin":
            session_id = fetcher.create_session(amount, follower=bool(extra), now_ms=now_ms)
            last = max(last, session_id)
            assert (session_id != NO_SESSION) == model.create_session(session_id, amount, bool(extra), now_ms)
        elif what == "close" and amount in cache:
            fetcher.open(amount, FINAL_SESSION_EPOCH)
            del model.rows[amount]
        elif what == "use" and amount in cache:
            session = cache[amount]
            partitions = [entry(partition=n) for n in range(max(extra, 1))]
            forgotten = [key for key in session.partitions if key[1] >= max(extra, 1)]
            fetcher.open(amount, session.session_epoch, partitions, forgotten, now_ms=now_ms)
            model.touch(amount, max(extra, 1), now_ms)
        assert set(fetcher.sessions.sessions) == set(model.rows)
        assert len(fetcher.sessions) <= slots_max
        assert fetcher.sessions.partition_count == sum(row["size"] for row in model.rows.values())


def test_eviction_heaps_stay_bounded() -> None:
    fetcher = Fetcher(slots_max=3)
    session_id = fetcher.create_session(1)
    for epoch in range(1, 500):
        partitions = [entry(partition=1)] if epoch % 2 else []
        forgotten = [] if epoch % 2 else [(ORDERS, 1)]
        fetcher.open(session_id, epoch, partitions, forgotten, now_ms=epoch * 1000)
    assert len(fetcher.sessions._by_privileged) <= 3
    assert len(fetcher.sessions._by_all) <= 3
