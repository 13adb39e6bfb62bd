"""The consumer coordinator: joins the group, applies assignments, commits offsets, leaves.

Every poll calls ``ensure_active``, which advances the membership as far as the timeout allows; requests
continue between polls. Callbacks of the application are called only from here, so they run inside its calls.
``Membership`` makes the decisions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from odradek.client.consumer.assignors import Assignor, configured_assignors
from odradek.client.consumer.group.auto_commit import AutoCommit
from odradek.client.consumer.group.callbacks import (
    Callbacks,
    OnCaller,
    RebalanceListenerInvoker,
    call_directly,
)
from odradek.client.consumer.group.context import GroupContext
from odradek.client.consumer.group.heartbeat_task import HeartbeatTask
from odradek.client.consumer.group.membership import Membership
from odradek.client.consumer.group.offset_committer import OffsetCommitCallback, OffsetCommitter, Offsets
from odradek.client.consumer.group.rebalance.assignment_handler import AssignmentHandler
from odradek.client.consumer.group.rebalance.group_joiner import GroupJoiner
from odradek.client.consumer.group.rebalance.rebalance_driver import RebalanceDriver
from odradek.client.consumer.group.rebalance.rejoin_trigger import RejoinTrigger
from odradek.client.consumer.group.requests import GroupRequests, parse_leave
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.client.interceptors import ConsumerInterceptors
from odradek.client.network.network_client import ClusterMetadata, NetworkClient
from odradek.client.values import GroupMetadata, OffsetAndMetadata
from odradek.config.client.connection import CLIENT_RACK, REQUEST_TIMEOUT_MS, RETRY_BACKOFF_MS
from odradek.config.client.consumer import (
    AUTO_COMMIT_INTERVAL_MS,
    ENABLE_AUTO_COMMIT,
    GROUP_ID,
    GROUP_INSTANCE_ID,
    HEARTBEAT_INTERVAL_MS,
    INTERNAL_LEAVE_GROUP_ON_CLOSE,
    MAX_POLL_INTERVAL_MS,
    PARTITION_ASSIGNMENT_STRATEGY,
    SESSION_TIMEOUT_MS,
)
from odradek.config.definition import Settings
from odradek.model.client_errors import ClientError
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.telemetry import events

_log: Final = events.logger("consumer")

_CLOSING_REBALANCE_MS: Final = 5000
"""Time ``close`` waits for a rebalance in progress, so that its last commit is accepted."""


class ConsumerCoordinator:
    """Starts nothing until the first ``ensure_active``.

    ``on_caller`` runs functions of the application in its thread; ``notify`` is called when a waiting poll
    should check again.
    """

    def __init__(
        self,
        network: NetworkClient,
        settings: Settings,
        subscription: SubscriptionState,
        clock: Clock,
        entropy: Entropy,
        assignors: Sequence[Assignor] = (),
        interceptors: ConsumerInterceptors | None = None,
        on_caller: OnCaller = call_directly,
        notify: Callable[[], None] = lambda: None,
    ) -> None:
        group_id, instance_id = settings[GROUP_ID] or "", settings[GROUP_INSTANCE_ID]
        strategy = settings[PARTITION_ASSIGNMENT_STRATEGY]
        self._membership = Membership(
            group_id, instance_id, configured_assignors(strategy, assignors), settings[CLIENT_RACK] or None
        )
        self._requests = GroupRequests(
            group_id, instance_id, settings[SESSION_TIMEOUT_MS], settings[MAX_POLL_INTERVAL_MS]
        )
        self._context = context = GroupContext(
            network, settings, subscription, self._membership, self._requests, clock, entropy, notify
        )
        self._network = network
        self._settings = settings
        self._subscription = subscription
        self._notify = notify
        self._now_ms = context.now_ms
        self._log = _log.bind(group=group_id)
        callbacks = Callbacks(on_caller)
        self._listener_invoker = RebalanceListenerInvoker(group_id, callbacks)
        self._heartbeats = HeartbeatTask(context, self._leave_without_callbacks)
        self._joiner = GroupJoiner(context, self._heartbeats.start)
        self._committer = OffsetCommitter(context, callbacks, interceptors or ConsumerInterceptors())
        self._auto_commit = AutoCommit(settings[ENABLE_AUTO_COMMIT], settings[AUTO_COMMIT_INTERVAL_MS])
        self._assignment_handler = AssignmentHandler(
            context, self._joiner, self._committer, self._auto_commit, self._listener_invoker
        )
        self._rejoin_trigger = RejoinTrigger(context, self._joiner, self.request_rejoin)
        self._rebalance_driver = RebalanceDriver(
            context, self._joiner, self._assignment_handler, self._rejoin_trigger, self._listener_invoker
        )
        self._poll_interval_ms = min(settings[HEARTBEAT_INTERVAL_MS], settings[MAX_POLL_INTERVAL_MS] // 2)
        self._is_listening = False
        network.metrics.gauge(
            "assigned-partitions", "Partitions assigned to this consumer.", lambda: len(subscription.assigned)
        )

    # Poll.

    def record_poll(self, now_ms: int) -> None:
        """Restart the poll timeout (``max.poll.interval.ms``)."""
        self._heartbeats.record_poll(now_ms)

    def time_to_next_poll_ms(self, now_ms: int) -> int:
        """Return how long a poll may wait before it must call ``ensure_active`` again."""
        # An overdue auto commit waits for something else, such as a rebalance.
        commit_ms = self._auto_commit.wait_ms(now_ms) or self._poll_interval_ms
        return min(self._poll_interval_ms, commit_ms)

    async def ensure_active(self, deadline_ms: int) -> bool:
        """Join the group if needed, and auto-commit; return True if the assignment may be used."""
        self.record_poll(self._now_ms())
        self._listen()
        failure, self._heartbeats.failure = self._heartbeats.failure, None
        if failure is not None:
            raise failure
        await self._committer.run_callbacks()
        # Waits are cut short, so that the next call records that the application still polls.
        until_ms = min(deadline_ms, self._now_ms() + self._poll_interval_ms)
        is_usable = not self._subscription.is_auto_assigned or await self._rebalance_driver.ensure_joined(
            until_ms
        )
        self.maybe_auto_commit(self._now_ms())
        return is_usable

    # Rejoining.

    def request_rejoin(self, reason: str) -> None:
        """Rejoin the group with the next poll."""
        self._log.info("rejoin_requested", reason=reason)
        self._membership.request_rejoin(reason)
        self._notify()

    def _listen(self) -> None:
        if not self._is_listening:
            self._is_listening = True
            self._network.add_listener(self._on_metadata_update)

    def _on_metadata_update(self, metadata: ClusterMetadata) -> None:
        if self._subscription.is_auto_assigned:
            self._rejoin_trigger.check(metadata)

    # Offsets.

    async def commit(self, offsets: Offsets, timeout_ms: int) -> None:
        """Commit and wait; raise if it fails."""
        await self._committer.commit(offsets, timeout_ms)

    def commit_async(self, offsets: Offsets, on_commit: OffsetCommitCallback | None = None) -> None:
        """Commit without waiting; ``on_commit(offsets, error)`` is called in a later poll or close."""
        self._committer.commit_async(offsets, on_commit)

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return committed offsets by partition; None where there is none."""
        return await self._committer.committed(partitions, timeout_ms)

    def maybe_auto_commit(self, now_ms: int) -> None:
        """Commit consumed offsets, if an auto commit is due."""
        if not self._auto_commit.is_due(now_ms):
            return
        can_commit = (
            not self._subscription.is_auto_assigned or self._membership.committing_generation() is not None
        )
        consumed = self._subscription.all_consumed() if can_commit else {}
        if consumed:
            self._auto_commit.start(now_ms)
            self._committer.commit_async(consumed, self._on_auto_commit)
        else:
            self._auto_commit.restart(now_ms)

    def _on_auto_commit(self, offsets: Offsets, error: ClientError | None) -> None:
        del offsets
        can_retry = error is not None and error.retriable
        self._auto_commit.complete(self._now_ms(), self._settings[RETRY_BACKOFF_MS] if can_retry else None)
        if error is not None:
            self._log.warning("auto_commit_failed", reason=error)

    def group_metadata(self) -> GroupMetadata:
        """Return the group metadata that a transaction needs to commit this consumer's offsets."""
        return self._membership.metadata()

    # Leaving.

    async def leave(self, timeout_ms: int, reason: str) -> None:
        """Revoke all partitions and leave the group; then raise what a listener raised."""
        await self._leave(timeout_ms, reason, send_request=True)
        self._listener_invoker.raise_failure()

    async def close(self, timeout_ms: int) -> None:
        """Commit, run commit callbacks, leave the group, and stop all tasks."""
        deadline_ms = self._now_ms() + timeout_ms
        try:
            if self._auto_commit.enabled and (consumed := self._subscription.all_consumed()):
                await self._rebalance_driver.finish_rebalance(
                    self._now_ms() + min(timeout_ms, _CLOSING_REBALANCE_MS)
                )
                await self._assignment_handler.commit_last(consumed, max(0, deadline_ms - self._now_ms()))
            await self._committer.wait_pending(max(0, deadline_ms - self._now_ms()))
            await self._committer.run_callbacks()
            send_request = self._settings[INTERNAL_LEAVE_GROUP_ON_CLOSE]
            remaining_ms = max(0, deadline_ms - self._now_ms())
            await self._leave(remaining_ms, "the consumer is being closed", send_request=send_request)
        finally:
            self._network.remove_listener(self._on_metadata_update)
            self._is_listening = False
            await self._heartbeats.stop()
            await self._committer.close()
        self._listener_invoker.raise_failure()

    async def _leave(self, timeout_ms: int, reason: str, *, send_request: bool) -> None:
        await self._rebalance_driver.stop()
        await self._assignment_handler.stop()
        await self._assignment_handler.revoke_all()
        member_id = self._membership.leave(reason)
        self._joiner.joined_subscription = self._joiner.assignment_snapshot = None
        self._subscription.forget_group_topics()
        await self._heartbeats.stop()
        if member_id is not None and send_request:
            await self._send_leave_group(member_id, timeout_ms, reason)

    async def _leave_without_callbacks(self, reason: str) -> None:
        """Leave from the heartbeat task; the next poll reports all partitions as lost."""
        member_id = self._membership.leave(reason)
        if member_id is not None:
            await self._send_leave_group(member_id, self._settings[REQUEST_TIMEOUT_MS], reason)

    async def _send_leave_group(self, member_id: str, timeout_ms: int, reason: str) -> None:
        """Send LeaveGroup; if it fails, the session expires later."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                node = await self._context.coordinator(timeout_ms)
                response = await self._network.send(node, self._requests.leave(member_id, reason))
        except (ClientError, TimeoutError) as error:
            self._log.info("leave_group_failed", reason=str(error) or "request timed out")
            return
        code = parse_leave(response)
        self._log.info("group_left", member=member_id, reason=reason, code=code.name)
        if code is ErrorCode.NOT_COORDINATOR:
            self._context.mark_coordinator_unknown()
