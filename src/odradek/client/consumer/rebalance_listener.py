"""Callback interface for partitions assigned and revoked in a rebalance."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from odradek.model.ids import TopicPartition

CallbackResult = Awaitable[None] | None
"""In ``odradek.aio`` a callback may be a coroutine."""


class RebalanceListener:
    """Callbacks, called inside ``poll`` and ``close``. In ``odradek.aio`` they may be coroutines.

    A listener needs only one of the methods, and inheriting is not required; ``on_partitions_revoked`` is
    called where ``on_partitions_lost`` is missing.

    >>> class Announcer:
    ...     def on_partitions_assigned(self, partitions):
    ...         print("reads", *partitions)
    >>> Announcer().on_partitions_assigned([TopicPartition("castle", 0)])
    reads castle-0
    """

    def on_partitions_revoked(self, partitions: list[TopicPartition], /) -> CallbackResult:
        """Called before these partitions are revoked: commit what is processed."""
        return None

    def on_partitions_assigned(self, partitions: list[TopicPartition], /) -> CallbackResult:
        """Called after these partitions were added; seek here to choose where to start."""
        return None

    def on_partitions_lost(self, partitions: list[TopicPartition], /) -> CallbackResult:
        """Called after these partitions were lost to other members; their offsets cannot be committed."""
        return self.on_partitions_revoked(partitions)


class HasOnPartitionsRevoked(Protocol):
    def on_partitions_revoked(self, partitions: list[TopicPartition], /) -> CallbackResult: ...


class HasOnPartitionsAssigned(Protocol):
    def on_partitions_assigned(self, partitions: list[TopicPartition], /) -> CallbackResult: ...


class HasOnPartitionsLost(Protocol):
    def on_partitions_lost(self, partitions: list[TopicPartition], /) -> CallbackResult: ...


AnyRebalanceListener = HasOnPartitionsRevoked | HasOnPartitionsAssigned | HasOnPartitionsLost
"""Object with at least one of the methods of ``RebalanceListener``."""
