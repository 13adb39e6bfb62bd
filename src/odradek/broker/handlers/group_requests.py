"""What handlers of the group APIs share: whom they ask, and how an answer that comes later finds its client.

Versions end here: groups know commands and answers without any. A group is judged in Kafka's order: first its
name, then whether its coordinator is here and has loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from odradek.broker.requests.dispatcher import Call
from odradek.broker.requests.pending_response import Pending
from odradek.coordinators.groups.commands import Command
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition

CLASSIC: Final = "classic"
"""The type of all groups there are; the other one is the protocol of KIP-848."""

R = TypeVar("R")


def require_name(group: str) -> None:
    """Groups with members have a name. Offsets may be kept under the empty one, as they always could."""
    if not group:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID, "the group's id is empty")


def ask_group(call: Call, group: str, command: Command, told: Callable[[Any], R]) -> Pending[R]:
    """Have a group judge a command; ``told`` makes the response of its answer."""
    pending: Pending[R] = Pending()
    call.broker.groups.submit(group, command, lambda answer: pending.complete(told(answer)))
    return pending


def exists(call: Call, partition: TopicPartition) -> bool:
    return call.broker.image.partition(*partition) is not None
