"""Every write that reaches the store of a simulated cluster, in order, and the rules that it must keep.

``ObservedEnsemble`` reports committed writes; ``StoreObserver`` keeps the stored assignments and partition
states, and checks each write. Named violations:

- ``controller-epoch-not-next``: an election did not increment ``/controller_epoch`` together with
  ``/controller``.
- ``write-of-former-controller``: a partition state was written, or a topic removed, by a session that did not
  win the last election, or a state carries another controller epoch.
- ``leader-epoch-went-back``, ``leader-without-epoch``: a leader epoch decreased, or did not increase although
  the leader changed.
- ``leader-not-in-isr``, ``isr-empty``, ``isr-not-in-replicas``: a stored state makes no sense.
- ``isr-changed-without-leader``: the ISR changed in a leader epoch although its leader has proposed nothing.
- ``assignment-of-other-topic``: a topic's id changed while it existed.
- ``partition-removed``: a topic lost a partition that has a state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from odradek.model.ids import NO_LEADER, TopicId, TopicPartition
from odradek.model.uuids import uuid_text
from odradek.ports.entropy import Entropy
from odradek.store.embedded.node_tree import StagedWrites
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import (
    LeaderIsrAndControllerEpoch,
    TopicAssignment,
    decode_number,
    decode_partition_state,
    decode_topic,
)
from odradek.store.port import CreateOp, DeleteOp, Op, OpResult, SetDataOp, StoreError
from odradek.testing.broker import DelayedEnsemble
from odradek.testing.clock import VirtualClock
from odradek.testing.invariants import Violation

_TOPICS_PREFIX: Final = f"{znode_paths.TOPICS}/"
_MARKS_PREFIX: Final = f"{znode_paths.DELETE_TOPICS}/"
_ID_CHARACTERS: Final = 6

OnWrite = Callable[[int, Sequence[Op]], None]
"""Gets the session and the operations of a committed write."""

HasProposed = Callable[[TopicPartition, LeaderIsrAndControllerEpoch], bool]
"""Returns whether the leader in a state may have proposed an ISR: False only if it certainly has not."""


class ObservedEnsemble(DelayedEnsemble):
    """A store that reports each committed write, before anyone learns of it."""

    def __init__(self, clock: VirtualClock, entropy: Entropy) -> None:
        self.on_write: OnWrite = lambda session_id, ops: None
        self._pending: dict[asyncio.Future[list[OpResult]], Any] = {}
        super().__init__(clock, entropy)

    def _enqueue(self, waiting: Any) -> asyncio.Future[list[OpResult]]:
        self._pending[waiting.done] = waiting
        return super()._enqueue(waiting)

    def _finish(self, staged: StagedWrites, completions: list[Any]) -> None:
        for done, result in completions:
            queued = self._pending.pop(done)
            if queued.ops is not None and not isinstance(result, StoreError):
                self.on_write(queued.session_id, queued.ops)
        super()._finish(staged, completions)


class StoreObserver:
    """Topics and partition states as stored. ``report`` gets violations."""

    def __init__(self, report: Callable[[Violation], None], has_proposed: HasProposed) -> None:
        self.topics: dict[str, TopicAssignment] = {}
        self.states: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        self.states_by_key: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        """States by ``key``, also of topics that exist no more, without topics marked for deletion.

        Their replicas are deleted one by one, so that an ISR member may have an empty log.
        """
        self.marked: set[str] = set()
        self.controller_epoch = 0
        self.change_count = 0
        """Writes that may have changed ``states_by_key``."""
        self.on_controller_write: Callable[[], None] | None = None
        """Called after each write of the controller, before it learns of it."""
        self._controller_session = 0
        self._report = report
        self._has_proposed = has_proposed

    def key(self, topic: str, partition: int, topic_id: TopicId | None = None) -> TopicPartition:
        """Return a partition's key, which tells topics apart that had the same name."""
        if topic_id is None:
            assignment = self.topics.get(topic)
            topic_id = None if assignment is None else assignment.topic_id
        return TopicPartition(f"{topic}#{uuid_text(topic_id or bytes(16))[:_ID_CHARACTERS]}", partition)

    def on_write(self, session_id: int, ops: Sequence[Op]) -> None:
        """Note a committed write, and check it."""
        try:
            for op in ops:
                if op.path == znode_paths.CONTROLLER_EPOCH and isinstance(op, SetDataOp):
                    self._on_elected(session_id, op, ops)
                elif op.path.startswith(_TOPICS_PREFIX):
                    self.change_count += 1
                    self._on_topic_write(session_id, op)
                elif op.path.startswith(_MARKS_PREFIX):
                    self.change_count += 1
                    self._on_mark(op)
        except Violation as violation:
            self._report(violation)
        if self.on_controller_write is not None and session_id == self._controller_session:
            self.on_controller_write()

    # Elections.

    def _on_elected(self, session_id: int, op: SetDataOp, ops: Sequence[Op]) -> None:
        epoch = decode_number(op.path, op.data)
        creates = [o for o in ops if isinstance(o, CreateOp) and o.path == znode_paths.CONTROLLER]
        if epoch != self.controller_epoch + 1 or not creates:
            raise Violation("controller-epoch-not-next", f"{self.controller_epoch} to {epoch}, {ops}")
        self.controller_epoch, self._controller_session = epoch, session_id

    def _check_controller(self, session_id: int, what: str) -> None:
        if session_id != self._controller_session:
            raise Violation(
                "write-of-former-controller",
                f"{what}: session {session_id:#x}, but {self._controller_session:#x} was elected in epoch "
                f"{self.controller_epoch}",
            )

    # Topics and partitions.

    def _on_topic_write(self, session_id: int, op: Op) -> None:
        topic, *below = op.path[len(_TOPICS_PREFIX) :].split("/")
        if not below:
            self._on_assignment(session_id, topic, op)
        elif len(below) == 3 and below[2] == "state":
            self._on_state(session_id, TopicPartition(topic, int(below[1])), op)

    def _on_mark(self, op: Op) -> None:
        topic = op.path[len(_MARKS_PREFIX) :]
        if isinstance(op, DeleteOp):
            self.marked.discard(topic)
        elif topic in self.topics:
            self.marked.add(topic)
            for number in self.topics[topic].partitions:
                self.states_by_key.pop(self.key(topic, number), None)

    def _on_assignment(self, session_id: int, topic: str, op: Op) -> None:
        if isinstance(op, DeleteOp):
            self._check_controller(session_id, f"removal of topic {topic}")
            self.topics.pop(topic, None)
        elif isinstance(op, CreateOp | SetDataOp):
            assignment, before = decode_topic(op.path, op.data), self.topics.get(topic)
            if before is not None and before.topic_id not in (None, assignment.topic_id):
                raise Violation("assignment-of-other-topic", f"{topic}: {before} to {assignment}")
            for number in () if before is None else before.partitions.keys() - assignment.partitions.keys():
                if TopicPartition(topic, number) in self.states:
                    raise Violation("partition-removed", f"{topic}: {before} to {assignment}")
            self.topics[topic] = assignment

    def _on_state(self, session_id: int, partition: TopicPartition, op: Op) -> None:
        if isinstance(op, DeleteOp):
            self._check_controller(session_id, f"removal of {partition}")
            self.states.pop(partition, None)
            return
        assert isinstance(op, CreateOp | SetDataOp)
        state, before = decode_partition_state(op.path, op.data), self.states.get(partition)
        self._check_controller(session_id, f"{partition}: {state}")
        if state.controller_epoch != self.controller_epoch:
            raise Violation(
                "write-of-former-controller", f"{partition}: {state}, epoch is {self.controller_epoch}"
            )
        self._check_state(partition, state, before)
        if before is not None:
            self._check_change(partition, before, state)
        self.states[partition] = state
        if partition.topic not in self.marked:
            self.states_by_key[self.key(*partition)] = state

    def _check_state(
        self,
        partition: TopicPartition,
        state: LeaderIsrAndControllerEpoch,
        before: LeaderIsrAndControllerEpoch | None,
    ) -> None:
        if not state.isr:
            raise Violation("isr-empty", f"{partition}: {state}")
        if state.leader not in (*state.isr, NO_LEADER):
            raise Violation("leader-not-in-isr", f"{partition}: {state}")
        topic = self.topics.get(partition.topic)
        assignment = None if topic is None else topic.partitions.get(partition.partition)
        replicas = () if assignment is None else assignment.replicas
        # Replicas of a reassignment that was cancelled leave the ISR after the assignment.
        known = () if before is None else before.isr
        if not set(state.isr) <= {*replicas, *known}:
            raise Violation("isr-not-in-replicas", f"{partition}: {state}, assignment {assignment}")

    def _check_change(
        self,
        partition: TopicPartition,
        before: LeaderIsrAndControllerEpoch,
        state: LeaderIsrAndControllerEpoch,
    ) -> None:
        change = f"{partition}: {before} to {state}"
        if state.leader_epoch < before.leader_epoch:
            raise Violation("leader-epoch-went-back", change)
        if state.leader_epoch > before.leader_epoch:
            return
        if state.leader != before.leader:
            raise Violation("leader-without-epoch", change)
        if set(state.isr) != set(before.isr) and not self._has_proposed(partition, before):
            raise Violation("isr-changed-without-leader", change)
