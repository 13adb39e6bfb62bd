"""Partitions are drawn by load, and turns go over those with a leader."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from odradek.client.producer.partitioner import RoundRobin, load_table, next_sticky
from odradek.client.values import PartitionInfo


def partition(number: int, leader: int = 1) -> PartitionInfo:
    return PartitionInfo("t", number, leader, (1,), (1,))


def test_the_shorter_a_queue_the_likelier_its_partition() -> None:
    table = load_table([0, 1, 2], [0, 3, 1])
    assert table is not None
    drawn = Counter(
        next_sticky([0, 1, 2], [0, 1, 2], table, lambda _, ticket=ticket: ticket) for ticket in range(8)
    )
    # Longest queue plus one, less its own length: 4, 1 and 3 tickets.
    assert drawn == {0: 4, 1: 1, 2: 3}


def test_equal_queues_are_drawn_evenly_among_partitions_with_a_leader() -> None:
    assert load_table([0, 1, 2], [2, 2, 2]) is None
    drawn = {next_sticky([0, 1, 2], [0, 2], None, lambda _, ticket=ticket: ticket) for ticket in range(2)}
    assert drawn == {0, 2}


def test_without_any_leader_all_partitions_are_drawn() -> None:
    drawn = {next_sticky([0, 1], [], None, lambda _, ticket=ticket: ticket) for ticket in range(2)}
    assert drawn == {0, 1}


@given(st.lists(st.integers(0, 50), min_size=2, max_size=20), st.data())
def test_only_candidates_are_drawn(lengths: list[int], data: st.DataObject) -> None:
    candidates = [number * 2 for number in range(len(lengths))]
    table = load_table(candidates, lengths)
    choice = next_sticky(candidates, candidates, table, lambda bound: data.draw(st.integers(0, bound - 1)))
    assert choice in candidates


def test_turns_pass_over_partitions_without_a_leader() -> None:
    choose = RoundRobin()
    partitions = [partition(0), partition(1, leader=-1), partition(2)]
    assert [choose("t", b"same", None, partitions) for _ in range(4)] == [0, 2, 0, 2]


def test_turns_of_topics_do_not_disturb_each_other() -> None:
    choose = RoundRobin()
    partitions = [partition(0), partition(1)]
    assert [choose(topic, None, None, partitions) for topic in "abab"] == [0, 0, 1, 1]


def test_without_any_leader_turns_go_over_all() -> None:
    choose = RoundRobin()
    partitions = [partition(0, -1), partition(1, -1)]
    assert [choose("t", None, None, partitions) for _ in range(3)] == [0, 1, 0]
