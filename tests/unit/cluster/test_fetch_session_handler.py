"""Client side of fetch sessions: contents of requests, and handling of responses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.cluster.fetch_session_handler import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchSessionHandler,
    PartitionFetch,
)
from odradek.model.errors import ErrorCode
from odradek.model.ids import ZERO_TOPIC_ID, TopicPartition
from odradek.replication.fetch_sessions.fetch_context import new_context
from odradek.replication.fetch_sessions.fetch_partition import FetchPartition, FetchPartitionData
from odradek.replication.fetch_sessions.fetch_session_cache import FetchSessionCache

A_ID, B_ID, NEW_ID = b"a" * 16, b"b" * 16, b"n" * 16
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def at(offset: int, topic_id: bytes = A_ID) -> PartitionFetch:
    return PartitionFetch(topic_id, offset, 1000, 3)


def opened(*partitions: TopicPartition) -> FetchSessionHandler:
    session = FetchSessionHandler()
    session.build({partition: at(0) for partition in partitions})
    assert session.handle_response(ErrorCode.NONE, 7, partitions, False)
    return session


def test_first_request_is_full() -> None:
    request = FetchSessionHandler().build({A0: at(0), A1: at(5)})
    assert (request.session_id, request.epoch) == (0, INITIAL_EPOCH)
    assert list(request.to_send) == [A0, A1]
    assert request.uses_topic_ids


def test_incremental_request_contains_changes_only() -> None:
    session = opened(A0, A1)
    request = session.build({A0: at(9), A1: at(0), B0: at(0, B_ID)})
    assert (request.session_id, request.epoch) == (7, 1)
    assert list(request.to_send) == [A0, B0]
    assert request.forgotten == {}
    assert session.handle_response(ErrorCode.NONE, 7, [A0], False)
    request = session.build({A1: at(0)})
    assert request.epoch == 2
    assert request.to_send == {}
    assert request.forgotten == {A0: A_ID, B0: B_ID}


def test_full_requests_without_session_slot() -> None:
    session = FetchSessionHandler()
    session.build({A0: at(0)})
    assert session.handle_response(ErrorCode.NONE, 0, [A0], False)
    assert session.build({A0: at(0)}).epoch == INITIAL_EPOCH


def test_unknown_session_is_not_closed() -> None:
    session = opened(A0)
    session.build({A0: at(1)})
    assert not session.handle_response(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, [], False)
    request = session.build({A0: at(1)})
    assert (request.session_id, request.epoch, list(request.to_send)) == (0, 0, [A0])


def test_full_request_closes_session_after_error() -> None:
    for error in (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, None):
        session = opened(A0)
        session.build({A0: at(1)})
        if error is None:
            session.handle_error()
        else:
            assert not session.handle_response(error, 7, [], False)
        request = session.build({A0: at(1)})
        assert (request.session_id, request.epoch, list(request.to_send)) == (7, 0, [A0])


def test_response_with_unexpected_partitions_is_ignored() -> None:
    session = opened(A0)
    session.build({A0: at(1)})
    assert not session.handle_response(ErrorCode.NONE, 7, [B0], False)
    assert session.build({A0: at(1)}).epoch == INITIAL_EPOCH


def test_full_response_must_contain_all_partitions() -> None:
    for throttled in (False, True):
        session = FetchSessionHandler()
        session.build({A0: at(0), A1: at(0)})
        assert not session.handle_response(ErrorCode.NONE, 7, [] if throttled else [A0], throttled)
        assert session.build({A0: at(0)}).session_id == 0


def test_session_closed_by_broker_is_restarted() -> None:
    session = opened(A0)
    session.build({A0: at(1)})
    assert session.handle_response(ErrorCode.NONE, 0, [A0], False)
    assert session.build({A0: at(1)}).epoch == INITIAL_EPOCH


def test_topic_ids_are_used_only_if_all_are_known() -> None:
    assert not FetchSessionHandler().build({A0: at(0), B0: at(0, ZERO_TOPIC_ID)}).uses_topic_ids
    session = FetchSessionHandler()
    session.build({A0: at(0), B0: at(0, ZERO_TOPIC_ID)})
    session.handle_response(ErrorCode.NONE, 7, [A0, B0], False)
    assert not session.build({A0: at(0)}).uses_topic_ids
    session.handle_response(ErrorCode.NONE, 7, [], False)
    assert session.build({A0: at(0)}).uses_topic_ids


def test_recreated_topic_is_sent_and_replaced() -> None:
    session = opened(A0)
    request = session.build({A0: at(0, NEW_ID)})
    assert request.to_send == {A0: at(0, NEW_ID)}
    assert request.forgotten == {}
    assert request.replaced == {A0: A_ID}


def test_build_close() -> None:
    assert FetchSessionHandler().build_close() is None
    request = opened(A0).build_close()
    assert request is not None
    assert (request.session_id, request.epoch) == (7, FINAL_EPOCH)


class CountingEntropy:
    def __init__(self) -> None:
        self.drawn = 0

    def below(self, limit: int) -> int:
        self.drawn += 1
        return self.drawn % limit

    def token(self, size_bytes: int) -> bytes:
        raise AssertionError

    def uuid(self) -> bytes:
        raise AssertionError


_offsets = st.dictionaries(st.sampled_from([A0, A1, B0]), st.integers(0, 3), min_size=1)
_outcomes = st.sampled_from(["response", "response", "response", "request lost", "response lost", "evicted"])


@given(st.lists(st.tuples(_offsets, _outcomes), max_size=12))
def test_session_agrees_with_broker_after_losses(
    rounds: list[tuple[dict[TopicPartition, int], str]],
) -> None:
    """A response that the client uses was read for exactly the partitions and offsets it sent last."""
    ids = {"a": A_ID, "b": B_ID}
    broker = FetchSessionCache(CountingEntropy(), lambda topic_id: "a" if topic_id == A_ID else "b")
    session = FetchSessionHandler()
    for offsets, outcome in rounds:
        if outcome == "evicted":
            broker = FetchSessionCache(CountingEntropy(), lambda topic_id: "a" if topic_id == A_ID else "b")
        fetches = {partition: at(offset, ids[partition.topic]) for partition, offset in offsets.items()}
        request = session.build(fetches)
        if outcome == "request lost":
            session.handle_error()
            continue
        context = new_context(
            broker,
            request.session_id,
            request.epoch,
            [
                FetchPartition(
                    partition.topic, fetch.topic_id, partition.partition, fetch.offset, -1, fetch.max_bytes
                )
                for partition, fetch in request.to_send.items()
            ],
            [(topic_id, partition.partition) for partition, topic_id in request.forgotten.items()],
            uses_topic_ids=True,
            from_follower=False,
            now_ms=0,
        )
        read = {
            TopicPartition(partition.topic or "", partition.partition): partition.fetch_offset
            for partition in context.partitions
        }
        response = context.update_and_generate_response(
            [FetchPartitionData(partition, ErrorCode.NONE, 5) for partition in context.partitions], 0
        )
        if outcome == "response lost":
            session.handle_error()
            continue
        partitions = [
            TopicPartition(result.request.topic or "", result.request.partition)
            for result in response.results
        ]
        if session.handle_response(response.error, response.session_id, partitions, False):
            assert read == offsets
