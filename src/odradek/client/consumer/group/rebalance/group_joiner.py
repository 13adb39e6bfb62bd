"""One attempt to join a group: find the coordinator, join, assign if elected to, hear the assignment.

An attempt goes on while the application does something else between two polls. What it asks is decided by
``Membership``; this carries it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from odradek.client.consumer.assignors import RebalanceProtocol, Topics, check_cooperative
from odradek.client.consumer.group.consumer_protocol import write_assignment
from odradek.client.consumer.group.context import GroupContext
from odradek.client.consumer.group.membership import Again, Fail, Lead, MemberState, Take
from odradek.client.consumer.group.rebalance.metadata_snapshot import snapshot
from odradek.client.consumer.group.requests import read_join
from odradek.config.client.connection import REQUEST_TIMEOUT_MS
from odradek.config.client.consumer import MAX_POLL_INTERVAL_MS
from odradek.model.client_errors import ClientError, ConnectionFailed, TimedOut, UnresolvedBootstrap
from odradek.model.errors import ErrorCode, ProtocolViolation
from odradek.telemetry import events

_log: Final = events.logger("consumer")

_JOIN_GRACE_MS: Final = 5000
"""A coordinator may wait for members as long as a rebalance may take, and then needs a moment."""


class GroupJoiner:
    """Attempts of one member.

    ``joined_subscription`` are those it joined for, ``assignment_snapshot`` is what it last made an
    assignment from.
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
        self.assignment_snapshot: Topics | None = None
        self.broker: str | None = None
        """The coordinator that was asked last, as errors call it."""
        self._under_way: asyncio.Task[Take | Again | Fail] | None = None
        self._joins = context.network.metrics.counter(
            "join-total", "Times that this member has asked to join its group."
        )
        self._syncs = context.network.metrics.counter(
            "sync-total", "Times that it has asked for its assignment."
        )

    # An attempt that goes on by itself.

    @property
    def is_joining(self) -> bool:
        """Whether an attempt was begun whose end has not been looked at."""
        return self._under_way is not None

    def begin(self, on_end: Callable[[], None]) -> None:
        self._under_way = asyncio.get_running_loop().create_task(self.attempt(), name="join")
        self._under_way.add_done_callback(lambda _attempt: on_end())

    async def outcome(self, timeout_ms: int) -> Take | Again | Fail | None:
        """How it ended; None if it has not. Raises what joining cannot mend."""
        attempt = self._under_way
        if attempt is None:
            return None
        if not attempt.done():
            await asyncio.wait([attempt], timeout=timeout_ms / 1000)
        if not attempt.done():
            return None
        self._under_way = None
        return Again() if attempt.cancelled() else attempt.result()

    async def stop(self) -> None:
        attempt, self._under_way = self._under_way, None
        if attempt is not None:
            attempt.cancel()
            await asyncio.wait([attempt])

    # One attempt.

    async def attempt(self) -> Take | Again | Fail:
        try:
            step = await self._attempt()
        except UnresolvedBootstrap:
            raise
        except (ConnectionFailed, TimedOut) as failed:
            _log.info("join_group_failed", group=self._membership.group_id, reason=failed)
            step = Again(rest=True, rediscover=True)
        except ProtocolViolation as broken:
            what = f"a member of group {self._membership.group_id} sent what cannot be read: {broken}"
            raise ClientError(what, retriable=True) from broken
        finally:
            # Whatever came in between: a member that has not got through may try again.
            self._membership.interrupted()
        if isinstance(step, Again) and step.rediscover:
            self._context.mark_coordinator_unknown()
        return step

    async def _attempt(self) -> Take | Again | Fail:
        membership = self._membership
        node = await self._context.coordinator(self._rebalance_timeout_ms)
        self.broker = self._network.broker_name(node)
        if membership.state is not MemberState.PREPARED:
            # A heartbeat has heard meanwhile that the generation is gone: there is more to give up first.
            return Again()
        self.joined_subscription = topics = self._subscription.subscribed_topics
        join = membership.join(self._subscription.assigned, topics)
        asked = membership.generation
        self._joins.add()
        answer = await self._network.send(node, self._requests.join(join), timeout_ms=self._join_timeout_ms)
        step = membership.joined(read_join(answer), asked)
        if isinstance(step, Again | Fail):
            return step
        self._on_joined()
        self._log_joined()
        assignments = await self._lead(step) if isinstance(step, Lead) else {}
        return await self._sync(node, assignments)

    async def _sync(self, node: int, assignments: dict[str, bytes]) -> Take | Again | Fail:
        asked = self._membership.generation
        self._syncs.add()
        request = self._requests.sync(asked, assignments)
        answer: Any = await self._network.send(node, request, timeout_ms=self._join_timeout_ms)
        return self._membership.synced(
            ErrorCode(answer.error_code), bytes(answer.assignment), asked, answer.protocol_name
        )

    async def _lead(self, lead: Lead) -> dict[str, bytes]:
        """Assign what there is to who is there."""
        wanted = frozenset(topic for member in lead.members for topic in member.topics)
        if self._subscription.set_group_topics(wanted):
            self._network.track_only_topics(self._subscription.group_topics)
        if not wanted <= self._network.metadata.topics.keys():
            # What is known may be a little old; a change is found when the assignment is compared with it.
            await self._network.await_update(self._network.request_update(), self._rebalance_timeout_ms)
        self.assignment_snapshot = topics = snapshot(self._network.metadata, wanted)
        if lead.skip:
            return {}
        assigned = lead.assignor.assign(topics, lead.members)
        if self._membership.protocol is RebalanceProtocol.COOPERATIVE:
            check_cooperative(lead.assignor.name, lead.members, assigned)
        return {member_id: write_assignment(assignment) for member_id, assignment in assigned.items()}

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
