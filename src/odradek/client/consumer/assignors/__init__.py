"""Assignors: how the partitions of a group's topics are shared among its members."""

from odradek.client.consumer.assignors.assignor import (
    NO_GENERATION,
    Assignment,
    Assignor,
    Member,
    RebalanceProtocol,
    Topics,
)
from odradek.client.consumer.assignors.choice import assignors_of, check_cooperative, protocol_of
from odradek.client.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from odradek.client.consumer.assignors.ranges import RangeAssignor
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
    "Topics",
    "assignors_of",
    "check_cooperative",
    "protocol_of",
]
