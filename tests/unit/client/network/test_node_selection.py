"""Which node is asked when any will do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.client.network.node_selection import (
    ANY_NODE,
    CONTROLLER,
    bootstrap_id,
    group_connection_id,
    least_loaded_node,
)
from odradek.net.connection_state import NodeStatus


def standing(
    id_, is_ready=False, in_flight=0, is_connecting=False, failures=0, retry_at_ms=0, last_attempt_ms=0
):
    return NodeStatus(id_, is_ready, in_flight, is_connecting, failures, retry_at_ms, last_attempt_ms)


standings = st.lists(
    st.builds(
        standing,
        st.integers(0, 50),
        st.booleans(),
        st.integers(0, 5),
        st.booleans(),
        st.integers(0, 3),
        st.integers(0, 2000),
        st.integers(0, 1000),
    ),
    unique_by=lambda one: one.id,
)


def test_without_nodes_there_is_nobody_to_ask():
    assert least_loaded_node([], 0, 0) is None


@given(standings, st.integers(0, 10))
def test_somebody_is_found_and_a_ready_one_if_there_is_one(given_standings, first):
    found = least_loaded_node(given_standings, first, 1000)
    by_id = {one.id: one for one in given_standings}
    assert (found is None) == (not given_standings)
    ready = [one for one in given_standings if one.is_ready]
    if ready:
        assert by_id[found].is_ready
        assert by_id[found].in_flight == min(one.in_flight for one in ready)


def test_one_that_is_being_connected_goes_before_one_that_is_not():
    assert least_loaded_node([standing(1), standing(2, is_connecting=True)], 0, 0) == 2


def test_the_one_not_tried_for_longest_goes_first():
    some = [
        standing(1, last_attempt_ms=500),
        standing(2, last_attempt_ms=100),
        standing(3, last_attempt_ms=900),
    ]
    assert least_loaded_node(some, 0, 1000) == 2


def test_one_that_rests_is_passed_over_unless_all_do():
    resting = standing(1, failures=1, retry_at_ms=5000)
    longer = standing(2, failures=1, retry_at_ms=9000)
    assert least_loaded_node([resting, longer, standing(3, last_attempt_ms=900)], 0, 1000) == 3
    assert least_loaded_node([longer, resting], 0, 1000) == 1


def test_where_the_search_begins_decides_among_equals():
    equals = [standing(1), standing(2), standing(3)]
    assert [least_loaded_node(equals, first, 0) for first in range(4)] == [1, 2, 3, 1]


@given(st.integers(0, 2**31 - 1), st.integers(0, 1000))
def test_ids_of_different_kinds_never_meet(node_id, index):
    others = {bootstrap_id(index), ANY_NODE, CONTROLLER, -1}
    assert len(others) == 4
    assert group_connection_id(node_id) >= 0
    assert group_connection_id(group_connection_id(node_id)) == node_id
