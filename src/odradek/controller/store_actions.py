"""Execution of the controller's reads and writes in the store. Writes are fenced by the controller epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from odradek.config import topic as topic_settings
from odradek.controller.actions import (
    NO_VERSION,
    AssignTopicIds,
    ReadAssignment,
    ReadPartitionStates,
    ReadReassignmentNode,
    ReadUncleanElection,
    RemoveDeletionMarks,
    RemoveIsrNotifications,
    RemoveLogDirNotifications,
    RemovePreferredElectionNode,
    RemoveReassignmentNode,
    RemoveTopic,
    StoreAction,
    WriteAssignment,
    WriteOutcome,
    WritePartitionStates,
    WriteReassignmentNode,
)
from odradek.model.ids import TopicPartition
from odradek.model.uuids import random_uuid
from odradek.ports.entropy import Entropy
from odradek.store.controller_election import ControllerMoved, Fence
from odradek.store.controller_requests import (
    delete_isr_change_notifications,
    delete_log_dir_notifications,
    delete_preferred_election_request,
    read_reassignment_request,
    write_reassignment_request,
)
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import TopicAssignment, decode_config
from odradek.store.partition_states import (
    Outcome,
    VersionedLeaderAndIsr,
    create_partition_states,
    read_partition_states,
    write_partition_states,
)
from odradek.store.port import (
    BadPayload,
    BadVersion,
    NodeExists,
    SessionExpired,
    Store,
    StoreError,
    Unavailable,
)
from odradek.store.topics import read_topics, remove_topic, unmark_for_deletion, write_assignment
from odradek.telemetry import events

log = events.logger("controller")

_Write = (
    WriteAssignment
    | RemoveTopic
    | RemoveDeletionMarks
    | WriteReassignmentNode
    | RemoveReassignmentNode
    | RemovePreferredElectionNode
    | RemoveIsrNotifications
    | RemoveLogDirNotifications
)

FATAL: Final = (ControllerMoved, SessionExpired, Unavailable)
"""Errors after which a controller cannot go on."""


class StoreActions:
    """Executes actions. May be repeated after ``Unavailable``."""

    def __init__(
        self, store: Store, fence: Fence, entropy: Entropy, is_unclean_default: Callable[[], bool]
    ) -> None:
        self._store = store
        self._fence = fence
        self._entropy = entropy
        self._is_unclean_default = is_unclean_default

    async def execute(self, action: StoreAction) -> Any:
        """Execute an action and return its result; raises ``StoreError``."""
        match action:
            case ReadPartitionStates():
                return await read_partition_states(self._store, action.partitions)
            case WritePartitionStates():
                return await self._write_partition_states(action)
            case ReadUncleanElection():
                return await self._read_unclean_election(action)
            case AssignTopicIds():
                return await self._assign_topic_ids(action)
            case ReadAssignment():
                return (await read_topics(self._store, [action.topic])).get(action.topic)
            case ReadReassignmentNode():
                return await read_reassignment_request(self._store)
        await self._write(action)
        return None

    async def _write(self, action: _Write) -> None:
        store, fence = self._store, self._fence
        match action:
            case WriteAssignment():
                await write_assignment(store, action.topic, action.assignment, action.expected_version, fence)
            case RemoveTopic():
                await remove_topic(store, action.topic, fence)
            case RemoveDeletionMarks():
                await unmark_for_deletion(store, action.topics, fence)
            case WriteReassignmentNode():
                await write_reassignment_request(store, action.targets, fence)
            case RemoveReassignmentNode():
                await write_reassignment_request(store, {}, fence)
            case RemovePreferredElectionNode():
                await delete_preferred_election_request(store, fence)
            case RemoveIsrNotifications():
                await delete_isr_change_notifications(store, action.sequence_numbers, fence)
            case RemoveLogDirNotifications():
                await delete_log_dir_notifications(store, action.sequence_numbers, fence)

    async def _write_partition_states(self, action: WritePartitionStates) -> WriteOutcome:
        new_states = {
            p: w.leader_and_isr for p, w in action.writes.items() if w.expected_version == NO_VERSION
        }
        changed_states = {
            p: VersionedLeaderAndIsr(w.leader_and_isr, w.expected_version)
            for p, w in action.writes.items()
            if w.expected_version != NO_VERSION
        }
        outcomes: dict[TopicPartition, Outcome] = {}
        if new_states:
            outcomes |= await create_partition_states(self._store, new_states, self._fence)
        if changed_states:
            outcomes |= await write_partition_states(self._store, changed_states, self._fence)
        written: dict[TopicPartition, VersionedLeaderAndIsr] = {}
        conflicts: list[TopicPartition] = []
        failed: dict[TopicPartition, StoreError] = {}
        for partition, outcome in outcomes.items():
            if isinstance(outcome, int):
                written[partition] = VersionedLeaderAndIsr(action.writes[partition].leader_and_isr, outcome)
            elif isinstance(outcome, FATAL):
                raise outcome
            elif isinstance(outcome, NodeExists | BadVersion):
                conflicts.append(partition)
            else:
                failed[partition] = outcome
        return WriteOutcome(written, conflicts, failed)

    async def _read_unclean_election(self, action: ReadUncleanElection) -> dict[str, bool]:
        default, topics = self._is_unclean_default(), list(action.topics)
        paths = [znode_paths.config("topics", topic) for topic in topics]
        is_unclean: dict[str, bool] = {}
        for topic, path, node in zip(topics, paths, await self._store.get_many(paths), strict=True):
            try:
                config = {} if node is None else decode_config(path, node[0])
            except BadPayload as error:
                log.error("topic_config_not_decoded", topic=topic, reason=str(error))
                continue
            text = config.get(topic_settings.UNCLEAN_LEADER_ELECTION_ENABLE.name)
            is_unclean[topic] = default if text is None else text.strip().lower() == "true"
        return is_unclean

    async def _assign_topic_ids(self, action: AssignTopicIds) -> dict[str, TopicAssignment]:
        assigned = {
            topic: TopicAssignment(random_uuid(self._entropy.uuid), assignment.partitions)
            for topic, assignment in action.topics.items()
        }
        for topic, assignment in assigned.items():
            await write_assignment(self._store, topic, assignment, fence=self._fence)
        return assigned
