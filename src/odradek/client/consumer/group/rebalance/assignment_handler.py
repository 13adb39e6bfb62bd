"""Revocation of partitions before a join, and application of the new assignment after it.

Before joining: the last commit, the revoked callback, then the partitions are removed. After the assignment
was received: the last commit and the revoked callback for partitions that go to others, the assignor's
``on_assignment``, the new assignment, the assigned callback. Exceptions of callbacks are raised after all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from odradek.client.consumer.assignors import RebalanceProtocol
from odradek.client.consumer.group.auto_commit import AutoCommit
from odradek.client.consumer.group.callbacks import RebalanceListenerInvoker
from odradek.client.consumer.group.context import GroupContext
from odradek.client.consumer.group.membership import AssignmentReceived, MemberState, Revocation
from odradek.client.consumer.group.offset_committer import OffsetCommitter, Offsets
from odradek.client.consumer.group.rebalance.group_joiner import GroupJoiner
from odradek.config.client.consumer import MAX_POLL_INTERVAL_MS
from odradek.model.client_errors import ClientClosed, ClientError
from odradek.model.ids import TopicPartition
from odradek.telemetry import events

_log: Final = events.logger("consumer")

_REVOKING_COMMIT_MS: Final = 5000
"""Timeout of the last commit before partitions are revoked."""


class AssignmentHandler:
    """Revokes and adds the partitions of one member."""

    def __init__(
        self,
        context: GroupContext,
        joiner: GroupJoiner,
        committer: OffsetCommitter,
        auto_commit: AutoCommit,
        listener_invoker: RebalanceListenerInvoker,
    ) -> None:
        self._context = context
        self._membership = context.membership
        self._subscription = context.subscription
        self._joiner = joiner
        self._committer = committer
        self._auto_commit = auto_commit
        self._listener_invoker = listener_invoker
        self._revocation: Revocation | None = None
        self.last_commit: asyncio.Task[None] | None = None
        """Runs between polls; partitions are kept until it is done."""

    # Before joining.

    def prepare_join(self) -> None:
        """Determine the partitions to revoke, and start the last commit."""
        topics = self._subscription.subscribed_topics
        self._revocation = revocation = self._membership.prepare_join(self._subscription.assigned, topics)
        if revocation.partitions:
            self._subscription.mark_pending_revocation(revocation.partitions)
        if self._auto_commit.enabled and not revocation.lost and self.last_commit is None:
            timeout_ms = self._context.settings[MAX_POLL_INTERVAL_MS]
            commit = self.commit_last(self._subscription.all_consumed(), timeout_ms)
            self.last_commit = asyncio.get_running_loop().create_task(commit, name="last commit")

    async def revoke(self) -> None:
        """Revoke partitions after the last commit."""
        self.last_commit = None
        revocation, self._revocation = self._revocation, None
        if revocation is not None:
            await self._apply_revocation(revocation)
        # The generation may have been lost while the callback ran.
        if self._membership.state is MemberState.PREPARING:
            self._membership.join_prepared()
            self._subscription.forget_group_topics()
            self._joiner.assignment_snapshot = None

    async def _apply_revocation(self, revocation: Revocation) -> None:
        subscription, revoked = self._subscription, revocation.partitions
        if revocation.lost:
            if revoked:
                await self._listener_invoker.lost(subscription.listener, revoked)
        elif revoked or self._membership.protocol is RebalanceProtocol.EAGER:
            await self._listener_invoker.revoked(subscription.listener, revoked)
        if revoked and subscription.is_auto_assigned:
            subscription.assign_from_subscription(tp for tp in [*subscription.assigned] if tp not in revoked)

    async def revoke_all(self) -> None:
        """Revoke all partitions, before leaving the group."""
        self._revocation = None
        subscription, owned = self._subscription, frozenset(self._subscription.assigned)
        if not subscription.is_auto_assigned or not owned:
            return
        if self._membership.generation.id < 0:
            await self._listener_invoker.lost(subscription.listener, owned)
        else:
            await self._listener_invoker.revoked(subscription.listener, owned)
        subscription.assign_from_subscription([])

    async def stop(self) -> None:
        """Cancel the last commit, if it is in flight."""
        commit, self.last_commit = self.last_commit, None
        if commit is not None:
            commit.cancel()
            await asyncio.wait([commit])

    async def commit_last(self, offsets: Offsets, timeout_ms: int) -> None:
        """Commit before a revocation; after a failure others read some records again."""
        try:
            await self._committer.send(offsets, timeout_ms, is_last=True)
        except ClientClosed:
            raise
        except ClientError as error:
            _log.warning("auto_commit_failed", group=self._membership.group_id, reason=error)

    # After the assignment was received.

    async def apply_assignment(self, received: AssignmentReceived) -> bool:
        """Apply a new assignment; return False if it does not match the subscription, or is stale."""
        subscription, partitions = self._subscription, received.assignment.partitions
        if received.generation != self._membership.generation:
            return False
        if not subscription.is_subscribed_to(partitions):
            self._membership.request_rejoin("the assignment contains topics that are not subscribed any more")
            return False
        changes = self._membership.assignment_changes(subscription.assigned, partitions)
        if changes.revoked:
            await self._revoke_reassigned(changes.revoked)
            if received.generation != self._membership.generation:
                return False  # the generation was lost meanwhile: all partitions are reported as lost
        self._add_matched_topics(partitions)
        self._notify_assignor(received)
        self._auto_commit.restart(self._context.now_ms())
        subscription.assign_from_subscription(partitions)
        await self._listener_invoker.assigned(subscription.listener, changes.added)
        return True

    async def _revoke_reassigned(self, partitions: frozenset[TopicPartition]) -> None:
        """Revoke partitions that go to others, after another commit: more may have been read meanwhile."""
        self._subscription.mark_pending_revocation(partitions)
        if self._auto_commit.enabled:
            consumed = self._subscription.all_consumed()
            offsets = {tp: offset for tp, offset in consumed.items() if tp in partitions}
            await self.commit_last(offsets, _REVOKING_COMMIT_MS)
        await self._listener_invoker.revoked(self._subscription.listener, partitions)

    def _add_matched_topics(self, partitions: Iterable[TopicPartition]) -> None:
        """Add topics that the leader matched and that are not in this member's metadata yet."""
        if self._subscription.pattern is not None:
            topics = self._subscription.subscribed_topics | {tp.topic for tp in partitions}
            self._subscription.set_matched(topics)
            self._joiner.joined_subscription = topics

    def _notify_assignor(self, received: AssignmentReceived) -> None:
        try:
            received.assignor.on_assignment(received.assignment, received.generation.id)
        except Exception as failure:  # noqa: BLE001 - an application's assignor may raise anything
            _log.failure("assignor_failed", failure, assignor=received.assignor.name)
            self._listener_invoker.record_failure(failure)
