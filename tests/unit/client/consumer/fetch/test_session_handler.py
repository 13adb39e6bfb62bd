"""A fetch session as its client sees it: what a request names, and what an answer means for the next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.client.consumer.fetch.session_handler import FINAL_EPOCH, FetchSessionHandler, PartitionFetch
from odradek.model.errors import ErrorCode
from odradek.model.ids import ZERO_TOPIC_ID, TopicPartition
from odradek.replication.fetch_session import FetchPartition, FetchPartitionData, FetchSessionCache

A_ID, B_ID, NEW_ID = b"a" * 16, b"b" * 16, b"n" * 16
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def at(offset: int, topic_id: bytes = A_ID) -> PartitionFetch:
    return PartitionFetch(topic_id, offset, 1000, 3)


def opened(*partitions: TopicPartition) -> FetchSessionHandler:
    session = FetchSessionHandler()
    session.request({partition: at(0) for partition in partitions})
    assert session.answered(ErrorCode.NONE, 7, partitions, False)
    return session


def test_the_first_request_names_everything_and_asks_for_a_session() -> None:
    request = FetchSessionHandler().request({A0: at(0), A1: at(5)})
    assert (request.session_id, request.epoch, request.is_full) == (0, 0, True)
    assert list(request.wanted) == [A0, A1]
    assert request.uses_topic_ids


def test_later_requests_name_only_what_changed() -> None:
    session = opened(A0, A1)
    request = session.request({A0: at(9), A1: at(0), B0: at(0, B_ID)})
    assert (request.session_id, request.epoch) == (7, 1)
    assert list(request.wanted) == [A0, B0]
    assert request.forgotten == {}
    assert session.answered(ErrorCode.NONE, 7, [A0], False)
    request = session.request({A1: at(0)})
    assert request.epoch == 2
    assert request.wanted == {}
    assert request.forgotten == {A0: A_ID, B0: B_ID}


def test_a_broker_without_room_is_asked_in_full_each_time() -> None:
    session = FetchSessionHandler()
    session.request({A0: at(0)})
    assert session.answered(ErrorCode.NONE, 0, [A0], False)
    assert session.request({A0: at(0)}).is_full


def test_an_unknown_session_is_not_ended_again() -> None:
    session = opened(A0)
    session.request({A0: at(1)})
    assert not session.answered(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, [], False)
    request = session.request({A0: at(1)})
    assert (request.session_id, request.epoch, list(request.wanted)) == (0, 0, [A0])


def test_after_another_error_or_none_at_all_the_old_session_is_ended_with_a_full_request() -> None:
    for error in (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, None):
        session = opened(A0)
        session.request({A0: at(1)})
        if error is None:
            session.failed()
        else:
            assert not session.answered(error, 7, [], False)
        request = session.request({A0: at(1)})
        assert (request.session_id, request.epoch, list(request.wanted)) == (7, 0, [A0])


def test_an_answer_with_partitions_nobody_asked_for_is_not_used() -> None:
    session = opened(A0)
    session.request({A0: at(1)})
    assert not session.answered(ErrorCode.NONE, 7, [B0], False)
    assert session.request({A0: at(1)}).is_full


def test_a_full_answer_must_hold_all_partitions_unless_it_was_throttled() -> None:
    for throttled in (False, True):
        session = FetchSessionHandler()
        session.request({A0: at(0), A1: at(0)})
        assert not session.answered(ErrorCode.NONE, 7, [] if throttled else [A0], throttled)
        assert session.request({A0: at(0)}).session_id == 0


def test_a_session_that_the_broker_ends_with_its_answer_begins_anew() -> None:
    session = opened(A0)
    session.request({A0: at(1)})
    assert session.answered(ErrorCode.NONE, 0, [A0], False)
    assert session.request({A0: at(1)}).is_full


def test_ids_are_used_only_if_all_are_known_those_to_forget_too() -> None:
    assert not FetchSessionHandler().request({A0: at(0), B0: at(0, ZERO_TOPIC_ID)}).uses_topic_ids
    session = FetchSessionHandler()
    session.request({A0: at(0), B0: at(0, ZERO_TOPIC_ID)})
    session.answered(ErrorCode.NONE, 7, [A0, B0], False)
    assert not session.request({A0: at(0)}).uses_topic_ids
    session.answered(ErrorCode.NONE, 7, [], False)
    assert session.request({A0: at(0)}).uses_topic_ids


def test_a_topic_made_anew_is_named_and_its_old_self_dropped() -> None:
    session = opened(A0)
    request = session.request({A0: at(0, NEW_ID)})
    assert request.wanted == {A0: at(0, NEW_ID)}
    assert request.forgotten == {}
    assert request.replaced == {A0: A_ID}


def test_closing_ends_a_session_if_there_is_one() -> None:
    assert FetchSessionHandler().closing() is None
    closing = opened(A0).closing()
    assert closing is not None
    assert (closing.session_id, closing.epoch) == (7, FINAL_EPOCH)


class Chance:
    def __init__(self) -> None:
        self.drawn = 0

    def below(self, limit: int) -> int:
        self.drawn += 1
        return self.drawn % limit

    def token(self, size_bytes: int) -> bytes:
        raise AssertionError

    def uuid(self) -> bytes:
        raise AssertionError


_wishes = st.dictionaries(st.sampled_from([A0, A1, B0]), st.integers(0, 3), min_size=1)
_fates = st.sampled_from(["answered", "answered", "answered", "lost before", "lost after", "evicted"])


@given(st.lists(st.tuples(_wishes, _fates), max_size=12))
def test_the_broker_reads_exactly_what_the_client_wants_whatever_gets_lost(
    rounds: list[tuple[dict[TopicPartition, int], str]],
) -> None:
    """Law: an answer that the client uses was read for exactly the partitions and offsets it wanted last."""
    ids = {"a": A_ID, "b": B_ID}
    broker = FetchSessionCache(Chance(), lambda topic_id: "a" if topic_id == A_ID else "b")
    session = FetchSessionHandler()
    for wishes, fate in rounds:
        if fate == "evicted":
            broker = FetchSessionCache(Chance(), lambda topic_id: "a" if topic_id == A_ID else "b")
        wanted = {each: at(offset, ids[each.topic]) for each, offset in wishes.items()}
        request = session.request(wanted)
        if fate == "lost before":
            session.failed()
            continue
        context = broker.new_context(
            request.session_id,
            request.epoch,
            [
                FetchPartition(each.topic, how.topic_id, each.partition, how.offset, -1, how.max_bytes)
                for each, how in request.wanted.items()
            ],
            [(topic_id, each.partition) for each, topic_id in request.forgotten.items()],
            uses_topic_ids=True,
            from_follower=False,
            now_ms=0,
        )
        read = {TopicPartition(each.topic or "", each.partition): each for each in context.partitions}
        answer = context.update_and_generate_response(
            [FetchPartitionData(each, ErrorCode.NONE, 5) for each in context.partitions], 0
        )
        if fate == "lost after":
            session.failed()
            continue
        told = [TopicPartition(each.request.topic or "", each.request.partition) for each in answer.results]
        if session.answered(answer.error, answer.session_id, told, False):
            assert {each: how.fetch_offset for each, how in read.items()} == wishes
