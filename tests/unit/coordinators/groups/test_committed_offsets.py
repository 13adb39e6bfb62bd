"""Committed offsets: the last record of a partition wins, except in open and aborted transactions."""

from __future__ import annotations

from collections.abc import Iterator
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
    offset = offsets.fetch([partition], require_stable=stable)[partition]
    return offset.error, offset.offset


def test_fetch_returns_the_last_commit_with_epoch_and_metadata() -> None:
    offsets = CommittedOffsets()
    offsets.replay(P, at(1))
    offsets.replay(P, at(2))
    assert offsets.fetch([P, Q], require_stable=False) == {
        P: FetchedOffset(NONE, 2, 3, "seen"),
        Q: FetchedOffset(NONE, -1, -1, ""),
    }
    assert list(offsets.fetch(None, require_stable=False)) == [P]


def test_transactional_offset_takes_effect_when_the_transaction_commits() -> None:
    for commits, expected in ((True, 2), (False, 1)):
        offsets = CommittedOffsets()
        offsets.replay(P, at(1))
        offsets.replay(P, at(2), 7)
        assert fetched(offsets) == (NONE, 1)
        assert fetched(offsets, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        assert fetched(offsets, Q, stable=True) == (NONE, -1)
        offsets.end_transaction(8, commits=True)
        assert fetched(offsets) == (NONE, 1)
        offsets.end_transaction(7, commits=commits)
        assert fetched(offsets, stable=True) == (NONE, expected)


def test_late_transaction_does_not_override_a_newer_commit() -> None:
    offsets = CommittedOffsets()
    offsets.replay(P, at(1), 7)
    offsets.replay(P, at(2), 8)
    offsets.replay(Q, at(3), 7)
    offsets.replay(Q, at(4))
    offsets.end_transaction(8, commits=True)
    offsets.end_transaction(7, commits=True)
    assert (fetched(offsets), fetched(offsets, Q)) == ((NONE, 2), (NONE, 4))


def test_late_transaction_does_not_restore_a_deleted_offset() -> None:
    offsets = CommittedOffsets()
    offsets.replay(P, at(1), 7)
    offsets.replay(P, None)
    offsets.replay(Q, at(2), 7)
    offsets.end_transaction(7, commits=True)
    assert (fetched(offsets), fetched(offsets, Q)) == ((NONE, -1), (NONE, 2))


def test_transaction_can_delete_its_own_offset() -> None:
    offsets = CommittedOffsets()
    offsets.replay(P, at(1))
    offsets.replay(P, at(2), 7)
    offsets.replay(P, None, 7)
    assert fetched(offsets, stable=True) == (NONE, 1)


def test_pending_commits_make_an_offset_unstable_until_all_complete() -> None:
    offsets = CommittedOffsets()
    assert offsets.is_empty
    offsets.add_pending([P])
    offsets.add_pending([P])
    offsets.remove_pending([P])
    assert fetched(offsets, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert fetched(offsets) == (NONE, -1)
    assert offsets.partitions() == {P} == offsets.partitions_among(frozenset({P, Q}))
    assert not offsets.is_empty
    offsets.remove_pending([P])
    assert offsets.is_empty


# Histories.

partitions = st.sampled_from([P, Q])
producers = st.sampled_from([5, 6])
Step = tuple[Any, ...]
write_steps = st.tuples(st.just("write"), partitions, st.sampled_from([-1, 5, 6]))
end_steps = st.tuples(st.just("end"), producers, st.sampled_from([True, True, False]))
delete_steps = st.tuples(st.just("delete"), partitions)
histories = st.lists(st.one_of(*[write_steps] * 4, *[end_steps] * 2, delete_steps), min_size=20, max_size=30)
"""Long enough that transactions overlap, with few deletes, which hide what was written before."""


def replay_history(history: list[tuple[int, Step]]) -> CommittedOffsets:
    offsets = CommittedOffsets()
    for position, step in history:
        match step:
            case ("write", partition, producer_id):
                offsets.replay(partition, at(position), producer_id)
            case ("delete", partition):
                offsets.replay(partition, None)
            case ("end", producer_id, commits):
                offsets.end_transaction(producer_id, commits=commits)
    return offsets


def effective_records(history: list[tuple[int, Step]]) -> list[tuple[int, Step]]:
    """Return all records except those of open and aborted transactions."""
    records = []
    for index, (position, step) in enumerate(history):
        if step[0] == "end":
            continue
        producer_id = step[2] if step[0] == "write" else -1
        ends = (later[2] for _, later in history[index:] if later[:2] == ("end", producer_id))
        if producer_id == -1 or next(ends, False):
            records.append((position, step))
    return records


def durable(offsets: CommittedOffsets) -> dict[TopicPartition, int]:
    return {partition: offset.offset for partition, offset in offsets}


def prefixes(steps: list[Step]) -> Iterator[list[tuple[int, Step]]]:
    """Return the history up to each step: at its end, later records hide the effect of earlier ones."""
    history = list(enumerate(steps))
    return (history[:length] for length in range(1, len(history) + 1))


@given(histories)
def test_last_record_wins_except_open_and_aborted_transactions(steps: list[Step]) -> None:
    for history in prefixes(steps):
        last = {step[1]: (position, step[0]) for position, step in effective_records(history)}
        expected = {partition: position for partition, (position, kind) in last.items() if kind == "write"}
        assert durable(replay_history(history)) == expected


@given(histories, st.booleans())
def test_load_after_compaction_gives_the_same_offsets(steps: list[Step], drops_tombstones: bool) -> None:
    for history in prefixes(steps):
        compacted = compact(history, drops_tombstones=drops_tombstones)
        assert durable(replay_history(compacted)) == durable(replay_history(history))


def compact(history: list[tuple[int, Step]], *, drops_tombstones: bool) -> list[tuple[int, Step]]:
    """Compact up to the first record of an open transaction."""
    open_from = len(history)
    for position, step in history:
        ends = [later for _, later in history[position:] if later[:2] == ("end", step[-1])]
        if step[0] == "write" and step[2] != -1 and not ends:
            open_from = min(open_from, position)
    last = {step[1]: position for position, step in effective_records(history) if position < open_from}
    return [
        (position, step)
        for position, step in history
        if position >= open_from
        or step[0] == "end"
        or (last.get(step[1]) == position and not (drops_tombstones and step[0] == "delete"))
    ]
