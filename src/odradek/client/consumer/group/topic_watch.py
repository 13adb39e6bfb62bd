"""Reasons to join again that lie in the topics: others match, partitions came, the wishes have changed."""

from __future__ import annotations

from collections.abc import Callable

from odradek.client.consumer.group.context import GroupContext
from odradek.client.consumer.group.joining import Joining
from odradek.client.consumer.group.membership import State
from odradek.client.consumer.group.topic_snapshot import matching, snapshot
from odradek.client.metadata import ClusterImage
from odradek.config.client.connection import CLIENT_RACK
from odradek.config.client.consumer import EXCLUDE_INTERNAL_TOPICS


class TopicWatch:
    """Looks at each image of the cluster once, and at the subscription whenever it is asked to.

    A leader holds the present topics against those that it assigned, so a change during an assignment is
    found afterwards.
    """

    def __init__(
        self, context: GroupContext, joining: Joining, request_rejoin: Callable[[str], None]
    ) -> None:
        self._membership = context.membership
        self._subscription = context.subscription
        self._joining = joining
        self._request_rejoin = request_rejoin
        self._with_internal = not context.settings[EXCLUDE_INTERNAL_TOPICS]
        # Without a rack of its own, only the number of partitions matters to a member.
        self._with_racks = bool(context.settings[CLIENT_RACK])
        self._seen_version = -1
        self._seen_assignment: object = None

    def look(self, image: ClusterImage) -> None:
        subscription = self._subscription
        is_new = image.version != self._seen_version
        self._seen_version = image.version
        if is_new and image.version and subscription.pattern is not None:
            subscription.set_matched(matching(image, subscription.matches, with_internal=self._with_internal))
        self._compare_with_assignment(image, is_new)
        joined, wanted = self._joining.joined_topics, subscription.subscribed_topics
        if joined is None or joined is wanted or joined == wanted:
            return
        if self._membership.state is State.STABLE and not self._joining.is_under_way:
            self._joining.joined_topics = wanted
            self._request_rejoin("the subscription has changed")

    def _compare_with_assignment(self, image: ClusterImage, is_new: bool) -> None:
        led_from = self._joining.led_from
        # An assignment made a moment ago may be of an image that was old by then.
        is_new = is_new or led_from is not self._seen_assignment
        self._seen_assignment = led_from
        if led_from is None or not is_new or not self._membership.is_leader:
            return
        now = snapshot(image, self._subscription.group_topics)
        if self._with_racks:
            is_same = now == led_from
        else:
            counts = {topic: len(racks) for topic, racks in now.items()}
            is_same = counts == {topic: len(racks) for topic, racks in led_from.items()}
        if not is_same:
            self._joining.led_from = now
            self._request_rejoin("topics or their partitions have changed since they were assigned")
