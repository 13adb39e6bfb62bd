"""Assignors, which distribute the partitions of subscribed topics among the members of a group."""

from odradek.client.consumer.assignors.assignor import (
    NO_GENERATION,
    Assignment,
    Assignor,
    Member,
    PartitionRacks,
    RebalanceProtocol,
)
from odradek.client.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from odradek.client.consumer.assignors.range import RangeAssignor
from odradek.client.consumer.assignors.registry import (
    check_cooperative,
    common_protocol,
    configured_assignors,
)
from odradek.client.consumer.assignors.round_robin import RoundRobinAssignor
from odradek.client.consumer.assignors.sticky import StickyAssignor

__all__ = [
    "NO_GENERATION",
    "Assignment",
    "Assignor",
    "CooperativeStickyAssignor",
    "Member",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "PartitionRacks",
    "configured_assignors",
    "check_cooperative",
    "common_protocol",
]
