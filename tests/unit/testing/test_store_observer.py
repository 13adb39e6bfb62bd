"""The rules of stored states: each broken one is reported."""

from dataclasses import replace

import pytest

from odradek.model.ids import NO_LEADER, TopicPartition
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import (
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicAssignment,
    encode_number,
    encode_partition_state,
    encode_topic,
)
from odradek.store.port import CreateOp, DeleteOp, SetDataOp
from odradek.testing.own_controller.store_observer import StoreObserver

PARTITION = TopicPartition("orders", 0)
STATE_PATH = znode_paths.partition_state(PARTITION)
TOPIC_PATH = znode_paths.topic("orders")
FIRST = LeaderIsrAndControllerEpoch(1, 0, (1, 2), 1)
CONTROLLER_SESSION, OTHER_SESSION = 7, 8


class _Observed:
    def __init__(self):
        self.violations: list[str] = []
        self.has_proposed = True
        self.observer = StoreObserver(
            lambda violation: self.violations.append(violation.name), lambda *_: self.has_proposed
        )
        self.elect(CONTROLLER_SESSION, 1)
        self.create_topic(1)
        self.write(FIRST)
        assert self.violations == []

    def elect(self, session_id, epoch):
        create = CreateOp(znode_paths.CONTROLLER, b"", ephemeral=True)
        epoch_op = SetDataOp(znode_paths.CONTROLLER_EPOCH, encode_number(epoch), epoch - 1)
        self.observer.on_write(session_id, [create, epoch_op])

    def create_topic(self, number):
        assignment = TopicAssignment(bytes([number] * 16), {0: ReplicaAssignment((1, 2, 3))})
        self.observer.on_write(OTHER_SESSION, [CreateOp(TOPIC_PATH, encode_topic(assignment))])

    def write(self, state, session_id=CONTROLLER_SESSION):
        self.observer.on_write(session_id, [SetDataOp(STATE_PATH, encode_partition_state(state))])


@pytest.mark.parametrize(
    ("state", "violation"),
    [
        (replace(FIRST, leader_epoch=1, isr=()), "isr-empty"),
        (replace(FIRST, leader_epoch=1, leader=3), "leader-not-in-isr"),
        (replace(FIRST, leader_epoch=1, isr=(1, 4)), "isr-not-in-replicas"),
        (replace(FIRST, leader_epoch=-1), "leader-epoch-went-back"),
        (replace(FIRST, leader=2), "leader-without-epoch"),
        (replace(FIRST, leader_epoch=1, controller_epoch=0), "write-of-former-controller"),
    ],
)
def test_state_against_the_rules_is_reported(state, violation):
    observed = _Observed()
    observed.write(state)
    assert observed.violations == [violation]


@pytest.mark.parametrize(
    "state",
    [
        replace(FIRST, leader_epoch=1, leader=2, isr=(2, 3)),
        replace(FIRST, leader_epoch=1, leader=NO_LEADER),
        replace(FIRST, isr=(1, 2, 3)),
    ],
)
def test_state_by_the_rules_is_not_reported(state):
    observed = _Observed()
    observed.write(state)
    assert observed.violations == []
    assert observed.observer.states == {PARTITION: state}


def test_isr_change_that_the_leader_has_not_proposed_is_reported():
    observed = _Observed()
    observed.has_proposed = False
    observed.write(replace(FIRST, leader_epoch=1, isr=(1,)))
    assert observed.violations == []
    observed.write(replace(FIRST, leader_epoch=1, isr=(1, 2)))
    assert observed.violations == ["isr-changed-without-leader"]


def test_write_of_another_session_is_reported():
    observed = _Observed()
    observed.write(replace(FIRST, leader_epoch=1), OTHER_SESSION)
    assert observed.violations == ["write-of-former-controller"]


def test_former_controller_is_reported():
    observed = _Observed()
    observed.elect(OTHER_SESSION, 2)
    observed.write(replace(FIRST, leader_epoch=1, controller_epoch=2), OTHER_SESSION)
    assert observed.violations == []
    observed.write(replace(FIRST, leader_epoch=2))
    observed.observer.on_write(CONTROLLER_SESSION, [DeleteOp(TOPIC_PATH)])
    assert observed.violations == ["write-of-former-controller"] * 2


@pytest.mark.parametrize("epoch", [1, 3])
def test_election_without_the_next_epoch_is_reported(epoch):
    observed = _Observed()
    observed.elect(OTHER_SESSION, epoch)
    assert observed.violations == ["controller-epoch-not-next"]


def test_epoch_without_an_election_is_reported():
    observed = _Observed()
    observed.observer.on_write(OTHER_SESSION, [SetDataOp(znode_paths.CONTROLLER_EPOCH, encode_number(2))])
    assert observed.violations == ["controller-epoch-not-next"]


def test_recreated_topic_starts_over_under_another_key():
    observed = _Observed()
    observed.write(replace(FIRST, leader_epoch=5))
    key = observed.observer.key(*PARTITION)
    observed.observer.on_write(CONTROLLER_SESSION, [DeleteOp(STATE_PATH), DeleteOp(TOPIC_PATH)])
    observed.create_topic(2)
    observed.write(FIRST)
    assert observed.violations == []
    assert observed.observer.key(*PARTITION) != key
    assert observed.observer.states_by_key[key].leader_epoch == 5


def test_topic_id_that_changes_is_reported():
    observed = _Observed()
    observed.create_topic(2)
    assert observed.violations == ["assignment-of-other-topic"]


def test_partition_that_a_topic_loses_is_reported():
    observed = _Observed()
    assignment = TopicAssignment(bytes([1] * 16), {1: ReplicaAssignment((1, 2, 3))})
    observed.observer.on_write(CONTROLLER_SESSION, [SetDataOp(TOPIC_PATH, encode_topic(assignment))])
    assert observed.violations == ["partition-removed"]
