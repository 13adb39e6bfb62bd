"""States of partitions and replicas, and the transitions that are allowed."""

from __future__ import annotations

from enum import Enum
from typing import Final


class PartitionState(Enum):
    NON_EXISTENT = "NonExistentPartition"
    """Never created, or deleted."""
    NEW = "NewPartition"
    """Has replicas, but no leader and ISR yet."""
    ONLINE = "OnlinePartition"
    """Has a leader."""
    OFFLINE = "OfflinePartition"
    """The leader has failed."""

    __hash__ = object.__hash__  # tables are looked up per partition; Enum hashes the name


class ReplicaState(Enum):
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    """Its broker or its log directory has failed, or it is about to be deleted."""
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """Its deletion has failed, or its broker is down; it is tried again later."""
    NON_EXISTENT = "NonExistentReplica"

    __hash__ = object.__hash__


PARTITION_TRANSITIONS: Final = {
    PartitionState.NEW: frozenset({PartitionState.NON_EXISTENT}),
    PartitionState.ONLINE: frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.OFFLINE: frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.NON_EXISTENT: frozenset({PartitionState.OFFLINE}),
}
"""States from which a partition may enter a state."""

_ALIVE: Final = frozenset(
    {ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.DELETION_INELIGIBLE}
)
REPLICA_TRANSITIONS: Final = {
    ReplicaState.NEW: frozenset({ReplicaState.NON_EXISTENT}),
    ReplicaState.ONLINE: _ALIVE,
    ReplicaState.OFFLINE: _ALIVE,
    ReplicaState.DELETION_STARTED: frozenset({ReplicaState.OFFLINE}),
    ReplicaState.DELETION_SUCCESSFUL: frozenset({ReplicaState.DELETION_STARTED}),
    ReplicaState.DELETION_INELIGIBLE: frozenset({ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED}),
    ReplicaState.NON_EXISTENT: frozenset({ReplicaState.DELETION_SUCCESSFUL}),
}
"""States from which a replica may enter a state."""
