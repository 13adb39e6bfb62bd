"""The controller's runtime, from election to resignation: it runs the handlers of events, one at a time.

A handler (``machine``) is a generator of actions without input and output. The runtime executes each action
and sends its result in; no other event is handled meanwhile, so that none sees a half-applied change.
Requests to brokers are only queued (``channels``), and their answers come back as later events; changes in
the store come back as reads (``watches``).

While the store is unavailable an action is retried for a while. A controller that was replaced, and one whose
action or handler fails for good, stops acting (``on_failed``): its state is ahead of the store and the
brokers, and only another election, which reads all state again, repairs that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from odradek.controller.actions import (
    Action,
    GiveTurn,
    RemoveTopic,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    Steps,
)
from odradek.controller.broker_failure_timer import BrokerFailureTimer
from odradek.controller.channels import BrokerRequest, ControllerChannels, OpenChannel
from odradek.controller.event_queue import EventQueue, QueuedEvent
from odradek.controller.events import (
    BrokersChanged,
    ContextLoaded,
    ControllerEvent,
    LeaderAndIsrAnswered,
    LeaderBalanceDue,
    ReplicasOffline,
    ReplicasOnline,
    StopReplicaAnswered,
    UncleanElectionEnabled,
)
from odradek.controller.machine.context import ControllerContext, ControllerSettings
from odradek.controller.machine.dispatch import handle
from odradek.controller.store_actions import FATAL, StoreActions
from odradek.controller.watches import ControllerWatches
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.replication.control_requests import ControlResult
from odradek.store.controller_election import Fence
from odradek.store.partition_states import read_partition_states_and_zxids
from odradek.store.port import Store, StoreError, Unavailable
from odradek.telemetry import events

T = TypeVar("T")

RETRY_WAITS_MS: Final = (100, 500, 2_000, 10_000, 30_000)
"""Waits between attempts while the store is unavailable. After the last one the controller fails."""

FIRST_LEADER_BALANCE_MS: Final = 5_000
"""Time from the election to the first check of the balance of leaders."""

log = events.logger("controller")


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    settings: ControllerSettings = field(default_factory=ControllerSettings)
    is_unclean_default: Callable[[], bool] = lambda: False
    """Returns ``unclean.leader.election.enable`` of topics without an override."""
    leader_balance_interval_ms: int | None = None
    """Interval of the checks of the balance of leaders; None disables them."""


class Controller:
    """The controller on this broker, under one election."""

    def __init__(
        self,
        store: Store,
        fence: Fence,
        open_channel: OpenChannel,
        clock: Clock,
        entropy: Entropy,
        options: ControllerOptions | None = None,
    ) -> None:
        self.on_failed: Callable[[], None] = lambda: None
        """Called once if this controller cannot go on after its start; it has stopped acting by then."""
        self.on_topic_deleted: Callable[[str], None] = lambda topic: None
        """Called when a topic's znodes are removed, and when its deletion must wait for a broker."""
        self._deleted_topics: list[str] = []
        self._options = options or ControllerOptions()
        self._store = store
        self._clock = clock
        self._fence = fence
        self._channels = ControllerChannels(open_channel, clock.sleep_ms, self._on_answered, self._fail)
        self._context = ControllerContext(fence.controller_epoch, self._options.settings)
        self._events = EventQueue()
        self._watches = ControllerWatches(store, self._context, self._events.put_read, clock.monotonic_ms)
        self._broker_failure_timer = BrokerFailureTimer(clock.monotonic_ms)
        self._store_actions = StoreActions(store, fence, entropy, self._options.is_unclean_default)
        self._is_active = True
        self._is_loaded = False
        self._failure: Exception | None = None
        self._task: asyncio.Task[None] | None = None
        self._balance_timer: asyncio.Task[None] | None = None

    @property
    def controller_epoch(self) -> int:
        return self._fence.controller_epoch

    @property
    def context(self) -> ControllerContext:
        """The controller's view of the cluster, for requests that it answers."""
        return self._context

    @property
    def fence(self) -> Fence:
        return self._fence

    @property
    def is_active(self) -> bool:
        """False after the resignation."""
        return self._is_active

    # Life cycle.

    async def start(self) -> None:
        """Load the context, send the state to all brokers, then handle events. Raises what prevents it."""
        loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._is_active:
            self._task = asyncio.get_running_loop().create_task(self._run(loaded))
            await asyncio.wait([loaded, self._task], return_when=asyncio.FIRST_COMPLETED)
        if self._failure is not None:
            raise self._failure
        if not loaded.done():
            raise BrokerError(ErrorCode.NOT_CONTROLLER, "the controller has resigned")

    async def settle(self) -> None:
        """Wait until all requests so far are answered and their responses handled; raise a failure."""
        is_settled = False
        while self._is_active and not is_settled:
            assert self._task is not None, "settle follows start"
            settled = asyncio.ensure_future(self._settle_once())
            await asyncio.wait([settled, self._task], return_when=asyncio.FIRST_COMPLETED)
            if settled.done():
                is_settled = settled.result()
            else:
                settled.cancel()
        if self._failure is not None:
            raise self._failure

    async def _settle_once(self) -> bool:
        await self._channels.drain()
        was_idle = self._events.is_empty
        await self._events.join()
        return was_idle

    def resign(self) -> None:
        """Stop acting at once: queued events and requests are dropped."""
        self._is_active = False
        for task in (self._task, self._balance_timer):
            if task is not None:
                task.cancel()
        self._channels.close()
        self._events.close()

    async def stop(self) -> None:
        self.resign()
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task
        await self._channels.wait_closed()

    def _fail(self, error: Exception) -> None:
        if self._is_active:
            log.error("controller_failed", controller_epoch=self.controller_epoch, reason=str(error))
            self._failure = error
            self.resign()
            if self._is_loaded:
                self.on_failed()

    # Events.

    def is_deleting(self, topic: str) -> bool:
        """Return whether a topic is being deleted, and nothing holds that up."""
        deletions = self._context.deletions
        return topic in deletions.queued and topic not in deletions.ineligible

    async def submit(self, event: ControllerEvent) -> Any:
        """Handle an event after those before it, and return its reply.

        Raises NOT_CONTROLLER if this controller resigns meanwhile.
        """
        return await self._events.submit(event)

    def on_replicas_offline(self, broker_id: int, partitions: Collection[TopicPartition]) -> None:
        """Queue an event: replicas went offline on a broker."""
        self._events.put(ReplicasOffline(broker_id, partitions))

    def on_replicas_online(self, broker_id: int, partitions: Collection[TopicPartition]) -> None:
        """Queue an event: replicas are online again on a broker."""
        self._events.put(ReplicasOnline(broker_id, partitions))

    def on_unclean_election_enabled(self, topic: str | None) -> None:
        """Queue an event: a topic, or with None the default, may elect leaders outside the ISR."""
        key = ("unclean_election", topic)
        topics = None if topic is None else frozenset((topic,))

        async def read() -> ControllerEvent:
            return UncleanElectionEnabled(topics)

        self._events.put_read(key, read)

    def _on_answered(self, broker_id: int, request: BrokerRequest, result: ControlResult) -> None:
        errors = result.partition_errors
        match request:
            case SendLeaderAndIsr():
                self._broker_failure_timer.on_answered(request)
                # Most answers say nothing: an event for each would be work in vain.
                is_news = ErrorCode.KAFKA_STORAGE_ERROR in errors.values()
                if not result.error and (is_news or self._context.offline_replicas.get(broker_id)):
                    self._events.put(LeaderAndIsrAnswered(broker_id, errors))
            case SendStopReplica():
                deleted = [partition for partition, state in request.partitions.items() if state.is_delete]
                if deleted:
                    of_deleted = {
                        partition: result.error or errors.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
                        for partition in deleted
                    }
                    self._events.put(StopReplicaAnswered(broker_id, of_deleted))
            case SendUpdateMetadata():
                return

    # The task.

    async def _run(self, loaded: asyncio.Future[None]) -> None:
        try:
            await self._load()
            self._is_loaded = True
            loaded.set_result(None)
            while True:
                await self._process(await self._events.get())
        except Exception as error:  # noqa: BLE001 - the edge of a task
            if not isinstance(error, StoreError):
                log.failure("controller_event_crashed", error)
            self._fail(error)

    async def _load(self) -> None:
        context, began_ms = self._context, self._clock.monotonic_ms()
        await self._watches.load(self._fence)
        context.partitions, zxids = await read_partition_states_and_zxids(
            self._store, context.all_partitions()
        )
        await self._handle(ContextLoaded(zxids))
        self._watches.load_requests()
        self._schedule_leader_balance(FIRST_LEADER_BALANCE_MS)
        log.info(
            "controller_started",
            controller_epoch=self.controller_epoch,
            partitions=len(context.partitions),
            milliseconds=self._clock.monotonic_ms() - began_ms,
        )

    async def _process(self, queued: QueuedEvent) -> None:
        try:
            event = queued.event
            if queued.read is not None:
                event = await self._retrying(queued.read)
            if event is not None:
                queued.complete(await self._handle(event))
        finally:
            queued.fail(BrokerError(ErrorCode.NOT_CONTROLLER))
            self._events.done()

    async def _handle(self, event: ControllerEvent) -> Any:
        """Run the handler of an event; return its reply."""
        match event:
            case BrokersChanged():
                self._channels.set_brokers(event.brokers)
                self._time_broker_failure(event)
            case ContextLoaded():
                self._channels.set_brokers(self._context.brokers)
        waiting = set(self._context.deletions.ineligible)
        reply = await self._run_steps(handle(self._context, event))
        self._broker_failure_timer.on_decided()
        deleted, self._deleted_topics = self._deleted_topics, []
        for topic in (*deleted, *(self._context.deletions.ineligible - waiting)):
            self.on_topic_deleted(topic)
        if isinstance(event, LeaderBalanceDue):
            self._schedule_leader_balance(self._options.leader_balance_interval_ms or 0)
        return reply

    def _time_broker_failure(self, event: BrokersChanged) -> None:
        dead = self._context.brokers.keys() - event.brokers.keys()
        if dead:
            led_count = sum(len(self._context.leaders_of(broker_id)) for broker_id in dead)
            self._broker_failure_timer.begin(dead, led_count, event.noticed_ms)

    async def _run_steps(self, steps: Steps[T]) -> T:
        """Execute actions and send their results in.

        A ``StoreError`` is thrown in, unless this controller cannot go on: no handler may survive that.
        """
        try:
            action = next(steps)
            while True:
                try:
                    result = await self._execute(action)
                except FATAL:
                    steps.close()
                    raise
                except StoreError as error:
                    action = steps.throw(error)
                else:
                    action = steps.send(result)
        except StopIteration as stop:
            reply: T = stop.value
            return reply

    async def _execute(self, action: Action) -> Any:
        match action:
            case SendLeaderAndIsr():
                self._broker_failure_timer.on_sent(action)
                self._channels.send(action.broker_id, action)
                return None
            case SendStopReplica():
                self._channels.send(action.broker_id, action)
                return None
            case SendUpdateMetadata():
                for broker_id in action.broker_ids:
                    self._channels.send(broker_id, action)
                return None
            case GiveTurn():
                await asyncio.sleep(0)
                return None
        result = await self._retrying(partial(self._store_actions.execute, action))
        if isinstance(action, RemoveTopic):
            self._watches.forget_topic(action.topic)
            self._deleted_topics.append(action.topic)
        return result

    async def _retrying(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run idempotent work, retrying while the store is unavailable, except during startup."""
        for wait_ms in RETRY_WAITS_MS if self._is_loaded else ():
            try:
                return await work()
            except Unavailable as error:
                log.warning("controller_store_retry", reason=str(error), wait_ms=wait_ms)
                await self._clock.sleep_ms(wait_ms)
        return await work()

    # The balance of leaders.

    def _schedule_leader_balance(self, delay_ms: int) -> None:
        if self._options.leader_balance_interval_ms is not None and self._is_active:
            self._balance_timer = asyncio.get_running_loop().create_task(self._balance_after(delay_ms))

    async def _balance_after(self, delay_ms: int) -> None:
        await self._clock.sleep_ms(delay_ms)
        self._events.put(LeaderBalanceDue())
