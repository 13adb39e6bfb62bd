"""What all parts of a consumer's membership share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from odradek.client.cluster import Cluster, CoordinatorKind
from odradek.client.consumer.group.membership import Membership
from odradek.client.consumer.group.requests import GroupRequests
from odradek.client.consumer.positions import SubscriptionState
from odradek.config.table import Settings
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy


class GroupContext(NamedTuple):
    """One member: its cluster, its state, how it speaks, and ``on_news``, called when a poll should look."""

    cluster: Cluster
    settings: Settings
    subscription: SubscriptionState
    membership: Membership
    requests: GroupRequests
    clock: Clock
    entropy: Entropy
    on_news: Callable[[], None]

    @property
    def group_id(self) -> str:
        return self.membership.group_id

    def now_ms(self) -> int:
        return self.clock.monotonic_ms()

    async def coordinator(self, timeout_ms: int) -> int:
        """The node that looks after the group."""
        return await self.cluster.coordinator(CoordinatorKind.GROUP, self.group_id, timeout_ms)

    def forget_coordinator(self) -> None:
        """Look for it anew next time."""
        self.cluster.forget_coordinator(CoordinatorKind.GROUP, self.group_id)
