"""Requests a rejoin when topics, their partitions, or the subscription have changed."""

from __future__ import annotations

from collections.abc import Callable

from odradek.client.consumer.group.context import GroupContext
from odradek.client.consumer.group.membership import MemberState
from odradek.client.consumer.group.rebalance.group_joiner import GroupJoiner
from odradek.client.consumer.group.rebalance.metadata_snapshot import matching_topics, snapshot
from odradek.client.network.metadata import ClusterMetadata
from odradek.config.client.connection import CLIENT_RACK
from odradek.config.client.consumer import EXCLUDE_INTERNAL_TOPICS


class RejoinTrigger:
    """Checks each metadata update once, and the subscription on every call.

    The leader compares the current topics with those that it assigned, so a change during the assignment is
    found afterwards.
    """

    def __init__(
        self, context: GroupContext, joiner: GroupJoiner, request_rejoin: Callable[[str], None]
    ) -> None:
        self._membership = context.membership
        self._subscription = context.subscription
        self._joiner = joiner
        self._request_rejoin = request_rejoin
        self._include_internal = not context.settings[EXCLUDE_INTERNAL_TOPICS]
        # Without client.rack, only the number of partitions matters.
        self._compare_racks = bool(context.settings[CLIENT_RACK])
        self._checked_version = -1
        self._checked_snapshot: object = None

    def check(self, metadata: ClusterMetadata) -> None:
        subscription = self._subscription
        is_new = metadata.version != self._checked_version
        self._checked_version = metadata.version
        if is_new and metadata.version and subscription.pattern is not None:
            subscription.set_matched(
                matching_topics(metadata, subscription.matches, include_internal=self._include_internal)
            )
        self._check_assignment(metadata, is_new)
        joined, current = self._joiner.joined_subscription, subscription.subscribed_topics
        if joined is None or joined is current or joined == current:
            return
        if self._membership.state is MemberState.STABLE and not self._joiner.is_joining:
            self._joiner.joined_subscription = current
            self._request_rejoin("the subscription has changed")

    def _check_assignment(self, metadata: ClusterMetadata, is_new: bool) -> None:
        assigned = self._joiner.assignment_snapshot
        # A new assignment may be based on older metadata.
        is_new = is_new or assigned is not self._checked_snapshot
        self._checked_snapshot = assigned
        if assigned is None or not is_new or not self._membership.is_leader:
            return
        current = snapshot(metadata, self._subscription.group_topics)
        if self._compare_racks:
            is_same = current == assigned
        else:
            counts = {topic: len(racks) for topic, racks in current.items()}
            is_same = counts == {topic: len(racks) for topic, racks in assigned.items()}
        if not is_same:
            self._joiner.assignment_snapshot = current
            self._request_rejoin("topics or their partitions have changed since the last assignment")
