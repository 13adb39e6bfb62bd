"""Detection of data loss, its messages, and the offsets to resume at."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek import OffsetAndMetadata, TopicPartition
from odradek.spark.source.data_loss import (
    Cause,
    LogOffsets,
    batch_losses,
    data_loss_error,
    describe_losses,
    find_losses,
    resume_offsets,
)
from odradek.spark.source.group_commits import commits, topic_ids_of

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def log_offsets(log_start: int, end: int, topic_id: str = "id-1") -> LogOffsets:
    return LogOffsets({"a": topic_id}, {A0: log_start}, {A0: end})


@given(
    log_start=st.integers(0, 100),
    length=st.integers(0, 100),
    start=st.integers(0, 300),
    known=st.sampled_from([None, "id-1"]),
)
def test_no_loss_exactly_if_the_offset_is_within_the_log(log_start, length, start, known) -> None:
    current = log_offsets(log_start, log_start + length)
    losses = find_losses({A0: start}, current, {} if known is None else {"a": known})
    assert (not losses) == (log_start <= start <= log_start + length)


def test_expired_offsets_are_reported_without_a_resume_offset() -> None:
    losses = find_losses({A0: 120}, log_offsets(500, 900), {})
    assert [loss.cause for loss in losses] == [Cause.EXPIRED]
    assert "a-0: offsets 120 to 499 are lost: the log now starts at 500" in describe_losses(losses)
    assert resume_offsets(losses) == {}


def test_recreated_topic_is_known_by_its_id() -> None:
    losses = find_losses({A0: 120}, log_offsets(0, 900, "id-2"), {"a": "id-1"})
    assert [loss.cause for loss in losses] == [Cause.RECREATED]
    assert "topic a was deleted and recreated (its id was id-1 and is id-2)" in describe_losses(losses)
    assert resume_offsets(losses) == {A0: 0}


def test_shorter_log_without_known_id_counts_as_recreated() -> None:
    losses = find_losses({A0: 120}, log_offsets(5, 20), {})
    assert [loss.cause for loss in losses] == [Cause.TRUNCATED]
    assert "the log ends at 20, below the query's offset 120" in describe_losses(losses)
    assert resume_offsets(losses) == {A0: 5}


def test_truncated_log_of_the_same_topic_resumes_at_its_end() -> None:
    assert resume_offsets(find_losses({A0: 120}, log_offsets(5, 20), {"a": "id-1"})) == {A0: 20}


def test_deleted_partition_has_no_resume_offset() -> None:
    losses = find_losses({A0: 1, A1: 12}, log_offsets(0, 5), {})
    assert describe_losses(losses) == "a-1: the partition no longer exists; it had been read up to offset 12"
    assert resume_offsets(losses) == {A1: None}


def test_data_loss_error_has_advice_and_bounded_length() -> None:
    many = {TopicPartition("gone", number): 1 for number in range(500)}
    message = str(data_loss_error(find_losses(many, log_offsets(0, 0), {})))
    assert "failOnDataLoss=false" in message
    assert "new checkpoint" in message
    assert "490 more partitions" in message
    assert len(message) < 2000


def test_batch_query_reports_unavailable_offsets() -> None:
    current = LogOffsets({}, {A0: 10, A1: 0}, {A0: 20, A1: 5})
    assert batch_losses({A0: 10, A1: 0}, {A0: 20, A1: 5}, current) == []
    assert "offsets 3 to 9 are lost" in describe_losses(batch_losses({A0: 3}, {A0: 20}, current))
    assert "a-1: offsets up to 9 are requested, but the log ends at 5" in describe_losses(
        batch_losses({A1: 0}, {A1: 9}, current)
    )
    assert "b-0: the partition no longer exists" in describe_losses(batch_losses({B0: 0}, {B0: 9}, current))
    # Partitions without offsets to read lose nothing.
    assert batch_losses({A0: 3, B0: 9}, {A0: 3, B0: 9}, current) == []


def test_topic_ids_are_committed_as_metadata() -> None:
    committed = commits({A0: 5, A1: 6, B0: 7}, {"a": "id-1"})
    assert set(committed) == {A0, A1}
    assert committed[A1].offset == 6
    assert topic_ids_of({**committed, B0: OffsetAndMetadata(7, "another application's metadata")}) == {
        "a": "id-1"
    }
