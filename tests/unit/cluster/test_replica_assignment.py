"""Replica placement: Kafka's own results, and the laws behind them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cluster.replica_assignment import (
    Assignment,
    BrokerRack,
    assign_added_replicas,
    assign_replicas,
)
from odradek.model.errors import BrokerError, ErrorCode

# Two racks' worth of facts from Kafka's own examples: broker → rack.
RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}


def brokers(*ids: int) -> list[BrokerRack]:
    return [BrokerRack(broker_id) for broker_id in ids]


def in_racks(racks: dict[int, str]) -> list[BrokerRack]:
    return [BrokerRack(*rack) for rack in racks.items()]


def test_assignment_without_racks_matches_kafka() -> None:
    assert assign_replicas(brokers(0, 1, 2, 3, 4), 10, 3, 0, 0) == {
        0: (0, 1, 2),
        1: (1, 2, 3),
        2: (2, 3, 4),
        3: (3, 4, 0),
        4: (4, 0, 1),
        5: (0, 2, 3),
        6: (1, 3, 4),
        7: (2, 4, 0),
        8: (3, 0, 1),
        9: (4, 1, 2),
    }


def test_assignment_with_racks_matches_kafka() -> None:
    assert assign_replicas(in_racks(RACKS), 7, 3, 0, 0) == {
        0: (0, 3, 1),
        1: (3, 1, 5),
        2: (1, 5, 4),
        3: (5, 4, 2),
        4: (4, 2, 0),
        5: (2, 0, 3),
        6: (0, 4, 2),
    }


def test_start_index_and_start_shift_are_independent() -> None:
    assert assign_replicas(brokers(0, 1, 2, 3), 2, 2, 1, 2) == {0: (1, 0), 1: (2, 1)}
    assert assign_replicas(brokers(0, 1, 2, 3), 2, 2, 3, 0) == {0: (3, 0), 1: (0, 1)}


def test_broker_order_does_not_matter() -> None:
    assert assign_replicas(brokers(3, 1, 2), 6, 2, 0, 0) == assign_replicas(brokers(1, 2, 3), 6, 2, 0, 0)


def test_single_broker_gets_all_replicas() -> None:
    assert assign_replicas(brokers(7), 3, 1, 0, 0) == {0: (7,), 1: (7,), 2: (7,)}
    assert assign_replicas(in_racks({7: "a"}), 2, 1, 5, 5) == {0: (7,), 1: (7,)}


def test_added_partitions_continue_the_assignment() -> None:
    whole = assign_replicas(brokers(0, 1, 2, 3, 4), 10, 3, 0, 0)
    added = assign_added_replicas(brokers(0, 1, 2, 3, 4), 7, 3, whole[0])
    assert {**{p: whole[p] for p in range(3)}, **added} == whole


def test_added_partitions_skip_a_dead_first_broker() -> None:
    # Kafka takes the first broker whose id is not smaller; if there is none, the first of all.
    assert assign_added_replicas(brokers(1, 3, 5), 1, 1, (2,)) == {1: (5,)}
    assert assign_added_replicas(brokers(1, 3, 5), 1, 1, (9,)) == {1: (3,)}


@pytest.mark.parametrize(
    ("count", "factor", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-1, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -1, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 4, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_impossible_assignments_are_rejected(count: int, factor: int, code: ErrorCode) -> None:
    with pytest.raises(BrokerError) as raised:
        assign_replicas(brokers(1, 2, 3), count, factor, 0, 0)
    assert raised.value.code is code


def test_assignment_without_brokers_is_rejected() -> None:
    with pytest.raises(BrokerError, match="INVALID_REPLICATION_FACTOR"):
        assign_replicas([], 1, 1, 0, 0)


def test_racks_on_some_brokers_only_are_rejected() -> None:
    with pytest.raises(BrokerError, match="got 1 of 2"):
        assign_replicas([BrokerRack(1, "a"), BrokerRack(2)], 1, 1, 0, 0)


def spread(assignment: Assignment, ids: list[int]) -> tuple[int, int]:
    """Return the spread of first replicas, and of all replicas, over the brokers."""
    leaders, replicas = Counter(ids), Counter(ids)
    for each in assignment.values():
        leaders[each[0]] += 1
        replicas.update(each)
    return max(leaders.values()) - min(leaders.values()), max(replicas.values()) - min(replicas.values())


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 9), st.integers(0, 20), st.integers(0, 20))
def test_replicas_are_distinct_and_evenly_spread(
    broker_count: int, rounds: int, factor: int, start: int, shift: int
) -> None:
    factor = min(factor, broker_count)
    ids = list(range(10, 10 + broker_count))
    assignment = assign_replicas(brokers(*ids), rounds * broker_count, factor, start, shift)
    assert list(assignment) == list(range(rounds * broker_count))
    assert all(len(set(each)) == factor for each in assignment.values())
    assert spread(assignment, ids) == (0, 0)


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=9),
    st.integers(1, 20),
    st.integers(1, 9),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_partition_spans_as_many_racks_as_possible(
    rack_names: list[str], count: int, factor: int, start: int, shift: int
) -> None:
    racks = dict(enumerate(rack_names))
    factor = min(factor, len(racks))
    assignment = assign_replicas(in_racks(racks), count, factor, start, shift)
    for each in assignment.values():
        assert len(set(each)) == factor
        assert len({racks[broker_id] for broker_id in each}) == min(factor, len(set(rack_names)))
    assert spread(assignment, list(racks))[0] <= 1


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(0, 9))
def test_equal_racks_are_evenly_used(rack_count: int, per_rack: int, rounds: int, start: int) -> None:
    racks = {broker_id: f"rack{broker_id % rack_count}" for broker_id in range(rack_count * per_rack)}
    assignment = assign_replicas(in_racks(racks), rounds * len(racks), rack_count, start, start)
    assert spread(assignment, list(racks)) == (0, 0)
