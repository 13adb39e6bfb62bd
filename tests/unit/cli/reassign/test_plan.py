"""Proposals and moves of ``odradek reassign``."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cli.errors import CommandFailed
from odradek.cli.reassign.plan import Move, check_live, plan_moves, propose, select_brokers
from odradek.cli.reassign.rows import move_rows, summary_line
from odradek.cluster.replica_assignment import BrokerRack
from odradek.model.ids import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
RACKS = {1: "x", 2: "y", 3: "x", 4: "y"}


def start_at_first(limit: int) -> int:
    return 0


def brokers(*ids: int) -> list[BrokerRack]:
    return [BrokerRack(broker) for broker in ids]


def test_partitions_are_placed_as_when_topics_are_created() -> None:
    current = {A0: (1, 2), A1: (1, 2), B0: (2,)}
    proposed = propose(current, brokers(3, 4, 5), start_at_first)
    assert proposed == {A0: (3, 4), A1: (4, 5), B0: (3,)}


def test_each_topic_starts_at_a_drawn_broker() -> None:
    draws = iter([1, 0, 2, 0])
    limits = []

    def below(limit: int) -> int:
        limits.append(limit)
        return next(draws)

    assert propose({A0: (1,), B0: (1,)}, brokers(1, 2, 3), below) == {A0: (2,), B0: (3,)}
    assert limits == [3, 3, 3, 3]


def test_replication_factor_can_change() -> None:
    proposed = propose({A0: (1, 2, 3), A1: (2, 3, 1)}, brokers(1, 2), start_at_first, replication_factor=2)
    assert proposed == {A0: (1, 2), A1: (2, 1)}


def test_too_few_brokers_are_reported_with_the_topic() -> None:
    with pytest.raises(CommandFailed, match=r"topic a: .*at most the number of brokers \(2\), got 3"):
        propose({A0: (1, 2, 3)}, brokers(1, 2), start_at_first)


@given(
    partitions=st.integers(1, 30),
    factor=st.integers(1, 3),
    ids=st.lists(st.integers(0, 50), min_size=3, max_size=6, unique=True),
    draw=st.integers(0, 5),
)
def test_leaders_are_even_and_replicas_distinct(
    partitions: int, factor: int, ids: list[int], draw: int
) -> None:
    current = {TopicPartition("a", number): tuple(range(factor)) for number in range(partitions)}
    proposed = propose(current, brokers(*ids), lambda limit: draw % limit)
    assert proposed.keys() == current.keys()
    assert all(len(set(replicas)) == factor for replicas in proposed.values())
    assert {replica for replicas in proposed.values() for replica in replicas} <= set(ids)
    leaders = Counter(replicas[0] for replicas in proposed.values())
    counts = [leaders[broker] for broker in ids]
    assert max(counts) - min(counts) <= 1


def test_replicas_are_in_different_racks() -> None:
    selected = select_brokers([1, 2, 3, 4], RACKS, is_rack_aware=True)
    proposed = propose({A0: (1, 3), A1: (3, 1)}, selected, start_at_first)
    assert all({RACKS[replica] for replica in replicas} == {"x", "y"} for replicas in proposed.values())


def test_racks_are_ignored_on_request() -> None:
    partly: dict[int, str | None] = {1: "x", 2: None}
    assert select_brokers([2, 1], partly, is_rack_aware=False) == brokers(2, 1)
    with pytest.raises(CommandFailed, match="all brokers or none must have a rack, got none for 2"):
        select_brokers([1, 2], partly, is_rack_aware=True)


def test_brokers_must_be_live_and_distinct() -> None:
    with pytest.raises(CommandFailed, match="--broker-list must name each broker once, got 1 twice"):
        select_brokers([1, 2, 1], RACKS, is_rack_aware=True)
    with pytest.raises(CommandFailed, match=r"--broker-list must be live brokers \(1,2,3,4\), got 7,9"):
        select_brokers([9, 1, 7], RACKS, is_rack_aware=True)
    with pytest.raises(CommandFailed, match=r"new replicas of a-0 must be live brokers \(1,2\), got 3"):
        check_live([3], {1, 2}, "new replicas of a-0")


def test_move_copies_the_log_to_each_added_replica() -> None:
    move = Move(A0, before=(1, 2, 3), after=(4, 1, 5), size_bytes=1000)
    assert (move.added, move.removed, move.bytes_to_copy) == ((4, 5), (2, 3), 2000)
    assert Move(A0, (1, 2), (3,)).bytes_to_copy is None
    assert Move(A0, (1, 2), (2, 1)).bytes_to_copy == 0


def test_moves_are_in_order_with_their_sizes() -> None:
    moves = plan_moves({A0: (1,), A1: (1,), B0: (1,)}, {B0: (2,), A0: (3, 1)}, {A0: 500})
    assert moves == [Move(A0, (1,), (3, 1), 500), Move(B0, (1,), (2,), None)]
    with pytest.raises(CommandFailed, match="partition a-1 must exist, got a topic with 1 partitions"):
        plan_moves({A0: (1,)}, {A0: (2,), A1: (2,)})


def test_rows_and_summary_of_moves() -> None:
    moves = [Move(A0, (1, 2), (2, 3), 1500), Move(B0, (1,), (1,))]
    assert [list(row.values()) for row in move_rows(moves)] == [
        ["a-0", [1, 2], [2, 3], 1500, "1.5 kB"],
        ["b-0", [1], [1], 0, "0 B"],
    ]
    assert summary_line(moves) == "partitions: 2, replicas to add: 1, to copy: 1.5 kB"
    unknown = [*moves, Move(A1, (1,), (2,))]
    assert summary_line(unknown) == "partitions: 3, replicas to add: 2, to copy: unknown"
