"""What an application may want to hear of when partitions come and go."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from odradek.model.ids import TopicPartition


class RebalanceListener(Protocol):
    """Called inside ``poll`` and ``close``. In ``odradek.aio`` the functions may be coroutines.

    Each function is optional, also without inheriting; ``on_partitions_revoked`` stands in for a missing
    ``on_partitions_lost``.

    >>> class Announcer:
    ...     def on_partitions_assigned(self, partitions):
    ...         print("reads", *partitions)
    >>> Announcer().on_partitions_assigned([TopicPartition("castle", 0)])
    reads castle-0
    """

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These partitions will go to other members: commit what is done."""
        return None

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These partitions are new here; their positions may be set before the first record comes."""
        return None

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These partitions have gone already; nothing of them can be committed any more."""
        return self.on_partitions_revoked(partitions)
