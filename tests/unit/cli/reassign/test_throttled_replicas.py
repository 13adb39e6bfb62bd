"""Settings that throttle reassignments."""

from __future__ import annotations

from odradek.cli.reassign.throttled_replicas import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIRS_RATE,
    ReplicaCopies,
    broker_throttles,
    copies_to_throttle,
    topic_throttles,
)
from odradek.client.admin.reassignments import PartitionReassignment
from odradek.model.ids import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_current_replicas_are_sources_and_new_ones_destinations() -> None:
    assert copies_to_throttle({A0: (3, 1)}, {A0: (1, 2), A1: (1,)}, {}) == {A0: ReplicaCopies((1, 2), (3,))}


def test_ongoing_reassignments_stay_throttled() -> None:
    ongoing = {A1: PartitionReassignment((4, 1), adding=(4,), removing=(1,))}
    copies = copies_to_throttle({A0: (2,)}, {A0: (1,)}, ongoing)
    assert copies == {A0: ReplicaCopies((1,), (2,)), A1: ReplicaCopies((1,), (4,))}


def test_replaced_reassignment_starts_from_its_origin() -> None:
    ongoing = {A0: PartitionReassignment((4, 1), adding=(4,), removing=(1,))}
    copies = copies_to_throttle({A0: (5, 1)}, {A0: (4, 1)}, ongoing)
    assert copies == {A0: ReplicaCopies((1,), (5,))}


def test_settings_of_topics() -> None:
    copies = {A1: ReplicaCopies((2, 1), (3,)), A0: ReplicaCopies((1,), (4, 3)), B0: ReplicaCopies((1,), ())}
    assert topic_throttles(copies) == {
        "a": {LEADER_REPLICAS: "0:1,1:1,1:2", FOLLOWER_REPLICAS: "0:3,0:4,1:3"},
        "b": {LEADER_REPLICAS: "0:1", FOLLOWER_REPLICAS: ""},
    }


def test_settings_of_brokers() -> None:
    copies = [ReplicaCopies((1, 2), (3,))]
    rates = {LEADER_RATE: "500", FOLLOWER_RATE: "500"}
    assert broker_throttles(copies, 500, {3, 4}, None) == {1: rates, 2: rates, 3: rates}
    assert broker_throttles(copies, None, {4}, 9) == {4: {LOG_DIRS_RATE: "9"}}
    assert broker_throttles(copies, 500, {3}, 9)[3] == {**rates, LOG_DIRS_RATE: "9"}
