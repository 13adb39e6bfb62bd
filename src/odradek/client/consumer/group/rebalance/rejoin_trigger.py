"""Reasons to join again that lie in the topics: others match, partitions came, the wishes have changed."""

from __future__ import annotations

from collections.abc import Callable

from odradek.client.consumer.group.context import GroupContext
from odradek.client.consumer.group.membership import MemberState
from odradek.client.consumer.group.rebalance.group_joiner import GroupJoiner
from odradek.client.consumer.group.rebalance.metadata_snapshot import matching, snapshot
from odradek.client.network.metadata import ClusterMetadata
from odradek.config.client.connection import CLIENT_RACK
from odradek.config.client.consumer import EXCLUDE_INTERNAL_TOPICS


class RejoinTrigger:
    """Looks at each metadata of the cluster once, and at the subscription whenever it is asked to.

    A leader holds the present topics against those that it assigned, so a change during an assignment is
    found afterwards.
    """

    def __init__(
        self, context: GroupContext, joining: GroupJoiner, request_rejoin: Callable[[str], None]
    ) -> None:
        self._membership = context.membership
        self._subscription = context.subscription
        self._joiner = joining
        self._request_rejoin = request_rejoin
        self._with_internal = not context.settings[EXCLUDE_INTERNAL_TOPICS]
        # Without a rack of its own, only the number of partitions matters to a member.
        self._with_racks = bool(context.settings[CLIENT_RACK])
        self._seen_version = -1
        self._seen_assignment: object = None

    def look(self, metadata: ClusterMetadata) -> None:
        subscription = self._subscription
        is_new = metadata.version != self._seen_version
        self._seen_version = metadata.version
        if is_new and metadata.version and subscription.pattern is not None:
            subscription.set_matched(
                matching(metadata, subscription.matches, with_internal=self._with_internal)
            )
        self._compare_with_assignment(metadata, is_new)
        joined, wanted = self._joiner.joined_subscription, subscription.subscribed_topics
        if joined is None or joined is wanted or joined == wanted:
            return
        if self._membership.state is MemberState.STABLE and not self._joiner.is_joining:
            self._joiner.joined_subscription = wanted
            self._request_rejoin("the subscription has changed")

    def _compare_with_assignment(self, metadata: ClusterMetadata, is_new: bool) -> None:
        assignment_snapshot = self._joiner.assignment_snapshot
        # An assignment made a moment ago may be of an metadata that was old by then.
        is_new = is_new or assignment_snapshot is not self._seen_assignment
        self._seen_assignment = assignment_snapshot
        if assignment_snapshot is None or not is_new or not self._membership.is_leader:
            return
        now = snapshot(metadata, self._subscription.group_topics)
        if self._with_racks:
            is_same = now == assignment_snapshot
        else:
            counts = {topic: len(racks) for topic, racks in now.items()}
            is_same = counts == {topic: len(racks) for topic, racks in assignment_snapshot.items()}
        if not is_same:
            self._joiner.assignment_snapshot = now
            self._request_rejoin("topics or their partitions have changed since they were assigned")
