"""Selection of the replica that a consumer reads."""

from __future__ import annotations

import pytest

from odradek.replication.reads.replica_selector import SELECTORS, ReplicaView, select_by_rack, selector_for

LEADER = ReplicaView(1, "a", 100, 0)


@pytest.mark.parametrize(
    ("rack", "followers", "selected"),
    [
        ("b", [ReplicaView(2, "b", 90, 5)], 2),
        ("c", [ReplicaView(2, "b", 90, 5)], 1),
        ("a", [ReplicaView(2, "a", 100, 5)], 1),  # the leader, if it is there as well
        ("", [ReplicaView(2, "b", 90, 5)], 1),
        ("", [ReplicaView(2, "", 90, 5)], 1),
        (None, [ReplicaView(2, None, 90, 5)], 1),
        ("b", [], 1),
        ("b", [ReplicaView(2, None, 90, 5)], 1),
        ("b", [ReplicaView(2, "b", 80, 9), ReplicaView(3, "b", 90, 1)], 3),  # most records
        ("b", [ReplicaView(3, "b", 90, 1), ReplicaView(2, "b", 90, 9)], 2),  # caught up last
        ("b", [ReplicaView(2, "b", 90, 5), ReplicaView(3, "b", 90, 5)], 3),
    ],
)
def test_selection_by_rack(rack: str | None, followers: list[ReplicaView], selected: int) -> None:
    assert select_by_rack(rack, LEADER, followers).broker_id == selected


def test_selectors_by_class_name() -> None:
    assert selector_for(None) is selector_for("") is None
    assert selector_for("org.apache.kafka.common.replica.RackAwareReplicaSelector") is select_by_rack
    leader_selector = SELECTORS["org.apache.kafka.common.replica.LeaderSelector"]
    assert leader_selector("b", LEADER, [ReplicaView(2, "b", 200, 5)]) is LEADER
