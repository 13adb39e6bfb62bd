"""CommitOffsetsResult offsets: what counts for a partition is the last record that nothing speaks against."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinators.groups.commands import FetchedOffset, OffsetAndMetadata
from odradek.coordinators.groups.committed_offsets import CommittedOffsets
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition

P, Q = TopicPartition("orders", 0), TopicPartition("orders", 1)
NONE = ErrorCode.NONE


def at(offset: int, expire_ms: int | None = None) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, 3, "seen", 1_000, expire_ms)


def fetched(
    offsets: CommittedOffsets, partition: TopicPartition = P, *, stable: bool = False
) -> tuple[Any, int]:
    found = offsets.fetch([partition], require_stable=stable)[partition]
    return found.error, found.offset


def test_what_was_committed_last_is_fetched_with_all_that_came_with_it() -> None:
    offsets = CommittedOffsets()
    offsets.apply(P, at(1))
    offsets.apply(P, at(2))
    assert offsets.fetch([P, Q], require_stable=False) == {
        P: FetchedOffset(NONE, 2, 3, "seen"),
        Q: FetchedOffset(NONE, -1, -1, ""),
    }
    assert list(offsets.fetch(None, require_stable=False)) == [P]


def test_an_offset_of_a_transaction_counts_once_that_is_committed() -> None:
    for commits, expected in ((True, 2), (False, 1)):
        offsets = CommittedOffsets()
        offsets.apply(P, at(1))
        offsets.apply(P, at(2), 7)
        assert fetched(offsets) == (NONE, 1)
        assert fetched(offsets, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        assert fetched(offsets, Q, stable=True) == (NONE, -1)
        offsets.end_transaction(8, commits=True)
        assert fetched(offsets) == (NONE, 1)
        offsets.end_transaction(7, commits=commits)
        assert fetched(offsets, stable=True) == (NONE, expected)


def test_a_transaction_that_ends_late_does_not_bring_back_what_is_older() -> None:
    offsets = CommittedOffsets()
    offsets.apply(P, at(1), 7)
    offsets.apply(P, at(2), 8)
    offsets.apply(Q, at(3), 7)
    offsets.apply(Q, at(4))
    offsets.end_transaction(8, commits=True)
    offsets.end_transaction(7, commits=True)
    assert (fetched(offsets), fetched(offsets, Q)) == ((NONE, 2), (NONE, 4))


def test_a_deleted_offset_does_not_come_back_with_a_transaction_that_wrote_before() -> None:
    offsets = CommittedOffsets()
    offsets.apply(P, at(1), 7)
    offsets.apply(P, None)
    offsets.apply(Q, at(2), 7)
    offsets.end_transaction(7, commits=True)
    assert (fetched(offsets), fetched(offsets, Q)) == ((NONE, -1), (NONE, 2))


def test_a_transaction_can_take_back_what_it_wrote() -> None:
    offsets = CommittedOffsets()
    offsets.apply(P, at(1))
    offsets.apply(P, at(2), 7)
    offsets.apply(P, None, 7)
    assert fetched(offsets, stable=True) == (NONE, 1)


def test_what_is_under_way_is_unstable_and_known_until_the_last_of_it_ended() -> None:
    offsets = CommittedOffsets()
    assert offsets.is_empty
    offsets.begin([P])
    offsets.begin([P])
    offsets.end([P])
    assert fetched(offsets, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert fetched(offsets) == (NONE, -1)
    assert offsets.known() == {P} == offsets.known_among(frozenset({P, Q}))
    assert not offsets.is_empty
    offsets.end([P])
    assert offsets.is_empty


# The law.

partitions = st.sampled_from([P, Q])
producers = st.sampled_from([5, 6])
Step = tuple[Any, ...]
histories = st.lists(
    st.one_of(
        st.tuples(st.just("write"), partitions, st.sampled_from([-1, 5, 6])),
        st.tuples(st.just("write"), partitions, st.sampled_from([-1, 5, 6])),
        st.tuples(st.just("end"), producers, st.sampled_from([True, True, False])),
        st.tuples(st.just("delete"), partitions),
    ),
    min_size=8,
    max_size=30,
)


def play(history: list[tuple[int, Step]]) -> CommittedOffsets:
    offsets = CommittedOffsets()
    for place, step in history:
        match step:
            case ("write", partition, producer_id):
                offsets.apply(partition, at(place), producer_id)
            case ("delete", partition):
                offsets.apply(partition, None)
            case ("end", producer_id, commits):
                offsets.end_transaction(producer_id, commits=commits)
    return offsets


def counting(history: list[tuple[int, Step]]) -> list[tuple[int, Step]]:
    """Records but for those of transactions that are open or were aborted."""
    found = []
    for index, (place, step) in enumerate(history):
        if step[0] == "end":
            continue
        producer_id = step[2] if step[0] == "write" else -1
        ends = (later[2] for _, later in history[index:] if later[:2] == ("end", producer_id))
        if producer_id == -1 or next(ends, False):
            found.append((place, step))
    return found


def durable(offsets: CommittedOffsets) -> dict[TopicPartition, int]:
    return {partition: offset.offset for partition, offset in offsets}


@given(histories)
def test_the_last_record_counts_but_for_open_and_aborted_transactions(steps: list[Step]) -> None:
    history = list(enumerate(steps))
    expected = {}
    for partition in (P, Q):
        last = [(place, step) for place, step in counting(history) if step[1] == partition][-1:]
        if last and last[0][1][0] == "write":
            expected[partition] = last[0][0]
    assert durable(play(history)) == expected


@given(histories, st.booleans())
def test_a_load_after_compaction_gives_the_same(steps: list[Step], drops_tombstones: bool) -> None:
    """Compaction goes up to the first record of an open transaction."""
    history = list(enumerate(steps))
    open_from = len(history)
    for place, step in history:
        ends = [one for _, one in history[place:] if one[0] == "end" and one[1] == step[-1]]
        if step[0] == "write" and step[2] != -1 and not ends:
            open_from = min(open_from, place)
    last: dict[TopicPartition, int] = {}
    for place, step in counting(history):
        if place < open_from:
            last[step[1]] = place
    compacted = [
        (place, step)
        for place, step in history
        if place >= open_from
        or step[0] == "end"
        or (last.get(step[1]) == place and not (drops_tombstones and step[0] == "delete"))
    ]
    assert durable(play(compacted)) == durable(play(history))
