"""Joining a group: find the coordinator, JoinGroup, assign partitions as the leader, SyncGroup.

An attempt continues between polls. ``Membership`` decides what to send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from odradek.client.consumer.assignors import PartitionRacks, RebalanceProtocol, check_cooperative
from odradek.client.consumer.group.consumer_protocol import encode_assignment
from odradek.client.consumer.group.context import GroupContext
from odradek.client.consumer.group.membership import (
    AssignmentReceived,
    LeaderElected,
    MemberState,
    RebalanceFailed,
    Rejoin,
)
from odradek.client.consumer.group.rebalance.metadata_snapshot import snapshot
from odradek.client.consumer.group.requests import parse_join
from odradek.config.client.connection import REQUEST_TIMEOUT_MS
from odradek.config.client.consumer import MAX_POLL_INTERVAL_MS
from odradek.model.client_errors import ClientError, ConnectionFailed, TimedOut, UnresolvedBootstrap
from odradek.model.errors import ErrorCode, ProtocolViolation
from odradek.telemetry import events

_log: Final = events.logger("consumer")

_JOIN_GRACE_MS: Final = 5000
"""Added to the rebalance timeout, for which the coordinator may wait for members."""

JoinOutcome: TypeAlias = AssignmentReceived | Rejoin | RebalanceFailed


class GroupJoiner:
    """Join attempts of one member.

    ``joined_subscription`` holds the topics it joined with, ``assignment_snapshot`` the metadata of its last
    assignment as the leader.
    """

    def __init__(self, context: GroupContext, on_joined: Callable[[], None]) -> None:
        self._context = context
        self._network = context.network
        self._membership = context.membership
        self._requests = context.requests
        self._subscription = context.subscription
        self._on_joined = on_joined
        self._rebalance_timeout_ms = context.settings[MAX_POLL_INTERVAL_MS]
        self._join_timeout_ms = max(
            context.settings[REQUEST_TIMEOUT_MS], self._rebalance_timeout_ms + _JOIN_GRACE_MS
        )
        self.joined_subscription: frozenset[str] | None = None
        self.assignment_snapshot: PartitionRacks | None = None
        self.broker: str | None = None
        """Name of the coordinator used last, for errors."""
        self._attempt_task: asyncio.Task[JoinOutcome] | None = None
        self._join_count = context.network.metrics.counter("join-total", "JoinGroup requests sent.")
        self._sync_count = context.network.metrics.counter("sync-total", "SyncGroup requests sent.")

    # Attempt in the background.

    @property
    def is_joining(self) -> bool:
        """True if an attempt was started and its outcome was not taken."""
        return self._attempt_task is not None

    def start(self, on_done: Callable[[], None]) -> None:
        self._attempt_task = asyncio.get_running_loop().create_task(self.attempt(), name="join")
        self._attempt_task.add_done_callback(lambda _task: on_done())

    async def outcome(self, timeout_ms: int) -> JoinOutcome | None:
        """Take the outcome of the attempt; None if it has not ended. Raises non-retriable errors."""
        attempt = self._attempt_task
        if attempt is None:
            return None
        if not attempt.done():
            await asyncio.wait([attempt], timeout=timeout_ms / 1000)
        if not attempt.done():
            return None
        self._attempt_task = None
        return Rejoin() if attempt.cancelled() else attempt.result()

    async def stop(self) -> None:
        attempt, self._attempt_task = self._attempt_task, None
        if attempt is not None:
            attempt.cancel()
            await asyncio.wait([attempt])

    # One attempt.

    async def attempt(self) -> JoinOutcome:
        try:
            outcome = await self._join()
        except UnresolvedBootstrap:
            raise
        except (ConnectionFailed, TimedOut) as error:
            _log.info("join_group_failed", group=self._membership.group_id, reason=error)
            outcome = Rejoin(backoff=True, rediscover=True)
        except ProtocolViolation as error:
            message = f"a member of group {self._membership.group_id} sent an invalid subscription: {error}"
            raise ClientError(message, retriable=True) from error
        finally:
            # Whatever happened: a member without an assignment may join again.
            self._membership.abort_join()
        if isinstance(outcome, Rejoin) and outcome.rediscover:
            self._context.mark_coordinator_unknown()
        return outcome

    async def _join(self) -> JoinOutcome:
        membership = self._membership
        node = await self._context.coordinator(self._rebalance_timeout_ms)
        self.broker = self._network.broker_name(node)
        if membership.state is not MemberState.PREPARED:
            # A heartbeat has lost the generation meanwhile: revoke the rest first.
            return Rejoin()
        self.joined_subscription = topics = self._subscription.subscribed_topics
        join = membership.join(self._subscription.assigned, topics)
        generation = membership.generation
        self._join_count.add()
        response = await self._network.send(node, self._requests.join(join), timeout_ms=self._join_timeout_ms)
        outcome = membership.handle_join(parse_join(response), generation)
        if isinstance(outcome, Rejoin | RebalanceFailed):
            return outcome
        self._on_joined()
        self._log_joined()
        assignments = await self._assign(outcome) if isinstance(outcome, LeaderElected) else {}
        return await self._sync(node, assignments)

    async def _sync(self, node: int, assignments: dict[str, bytes]) -> JoinOutcome:
        generation = self._membership.generation
        self._sync_count.add()
        request = self._requests.sync(generation, assignments)
        response: Any = await self._network.send(node, request, timeout_ms=self._join_timeout_ms)
        return self._membership.handle_sync(
            ErrorCode(response.error_code), bytes(response.assignment), generation, response.protocol_name
        )

    async def _assign(self, group: LeaderElected) -> dict[str, bytes]:
        """Assign partitions to all members, as the leader."""
        topics = frozenset(topic for member in group.members for topic in member.topics)
        if self._subscription.set_group_topics(topics):
            self._network.track_only_topics(self._subscription.group_topics)
        if not topics <= self._network.metadata.topics.keys():
            # Known topics may be slightly stale: ``RejoinTrigger`` finds changes later.
            await self._network.await_update(self._network.request_update(), self._rebalance_timeout_ms)
        self.assignment_snapshot = partitions = snapshot(self._network.metadata, topics)
        if group.skip:
            return {}
        assigned = group.assignor.assign(partitions, group.members)
        if self._membership.protocol is RebalanceProtocol.COOPERATIVE:
            check_cooperative(group.assignor.name, group.members, assigned)
        return {member_id: encode_assignment(assignment) for member_id, assignment in assigned.items()}

    def _log_joined(self) -> None:
        generation = self._membership.generation
        _log.info(
            "group_joined",
            group=self._membership.group_id,
            generation=generation.id,
            member=generation.member_id,
            assignor=generation.protocol,
            leader=self._membership.is_leader,
        )
