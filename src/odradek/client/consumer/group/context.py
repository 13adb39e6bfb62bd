"""Dependencies shared by the parts of a consumer's group membership."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from odradek.client.consumer.group.membership import Membership
from odradek.client.consumer.group.requests import GroupRequests
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.client.network.network_client import CoordinatorType, NetworkClient
from odradek.config.definition import Settings
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy


class GroupContext(NamedTuple):
    """Dependencies of one member; ``notify`` is called when a waiting poll should check again."""

    network: NetworkClient
    settings: Settings
    subscription: SubscriptionState
    membership: Membership
    requests: GroupRequests
    clock: Clock
    entropy: Entropy
    notify: Callable[[], None]

    @property
    def group_id(self) -> str:
        return self.membership.group_id

    def now_ms(self) -> int:
        return self.clock.monotonic_ms()

    async def coordinator(self, timeout_ms: int) -> int:
        """Return the node id of the group coordinator."""
        return await self.network.coordinator(CoordinatorType.GROUP, self.group_id, timeout_ms)

    def mark_coordinator_unknown(self) -> None:
        """Look the coordinator up again before the next request."""
        self.network.mark_coordinator_unknown(CoordinatorType.GROUP, self.group_id)
