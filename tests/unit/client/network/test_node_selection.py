"""Choice of the least loaded node."""

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


def node(id_, is_ready=False, in_flight=0, is_connecting=False, failures=0, retry_at_ms=0, last_attempt_ms=0):
    return NodeStatus(id_, is_ready, in_flight, is_connecting, failures, retry_at_ms, last_attempt_ms)


nodes = st.lists(
    st.builds(
        node,
        st.integers(0, 50),
        st.booleans(),
        st.integers(0, 5),
        st.booleans(),
        st.integers(0, 3),
        st.integers(0, 2000),
        st.integers(0, 1000),
    ),
    unique_by=lambda status: status.id,
)


def test_no_node_without_candidates():
    assert least_loaded_node([], 0, 0) is None


@given(nodes, st.integers(0, 10))
def test_ready_node_with_fewest_requests_is_preferred(candidates, first):
    chosen = least_loaded_node(candidates, first, 1000)
    by_id = {status.id: status for status in candidates}
    assert (chosen is None) == (not candidates)
    ready = [status for status in candidates if status.is_ready]
    if ready:
        assert by_id[chosen].is_ready
        assert by_id[chosen].in_flight == min(status.in_flight for status in ready)


def test_connecting_node_is_preferred_to_a_disconnected_one():
    assert least_loaded_node([node(1), node(2, is_connecting=True)], 0, 0) == 2


def test_least_recently_tried_node_is_preferred():
    candidates = [
        node(1, last_attempt_ms=500),
        node(2, last_attempt_ms=100),
        node(3, last_attempt_ms=900),
    ]
    assert least_loaded_node(candidates, 0, 1000) == 2


def test_node_in_backoff_is_skipped_unless_all_are():
    backing_off = node(1, failures=1, retry_at_ms=5000)
    backing_off_longer = node(2, failures=1, retry_at_ms=9000)
    assert least_loaded_node([backing_off, backing_off_longer, node(3, last_attempt_ms=900)], 0, 1000) == 3
    assert least_loaded_node([backing_off_longer, backing_off], 0, 1000) == 1


def test_start_index_breaks_ties():
    equals = [node(1), node(2), node(3)]
    assert [least_loaded_node(equals, first, 0) for first in range(4)] == [1, 2, 3, 1]


@given(st.integers(0, 2**31 - 1), st.integers(0, 1000))
def test_node_id_ranges_do_not_overlap(node_id, index):
    special_ids = {bootstrap_id(index), ANY_NODE, CONTROLLER, -1}
    assert len(special_ids) == 4
    assert group_connection_id(node_id) >= 0
    assert group_connection_id(group_connection_id(node_id)) == node_id
