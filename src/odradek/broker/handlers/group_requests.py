"""Shared parts of the group API handlers: checks, and submission of commands to the group coordinator.

API versions end here: commands and results of the coordinator have none. Checks are made in Kafka's order:
first the group id, then whether its coordinator is here and loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from odradek.broker.requests.dispatcher import RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.coordinators.groups.commands import Command
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition

CLASSIC: Final = "classic"
"""Type of all groups; the KIP-848 protocol is not supported."""

R = TypeVar("R")


def require_group_id(group: str) -> None:
    """Reject an empty group id. Only offset commits and fetches allow it, for compatibility."""
    if not group:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID, "group id must be a non-empty str, got ''")


def submit_to_group(
    context: RequestContext, group: str, command: Command, on_result: Callable[[Any], R]
) -> PendingResponse[R]:
    """Submit a command to a group; ``on_result`` builds the response from its result."""
    pending: PendingResponse[R] = PendingResponse()
    context.broker.group_coordinator.submit(
        group, command, lambda result: pending.complete(on_result(result))
    )
    return pending


def partition_exists(context: RequestContext, partition: TopicPartition) -> bool:
    return context.broker.metadata_cache.partition(*partition) is not None


def absence_error(topic: str, denied: frozenset[str]) -> ErrorCode:
    """Return the error of a partition that was not given to the coordinator: denied, or unknown."""
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED if topic in denied else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
