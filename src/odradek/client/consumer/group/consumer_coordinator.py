"""A consumer's part in its group: joining, giving partitions up and taking them over, committing, leaving.

``ensure_active`` is called in every poll and brings the member forward by as much as the time allows; what
waits for others goes on between polls. Callbacks of the application are called in here and nowhere else, so
they run where it polls. Decisions are ``Membership``'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from odradek.client.consumer.assignors import Assignor, RebalanceProtocol, configured_assignors
from odradek.client.consumer.group.auto_commit import AutoCommit
from odradek.client.consumer.group.callbacks import Callbacks, OnCaller, RebalanceListenerInvoker, here
from odradek.client.consumer.group.context import GroupContext
from odradek.client.consumer.group.heartbeat_task import HeartbeatTask
from odradek.client.consumer.group.membership import Again, Fail, Membership, MemberState, Take
from odradek.client.consumer.group.offset_committer import Commits, Offsets, OnCommit
from odradek.client.consumer.group.rebalance.assignment_handler import AssignmentHandler
from odradek.client.consumer.group.rebalance.group_joiner import GroupJoiner
from odradek.client.consumer.group.rebalance.rejoin_trigger import RejoinTrigger
from odradek.client.consumer.group.requests import GroupRequests, read_leave
from odradek.client.consumer.positions.subscription_state import SubscriptionState
from odradek.client.errors import backoff, broker_error
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
from odradek.model.client_errors import ClientError, TimedOut
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.telemetry import events

_log: Final = events.logger("consumer")

_TOPICS_FRESH_MS: Final = 1000
"""A rebalance of several rounds asks for all topics once."""
_CLOSING_REBALANCE_MS: Final = 5000
"""How long ``close`` waits for a rebalance under way, so that its last commit is accepted."""


class ConsumerCoordinator:
    """The membership of one consumer. Starts nothing until the first ``ensure_active``.

    ``on_caller`` calls functions of the application where it is; ``on_news`` is called when the group wants
    the attention of a poll.
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
        on_caller: OnCaller = here,
        on_news: Callable[[], None] = lambda: None,
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
            network, settings, subscription, self._membership, self._requests, clock, entropy, on_news
        )
        self._network = network
        self._settings = settings
        self._subscription = subscription
        self._on_news = on_news
        self._now_ms = context.now_ms
        self._log = _log.bind(group=group_id)
        callbacks = Callbacks(on_caller)
        self._calls = RebalanceListenerInvoker(group_id, callbacks)
        self._heartbeats = HeartbeatTask(context, self._leave_silently)
        self._joiner = GroupJoiner(context, self._heartbeats.begin)
        self._commits = Commits(context, callbacks, interceptors or ConsumerInterceptors())
        self._auto_commit = AutoCommit(settings[ENABLE_AUTO_COMMIT], settings[AUTO_COMMIT_INTERVAL_MS])
        self._handover = AssignmentHandler(
            context, self._joiner, self._commits, self._auto_commit, self._calls
        )
        self._watch = RejoinTrigger(context, self._joiner, self.request_rejoin)
        self._poll_interval_ms = min(settings[HEARTBEAT_INTERVAL_MS], settings[MAX_POLL_INTERVAL_MS] // 2)
        self._failures = 0
        self._not_before_ms = 0
        self._topics_seen_ms = -_TOPICS_FRESH_MS
        self._is_listening = False
        self._departures = 0
        """Grows when the member leaves, so that a poll that is still joining knows that it is over."""
        self._declare_metrics()

    def _declare_metrics(self) -> None:
        metrics, assigned = self._network.metrics, self._subscription
        self._rebalances = metrics.counter("rebalance-total", "Rebalances that came to an end.")
        self._failed_rebalances = metrics.counter("failed-rebalance-total", "Rebalances that did not.")
        metrics.gauge(
            "assigned-partitions", "Partitions that this consumer reads now.", lambda: len(assigned.assigned)
        )

    # What a poll asks for.

    def polled(self, now_ms: int) -> None:
        """The application is at work."""
        self._heartbeats.polled(now_ms)

    def patience_ms(self, now_ms: int) -> int:
        """How long a poll may wait before it calls ``ensure_active`` again: it is at work all the while."""
        # A commit that is overdue waits for something else, a rebalance perhaps: nobody waits for it here.
        commit_ms = self._auto_commit.wait_ms(now_ms) or self._poll_interval_ms
        return min(self._poll_interval_ms, commit_ms)

    async def ensure_active(self, deadline_ms: int) -> bool:
        """Take part in the group: whether there is an assignment that may be used."""
        self.polled(self._now_ms())
        self._listen()
        failure, self._heartbeats.failure = self._heartbeats.failure, None
        if failure is not None:
            raise failure
        await self._commits.run_callbacks()
        # A wait for others is cut short, so that the next call can tell that the application still polls.
        until_ms = min(deadline_ms, self._now_ms() + self._poll_interval_ms)
        is_usable = not self._subscription.is_by_group or await self._take_part(until_ms)
        self.maybe_auto_commit(self._now_ms())
        return is_usable

    async def _take_part(self, deadline_ms: int) -> bool:
        self._watch.look(self._network.metadata)
        departures = self._departures
        while self._membership.needs_join or self._joiner.is_joining:
            is_through = await self._advance(deadline_ms)
            if departures != self._departures:
                return False  # the application has left the group meanwhile
            if not is_through:
                return self._reads_on
            self._calls.raise_failure()
            self._watch.look(self._network.metadata)
        return True

    @property
    def _reads_on(self) -> bool:
        """Whether partitions at hand may be read while the group rebalances."""
        is_cooperative = self._membership.protocol is RebalanceProtocol.COOPERATIVE
        return is_cooperative and bool(self._subscription.assigned)

    async def _advance(self, deadline_ms: int) -> bool:
        """One step towards an assignment; False if there is no time left for it."""
        if self._joiner.is_joining:
            return await self._await_attempt(deadline_ms)
        state = self._membership.state
        if state is MemberState.PREPARED:
            return await self._begin_attempt(deadline_ms)
        if state is not MemberState.PREPARING:
            self._handover.begin()
        elif self._handover.last_commit is None or await self._done(self._handover.last_commit, deadline_ms):
            await self._handover.give_up()
        else:
            return False
        return True

    # GroupJoiner.

    async def _begin_attempt(self, deadline_ms: int) -> bool:
        if self._now_ms() < self._not_before_ms and not await self._rest(deadline_ms):
            return False
        if self._subscription.pattern is not None and not await self._see_all_topics(deadline_ms):
            return False
        if self._membership.state is MemberState.PREPARED:
            self._joiner.begin(self._on_news)
        return True

    async def _rest(self, deadline_ms: int) -> bool:
        """After a failure: wait here, or be woken later."""
        rest_ms = self._not_before_ms - self._now_ms()
        if self._reads_on or self._not_before_ms > deadline_ms:
            asyncio.get_running_loop().call_later(rest_ms / 1000, self._on_news)
            return False
        await self._context.clock.sleep_ms(rest_ms)
        return True

    async def _see_all_topics(self, deadline_ms: int) -> bool:
        """A pattern is matched against topics as they are now, or somebody else's newer ones surprise."""
        if self._now_ms() < self._topics_seen_ms + _TOPICS_FRESH_MS:
            return True
        try:
            left_ms = max(0, deadline_ms - self._now_ms())
            metadata = await self._network.await_update(self._network.request_update(), left_ms)
        except TimedOut:
            return False
        self._topics_seen_ms = self._now_ms()
        self._watch.look(metadata)
        return True

    async def _await_attempt(self, deadline_ms: int) -> bool:
        left_ms = 0 if self._reads_on else max(0, deadline_ms - self._now_ms())
        step = await self._joiner.outcome(left_ms)
        if isinstance(step, Take):
            self._failures = 0
            self._rebalances.add(await self._handover.take_over(step))
        elif isinstance(step, Fail):
            self._failed_rebalances.add()
            what = f"could not {step.call.value} {self._membership.group_id}"
            raise broker_error(step.code, what, broker=self._joiner.broker)
        elif isinstance(step, Again):
            self._failed_rebalances.add()
            self._back_off(step)
        return step is not None

    def _back_off(self, step: Again) -> None:
        if step.rest:
            rest_ms = backoff(self._failures, self._settings, self._context.entropy)
            self._not_before_ms = self._now_ms() + rest_ms
            self._failures += 1

    # Reasons to join again.

    def request_rejoin(self, reason: str) -> None:
        """Rebalance the group with the next poll."""
        self._log.info("rejoin_requested", reason=reason)
        self._membership.request_rejoin(reason)
        self._on_news()

    def _listen(self) -> None:
        if not self._is_listening:
            self._is_listening = True
            self._network.add_listener(self._on_image)

    def _on_image(self, metadata: ClusterMetadata) -> None:
        if self._subscription.is_by_group:
            self._watch.look(metadata)

    # Offsets.

    async def commit(self, offsets: Offsets, timeout_ms: int) -> None:
        """Commit; returns when it is done, and raises if it cannot be."""
        await self._commits.commit(offsets, timeout_ms)

    def commit_async(self, offsets: Offsets, on_commit: OnCommit | None = None) -> None:
        """Commit without waiting; ``on_commit(offsets, error)`` is called in a later poll or close."""
        self._commits.commit_async(offsets, on_commit)

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where there is nothing."""
        return await self._commits.committed(partitions, timeout_ms)

    def maybe_auto_commit(self, now_ms: int) -> None:
        """Commit what was consumed, if it is time."""
        if not self._auto_commit.is_due(now_ms):
            return
        may_commit = (
            not self._subscription.is_by_group or self._membership.committing_generation() is not None
        )
        consumed = self._subscription.all_consumed() if may_commit else {}
        if consumed:
            self._auto_commit.begin(now_ms)
            self._commits.commit_async(consumed, self._auto_committed)
        else:
            self._auto_commit.restart(now_ms)

    def _auto_committed(self, offsets: Offsets, error: ClientError | None) -> None:
        del offsets
        may_retry = error is not None and error.retriable
        self._auto_commit.ended(self._now_ms(), self._settings[RETRY_BACKOFF_MS] if may_retry else None)
        if error is not None:
            self._log.warning("auto_commit_failed", reason=error)

    def group_metadata(self) -> GroupMetadata:
        """What a transaction must say to commit this consumer's offsets."""
        return self._membership.metadata()

    # Leaving.

    async def leave(self, timeout_ms: int, reason: str) -> None:
        """Give everything up and leave the group; what a listener raised is raised at the end."""
        await self._leave(timeout_ms, reason, tells=True)
        self._calls.raise_failure()

    async def close(self, timeout_ms: int) -> None:
        """Commit, call back for commits, leave, and end all tasks."""
        deadline_ms = self._now_ms() + timeout_ms
        try:
            if self._auto_commit.enabled and (consumed := self._subscription.all_consumed()):
                await self._finish_rebalance(self._now_ms() + min(timeout_ms, _CLOSING_REBALANCE_MS))
                await self._handover.commit_last(consumed, max(0, deadline_ms - self._now_ms()))
            await self._commits.settle(max(0, deadline_ms - self._now_ms()))
            await self._commits.run_callbacks()
            tells = self._settings[INTERNAL_LEAVE_GROUP_ON_CLOSE]
            left_ms = max(0, deadline_ms - self._now_ms())
            await self._leave(left_ms, "the consumer is being closed", tells=tells)
        finally:
            self._network.remove_listener(self._on_image)
            self._is_listening = False
            await self._heartbeats.stop()
            await self._commits.end()
        self._calls.raise_failure()

    async def _finish_rebalance(self, deadline_ms: int) -> None:
        """Wait for the new generation: between JoinGroup and SyncGroup, a group accepts no commit.

        The assignment is not taken over. What the member holds stays its own until it joins once more.
        """
        try:
            while self._membership.is_rebalancing:
                if not self._joiner.is_joining and not await self._begin_attempt(deadline_ms):
                    return
                step = await self._joiner.outcome(max(0, deadline_ms - self._now_ms()))
                if not isinstance(step, Again):
                    return
                self._back_off(step)
        except ClientError as failed:
            self._log.info("rebalance_incomplete", reason=failed)

    async def _leave(self, timeout_ms: int, reason: str, *, tells: bool) -> None:
        self._departures += 1
        await self._joiner.stop()
        await self._handover.stop()
        await self._handover.give_up_everything()
        member_id = self._membership.leave(reason)
        self._joiner.joined_subscription = self._joiner.assignment_snapshot = None
        self._subscription.forget_group_topics()
        await self._heartbeats.stop()
        if member_id is not None and tells:
            await self._say_farewell(member_id, timeout_ms, reason)

    async def _leave_silently(self, reason: str) -> None:
        """Leave from within the heartbeats: callbacks wait for the next poll, which finds everything lost."""
        member_id = self._membership.leave(reason)
        if member_id is not None:
            await self._say_farewell(member_id, self._settings[REQUEST_TIMEOUT_MS], reason)

    async def _say_farewell(self, member_id: str, timeout_ms: int, reason: str) -> None:
        """A group that cannot be told finds out when the session ends."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                node = await self._context.coordinator(timeout_ms)
                answer = await self._network.send(node, self._requests.leave(member_id, reason))
        except (ClientError, TimeoutError) as failed:
            self._log.info("leave_group_failed", reason=str(failed) or "no answer in time")
            return
        code = read_leave(answer)
        self._log.info("group_left", member=member_id, reason=reason, code=code.name)
        if code is ErrorCode.NOT_COORDINATOR:
            self._context.mark_coordinator_unknown()

    # Waiting.

    async def _done(self, task: asyncio.Task[object], deadline_ms: int) -> bool:
        """Wait for something that goes on if this wait is over before."""
        if not task.done():
            await asyncio.wait([task], timeout=max(0, deadline_ms - self._now_ms()) / 1000)
        return task.done()
