"""Lost records are found, named, and gone on from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek import OffsetAndMetadata, TopicPartition
from odradek.spark.source.data_loss import (
    Cause,
    Sight,
    batch_losses,
    find_losses,
    refusal,
    resume_places,
    words_of,
)
from odradek.spark.source.group_commits import commits, topic_ids_of

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def sight(log_start: int, end: int, topic_id: str = "id-1") -> Sight:
    return Sight({"a": topic_id}, {A0: log_start}, {A0: end})


@given(
    log_start=st.integers(0, 100),
    length=st.integers(0, 100),
    start=st.integers(0, 300),
    known=st.sampled_from([None, "id-1"]),
)
def test_nothing_is_lost_if_and_only_if_the_query_stands_within_the_log(
    log_start, length, start, known
) -> None:
    seen = sight(log_start, log_start + length)
    losses = find_losses({A0: start}, seen, {} if known is None else {"a": known})
    assert (not losses) == (log_start <= start <= log_start + length)


def test_expired_offsets_are_named_and_left_to_the_reader() -> None:
    losses = find_losses({A0: 120}, sight(500, 900), {})
    assert [loss.cause for loss in losses] == [Cause.EXPIRED]
    assert "a-0: offsets 120 to 499 are gone, as the log now starts at 500" in words_of(losses)
    assert resume_places(losses) == {}


def test_a_topic_made_again_is_known_by_its_id_however_long_its_log() -> None:
    losses = find_losses({A0: 120}, sight(0, 900, "id-2"), {"a": "id-1"})
    assert [loss.cause for loss in losses] == [Cause.REMADE]
    assert "topic a was deleted and made again (its id was id-1 and is id-2)" in words_of(losses)
    assert resume_places(losses) == {A0: 0}


def test_without_a_known_id_a_shorter_log_counts_as_another_topic() -> None:
    losses = find_losses({A0: 120}, sight(5, 20), {})
    assert [loss.cause for loss in losses] == [Cause.CUT]
    assert "the log ends at 20, below offset 120" in words_of(losses)
    assert resume_places(losses) == {A0: 5}


def test_the_same_topic_with_a_shorter_log_goes_on_at_its_end() -> None:
    assert resume_places(find_losses({A0: 120}, sight(5, 20), {"a": "id-1"})) == {A0: 20}


def test_a_partition_that_is_gone_has_nowhere_to_go_on() -> None:
    losses = find_losses({A0: 1, A1: 12}, sight(0, 5), {})
    assert words_of(losses) == "a-1: the partition no longer exists; it had been read up to offset 12"
    assert resume_places(losses) == {A1: None}


def test_the_refusal_says_what_to_do_and_does_not_go_on_for_ever() -> None:
    many = {TopicPartition("gone", number): 1 for number in range(500)}
    message = str(refusal(find_losses(many, sight(0, 0), {})))
    assert "failOnDataLoss=false" in message
    assert "new checkpoint" in message
    assert "490 more partitions" in message
    assert len(message) < 2000


def test_a_batch_query_is_told_what_it_cannot_have() -> None:
    seen = Sight({}, {A0: 10, A1: 0}, {A0: 20, A1: 5})
    assert batch_losses({A0: 10, A1: 0}, {A0: 20, A1: 5}, seen) == []
    assert "offsets 3 to 9 are gone" in words_of(batch_losses({A0: 3}, {A0: 20}, seen))
    assert "a-1: offsets up to 9 are asked for, but the log ends at 5" in words_of(
        batch_losses({A1: 0}, {A1: 9}, seen)
    )
    assert "b-0: the partition no longer exists" in words_of(batch_losses({B0: 0}, {B0: 9}, seen))
    # Nothing is read of these, so nothing of them is lost.
    assert batch_losses({A0: 3, B0: 9}, {A0: 3, B0: 9}, seen) == []


def test_ids_of_topics_are_kept_with_committed_offsets() -> None:
    committed = commits({A0: 5, A1: 6, B0: 7}, {"a": "id-1"})
    assert set(committed) == {A0, A1}
    assert committed[A1].offset == 6
    assert topic_ids_of({**committed, B0: OffsetAndMetadata(7, "somebody else's note")}) == {"a": "id-1"}
