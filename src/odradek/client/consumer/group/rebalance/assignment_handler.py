"""Partitions that go to others, and partitions that come: the order in which everybody hears of it.

Before joining: the last commit, the revoked callback, and only then the partitions go. After the assignment
has come: the last commit and the revoked callback for what others are to get, the assignor, the change
itself, the assigned callback. An exception of the application's is raised when all of that is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from odradek.client.consumer.assignors import RebalanceProtocol
from odradek.client.consumer.group.auto_commit import AutoCommit
from odradek.client.consumer.group.callbacks import RebalanceListenerInvoker
from odradek.client.consumer.group.context import GroupContext
from odradek.client.consumer.group.membership import GiveUp, MemberState, Take
from odradek.client.consumer.group.offset_committer import Commits, Offsets
from odradek.client.consumer.group.rebalance.group_joiner import GroupJoiner
from odradek.config.client.consumer import MAX_POLL_INTERVAL_MS
from odradek.model.client_errors import ClientClosed, ClientError
from odradek.model.ids import TopicPartition
from odradek.telemetry import events

_log: Final = events.logger("consumer")

_REVOKING_COMMIT_MS: Final = 5000
"""How long partitions that go to others are kept for a last commit."""


class AssignmentHandler:
    """Giving up and taking over, for one member."""

    def __init__(
        self,
        context: GroupContext,
        joining: GroupJoiner,
        commits: Commits,
        auto_commit: AutoCommit,
        calls: RebalanceListenerInvoker,
    ) -> None:
        self._context = context
        self._membership = context.membership
        self._subscription = context.subscription
        self._joiner = joining
        self._commits = commits
        self._auto_commit = auto_commit
        self._calls = calls
        self._giving_up: GiveUp | None = None
        self.last_commit: asyncio.Task[None] | None = None
        """Goes on while the application does something else; partitions are kept until it is done."""

    # Before joining.

    def begin(self) -> None:
        """See what has to be given up, and commit while it is still here."""
        topics = self._subscription.subscribed_topics
        self._giving_up = giving_up = self._membership.begin(self._subscription.assigned, topics)
        if giving_up.partitions:
            self._subscription.mark_pending_revocation(giving_up.partitions)
        if self._auto_commit.enabled and not giving_up.lost and self.last_commit is None:
            timeout_ms = self._context.settings[MAX_POLL_INTERVAL_MS]
            commit = self.commit_last(self._subscription.all_consumed(), timeout_ms)
            self.last_commit = asyncio.get_running_loop().create_task(commit, name="last commit")

    async def give_up(self) -> None:
        """Part with it, once the last commit is done."""
        self.last_commit = None
        giving_up, self._giving_up = self._giving_up, None
        if giving_up is not None:
            await self._part_with(giving_up)
        # The callback may have taken so long that the group has gone on meanwhile.
        if self._membership.state is MemberState.PREPARING:
            self._membership.prepared()
            self._subscription.forget_group_topics()
            self._joiner.assignment_snapshot = None

    async def _part_with(self, giving_up: GiveUp) -> None:
        subscription, gone = self._subscription, giving_up.partitions
        if giving_up.lost:
            if gone:
                await self._calls.lost(subscription.listener, gone)
        elif gone or self._membership.protocol is RebalanceProtocol.EAGER:
            await self._calls.revoked(subscription.listener, gone)
        if gone and subscription.is_by_group:
            subscription.assign_from_subscription(tp for tp in [*subscription.assigned] if tp not in gone)

    async def give_up_everything(self) -> None:
        """On the way out of the group."""
        self._giving_up = None
        subscription, held = self._subscription, frozenset(self._subscription.assigned)
        if not subscription.is_by_group or not held:
            return
        if self._membership.generation.id < 0:
            await self._calls.lost(subscription.listener, held)
        else:
            await self._calls.revoked(subscription.listener, held)
        subscription.assign_from_subscription([])

    async def stop(self) -> None:
        """End a last commit that is under way."""
        commit, self.last_commit = self.last_commit, None
        if commit is not None:
            commit.cancel()
            await asyncio.wait([commit])

    async def commit_last(self, offsets: Offsets, timeout_ms: int) -> None:
        """Commit before partitions go; a failure means that others read some records again."""
        try:
            await self._commits.send(offsets, timeout_ms, is_last=True)
        except ClientClosed:
            raise
        except ClientError as failed:
            _log.warning("auto_commit_failed", group=self._membership.group_id, reason=failed)

    # After the assignment has come.

    async def take_over(self, take: Take) -> bool:
        """Read what was assigned from now on; False if that is not what is wanted, or not valid any more."""
        subscription, partitions = self._subscription, take.assignment.partitions
        if take.generation != self._membership.generation:
            return False
        if not subscription.fits(partitions):
            self._membership.request_rejoin("the assignment does not fit the subscription, which has changed")
            return False
        changes = self._membership.changes(subscription.assigned, partitions)
        if changes.revoked:
            await self._revoke(changes.revoked)
            if take.generation != self._membership.generation:
                return False  # the group has gone on meanwhile: what is held is lost, and told as such
        self._remember_matches(partitions)
        self._tell_assignor(take)
        self._auto_commit.restart(self._context.now_ms())
        subscription.assign_from_subscription(partitions)
        await self._calls.assigned(subscription.listener, changes.added)
        return True

    async def _revoke(self, partitions: frozenset[TopicPartition]) -> None:
        """Part with what others are to get, with a last commit: more may have been read meanwhile."""
        self._subscription.mark_pending_revocation(partitions)
        if self._auto_commit.enabled:
            consumed = self._subscription.all_consumed()
            going = {tp: offset for tp, offset in consumed.items() if tp in partitions}
            await self.commit_last(going, _REVOKING_COMMIT_MS)
        await self._calls.revoked(self._subscription.listener, partitions)

    def _remember_matches(self, partitions: Iterable[TopicPartition]) -> None:
        """A leader may know of matching topics that this member has not heard of yet."""
        if self._subscription.pattern is not None:
            topics = self._subscription.subscribed_topics | {tp.topic for tp in partitions}
            self._subscription.set_matched(topics)
            self._joiner.joined_subscription = topics

    def _tell_assignor(self, take: Take) -> None:
        try:
            take.assignor.on_assignment(take.assignment, take.generation.id)
        except Exception as failure:  # noqa: BLE001 - an application's assignor may raise anything
            _log.failure("assignor_failed", failure, assignor=take.assignor.name)
            self._calls.keep(failure)
