"""Weighted draw of partitions, and the round-robin partitioner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from odradek.client.producer.partitioner import RoundRobin, load_table, next_sticky
from odradek.client.values import PartitionInfo


def partition(number: int, leader: int = 1) -> PartitionInfo:
    return PartitionInfo("t", number, leader, (1,), (1,))


def always(draw: int) -> Callable[[int], int]:
    return lambda _: draw


def test_shorter_queue_is_more_likely() -> None:
    table = load_table([0, 1, 2], [0, 3, 1])
    assert table is not None
    drawn = Counter(next_sticky([0, 1, 2], [0, 1, 2], table, always(draw)) for draw in range(8))
    # Weight: length of the longest queue plus one, less its own length.
    assert drawn == {0: 4, 1: 1, 2: 3}


def test_equal_queues_are_drawn_evenly_among_available_partitions() -> None:
    assert load_table([0, 1, 2], [2, 2, 2]) is None
    drawn = {next_sticky([0, 1, 2], [0, 2], None, always(draw)) for draw in range(2)}
    assert drawn == {0, 2}


def test_all_partitions_are_drawn_without_any_leader() -> None:
    drawn = {next_sticky([0, 1], [], None, always(draw)) for draw in range(2)}
    assert drawn == {0, 1}


@given(st.lists(st.integers(0, 50), min_size=2, max_size=20), st.data())
def test_only_candidates_are_drawn(lengths: list[int], data: st.DataObject) -> None:
    candidates = [number * 2 for number in range(len(lengths))]
    table = load_table(candidates, lengths)
    choice = next_sticky(candidates, candidates, table, lambda bound: data.draw(st.integers(0, bound - 1)))
    assert choice in candidates


def test_round_robin_skips_partitions_without_leader() -> None:
    choose = RoundRobin()
    partitions = [partition(0), partition(1, leader=-1), partition(2)]
    assert [choose("t", b"same", None, partitions) for _ in range(4)] == [0, 2, 0, 2]


def test_round_robin_is_independent_per_topic() -> None:
    choose = RoundRobin()
    partitions = [partition(0), partition(1)]
    assert [choose(topic, None, None, partitions) for topic in "abab"] == [0, 0, 1, 1]


def test_round_robin_uses_all_partitions_without_any_leader() -> None:
    choose = RoundRobin()
    partitions = [partition(0, -1), partition(1, -1)]
    assert [choose("t", None, None, partitions) for _ in range(3)] == [0, 1, 0]
