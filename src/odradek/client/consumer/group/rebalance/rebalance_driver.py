"""Advances a member towards an assignment, as far as the time of a poll allows.

One step at a time: the last commit, revocation, the join, the new assignment. A join continues between polls.
"""

from __future__ import annotations

import asyncio
from typing import Final

from odradek.client.consumer.assignors import RebalanceProtocol
from odradek.client.consumer.group.callbacks import RebalanceListenerInvoker
from odradek.client.consumer.group.context import GroupContext
from odradek.client.consumer.group.membership import AssignmentReceived, MemberState, RebalanceFailed, Rejoin
from odradek.client.consumer.group.rebalance.assignment_handler import AssignmentHandler
from odradek.client.consumer.group.rebalance.group_joiner import GroupJoiner
from odradek.client.consumer.group.rebalance.rejoin_trigger import RejoinTrigger
from odradek.client.errors import backoff, broker_error
from odradek.model.client_errors import ClientError, TimedOut
from odradek.telemetry import events

_log: Final = events.logger("consumer")

_TOPICS_FRESH_MS: Final = 1000
"""Topics are requested once per rebalance, even if it takes several rounds."""


class RebalanceDriver:
    """Rebalances of one member."""

    def __init__(
        self,
        context: GroupContext,
        joiner: GroupJoiner,
        assignment_handler: AssignmentHandler,
        rejoin_trigger: RejoinTrigger,
        listener_invoker: RebalanceListenerInvoker,
    ) -> None:
        self._context = context
        self._network = context.network
        self._membership = context.membership
        self._subscription = context.subscription
        self._now_ms = context.now_ms
        self._notify = context.notify
        self._joiner = joiner
        self._assignment_handler = assignment_handler
        self._rejoin_trigger = rejoin_trigger
        self._listener_invoker = listener_invoker
        self._failures = 0
        self._backoff_until_ms = 0
        self._topics_updated_ms = -_TOPICS_FRESH_MS
        self._leave_count = 0
        """Lets a poll that is still joining notice that the member has left meanwhile."""
        metrics = context.network.metrics
        self._rebalances = metrics.counter("rebalance-total", "Completed rebalances.")
        self._failed_rebalances = metrics.counter("failed-rebalance-total", "Failed rebalances.")

    async def ensure_joined(self, deadline_ms: int) -> bool:
        """Join the group if needed; return True if the assignment may be used."""
        self._rejoin_trigger.check(self._network.metadata)
        leave_count = self._leave_count
        while self._membership.needs_join or self._joiner.is_joining:
            has_advanced = await self._advance(deadline_ms)
            if leave_count != self._leave_count:
                return False  # the application has left the group meanwhile
            if not has_advanced:
                return self._can_read_while_rebalancing
            self._listener_invoker.raise_failure()
            self._rejoin_trigger.check(self._network.metadata)
        return True

    async def finish_rebalance(self, deadline_ms: int) -> None:
        """Wait for the new generation: between JoinGroup and SyncGroup, a group accepts no commit.

        The new assignment is not applied: the member owns its partitions until it joins again.
        """
        try:
            while self._membership.is_rebalancing:
                if not self._joiner.is_joining and not await self._start_join(deadline_ms):
                    return
                outcome = await self._joiner.outcome(max(0, deadline_ms - self._now_ms()))
                if not isinstance(outcome, Rejoin):
                    return
                self._back_off(outcome)
        except ClientError as error:
            _log.info("rebalance_incomplete", group=self._context.group_id, reason=error)

    async def stop(self) -> None:
        """End a join in progress, and the poll that waits for it: the member leaves."""
        self._leave_count += 1
        await self._joiner.stop()

    @property
    def _can_read_while_rebalancing(self) -> bool:
        is_cooperative = self._membership.protocol is RebalanceProtocol.COOPERATIVE
        return is_cooperative and bool(self._subscription.assigned)

    async def _advance(self, deadline_ms: int) -> bool:
        """Take one step towards an assignment; return False if it did not complete in time."""
        if self._joiner.is_joining:
            return await self._await_join(deadline_ms)
        state, handler = self._membership.state, self._assignment_handler
        if state is MemberState.PREPARED:
            return await self._start_join(deadline_ms)
        if state is not MemberState.PREPARING:
            handler.prepare_join()
        elif handler.last_commit is None or await _is_done(
            handler.last_commit, max(0, deadline_ms - self._now_ms())
        ):
            await handler.revoke()
        else:
            return False
        return True

    async def _start_join(self, deadline_ms: int) -> bool:
        if self._now_ms() < self._backoff_until_ms and not await self._wait_backoff(deadline_ms):
            return False
        if self._subscription.pattern is not None and not await self._update_topics(deadline_ms):
            return False
        if self._membership.state is MemberState.PREPARED:
            self._joiner.start(self._notify)
        return True

    async def _wait_backoff(self, deadline_ms: int) -> bool:
        """Wait for the end of the backoff; if it is after the deadline, schedule a notification instead."""
        backoff_ms = self._backoff_until_ms - self._now_ms()
        if self._can_read_while_rebalancing or self._backoff_until_ms > deadline_ms:
            asyncio.get_running_loop().call_later(backoff_ms / 1000, self._notify)
            return False
        await self._context.clock.sleep_ms(backoff_ms)
        return True

    async def _update_topics(self, deadline_ms: int) -> bool:
        """Update metadata before matching a pattern: other members may know newer topics."""
        if self._now_ms() < self._topics_updated_ms + _TOPICS_FRESH_MS:
            return True
        try:
            remaining_ms = max(0, deadline_ms - self._now_ms())
            metadata = await self._network.await_update(self._network.request_update(), remaining_ms)
        except TimedOut:
            return False
        self._topics_updated_ms = self._now_ms()
        self._rejoin_trigger.check(metadata)
        return True

    async def _await_join(self, deadline_ms: int) -> bool:
        timeout_ms = 0 if self._can_read_while_rebalancing else max(0, deadline_ms - self._now_ms())
        outcome = await self._joiner.outcome(timeout_ms)
        if isinstance(outcome, AssignmentReceived):
            self._failures = 0
            self._rebalances.add(await self._assignment_handler.apply_assignment(outcome))
        elif isinstance(outcome, RebalanceFailed):
            self._failed_rebalances.add()
            operation = f"{outcome.api.value} of group {self._membership.group_id}"
            raise broker_error(outcome.code, operation, broker=self._joiner.broker)
        elif isinstance(outcome, Rejoin):
            self._failed_rebalances.add()
            self._back_off(outcome)
        return outcome is not None

    def _back_off(self, rejoin: Rejoin) -> None:
        if rejoin.backoff:
            backoff_ms = backoff(self._failures, self._context.settings, self._context.entropy)
            self._backoff_until_ms = self._now_ms() + backoff_ms
            self._failures += 1


async def _is_done(task: asyncio.Task[None], timeout_ms: int) -> bool:
    """Wait for a task without cancelling it at the timeout; return True if it is done."""
    if not task.done():
        await asyncio.wait([task], timeout=timeout_ms / 1000)
    return task.done()
