"""Topics and settings as handlers change them: plan, write to the store, wait until the cluster has followed.

A change is done when it shows in this broker's image: a new topic when each partition has a leader, a deleted
one when it is gone. Waiting happens in the topic purgatory, under the topic's name.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.broker.timer_driver import TimerDriver
from odradek.broker.topics.auto_topic_creation import plan_automatic
from odradek.broker.topics.topic_planning import (
    Assignment,
    NewTopic,
    PartitionIncrease,
    Surroundings,
    plan_more_partitions,
    plan_topic,
)
from odradek.cluster.metadata_cache import MetadataCache
from odradek.cluster.replica_assignment import BrokerRack
from odradek.config import broker as settings
from odradek.config.dynamic import alter_configs
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import ZERO_TOPIC_ID, TopicId
from odradek.model.uuids import random_uuid
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.store.configs import change_config
from odradek.store.port import BadVersion, NodeExists, NoNode, Store
from odradek.store.topics import create_topic, mark_for_deletion, read_topics, write_assignment
from odradek.store.znodes import ReplicaAssignment, TopicAssignment
from odradek.telemetry import events
from odradek.timers.purgatory import DelayedOperation, DelayedOperationPurgatory

# How long a metadata request waits for the leaders of a topic it created.
AUTO_CREATE_WAIT_MS = 5_000
ALL_BROKERS = "<default>"
"""The name under which the store keeps settings for all brokers."""

log = events.logger("topics")


@dataclass(slots=True)
class TopicOutcome:
    """How one topic fared in a request."""

    name: str
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: TopicId = ZERO_TOPIC_ID
    partitions: int = -1
    replication_factor: int = -1
    settings: Mapping[str, str] = field(default_factory=dict)
    assignment: Assignment = field(default_factory=dict)

    def refuse(self, refused: BrokerError) -> None:
        self.code, self.message = refused.code, refused.message


class DelayedTopics(DelayedOperation):
    """Waits until something holds for each of some topics, or the time is up."""

    __slots__ = ("_holds", "_then", "_topics")

    def __init__(
        self, topics: Sequence[str], holds: Callable[[str], bool], then: Callable[[Sequence[str]], None]
    ) -> None:
        super().__init__()
        self._topics = list(topics)
        self._holds = holds
        self._then = then

    def try_complete(self) -> bool:
        self._topics = [topic for topic in self._topics if not self._holds(topic)]
        return not self._topics and self.force_complete()

    def on_complete(self) -> None:
        self._then(self._topics)


class Topics:
    def __init__(
        self,
        store: Store,
        image: MetadataCache,
        config: DynamicBrokerConfig,
        timer_driver: TimerDriver,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._store = store
        self._image = image
        self._config = config
        self._timer_driver = timer_driver
        self._clock = clock
        self._entropy = entropy
        self._purgatory = DelayedOperationPurgatory("topic", timer_driver.wheel)
        self._overrides: dict[str, dict[str, str]] = {}
        self._creating: Counter[str] = Counter()
        """Names being written to the store, and how many requests write each."""
        self._unseen: set[str] = set()
        """Topics this broker created that its image does not show yet."""
        self.changing_settings = asyncio.Lock()
        """Held from reading settings to writing them changed, so that no change is lost to another."""

    def overrides_of(self, topic: str) -> Mapping[str, str]:
        """A topic's own settings, as the store has them."""
        return self._overrides.get(topic, {})

    def know_overrides(self, topic: str, overrides: Mapping[str, str]) -> None:
        if overrides:
            self._overrides[topic] = dict(overrides)
        else:
            self._overrides.pop(topic, None)

    def changed(self, topic: str) -> None:
        """The image has news of this topic: look whether somebody waited for them."""
        self._unseen.discard(topic)
        self._purgatory.check_and_complete(topic)

    async def create(
        self, wishes: Sequence[NewTopic], timeout_ms: int, *, validate_only: bool
    ) -> list[TopicOutcome]:
        outcomes = [TopicOutcome(wish.name) for wish in wishes]
        accepted: set[str] = set()
        for wish, outcome in zip(wishes, outcomes, strict=True):
            try:
                self._plan_one(wish, outcome, accepted)
                if not validate_only:
                    await self._create_one(wish, outcome)
            except BrokerError as refused:
                outcome.refuse(refused)
            else:
                accepted.add(wish.name)
        if not validate_only:
            counts = {outcome.name: outcome.partitions for outcome in outcomes}
            await self._wait(outcomes, lambda name: self._has_leaders(name, counts[name]), timeout_ms)
        return outcomes

    async def create_missing(self, names: Sequence[str]) -> dict[str, ErrorCode]:
        """Create topics a client asked about, if that is allowed; give the errors of those that failed."""
        if not self._config.broker[settings.AUTO_CREATE_TOPICS_ENABLE]:
            return {}
        wishes = [plan_automatic(name, self._config.broker) for name in dict.fromkeys(names)]
        outcomes = await self.create(wishes, AUTO_CREATE_WAIT_MS, validate_only=False)
        # Somebody else may have been quicker: that topic is waited for as well.
        raced = [TopicOutcome(one.name) for one in outcomes if one.code == ErrorCode.TOPIC_ALREADY_EXISTS]
        await self._wait(raced, lambda name: self._has_leaders(name, 1), AUTO_CREATE_WAIT_MS)
        # A topic that takes its time will be asked for again.
        mild = {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT}
        return {outcome.name: outcome.code for outcome in outcomes if outcome.code not in mild}

    async def create_internal(self, name: str) -> str | None:
        """Create a topic of the brokers' own, whether clients may create topics or not; give why not."""
        wish = plan_automatic(name, self._config.broker)
        outcome = (await self.create([wish], AUTO_CREATE_WAIT_MS, validate_only=False))[0]
        if outcome.code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return None
        return outcome.message or outcome.code.name

    async def delete(self, names: Sequence[str], timeout_ms: int) -> list[TopicOutcome]:
        outcomes = [TopicOutcome(name) for name in names]
        for outcome in outcomes:
            try:
                await self._delete_one(outcome)
            except BrokerError as refused:
                outcome.refuse(refused)
        await self._wait(outcomes, lambda name: self._image.topic(name) is None, timeout_ms)
        return outcomes

    async def add_partitions(
        self, wishes: Sequence[PartitionIncrease], timeout_ms: int, *, validate_only: bool
    ) -> list[TopicOutcome]:
        outcomes = [TopicOutcome(wish.topic) for wish in wishes]
        for wish, outcome in zip(wishes, outcomes, strict=True):
            try:
                await self._grow_one(wish, validate_only=validate_only)
                outcome.partitions = wish.count
            except BrokerError as refused:
                outcome.refuse(refused)
        if not validate_only:
            counts = {wish.topic: wish.count for wish in wishes}
            await self._wait(outcomes, lambda name: self._is_gone_or_led(name, counts[name]), timeout_ms)
            self._refuse_gone(outcomes)
        return outcomes

    async def set_overrides(self, topic: str, overrides: Mapping[str, str]) -> None:
        await change_config(self._store, "topics", topic, overrides)
        self.know_overrides(topic, overrides)

    async def set_broker_overrides(self, broker_id: str | None, overrides: Mapping[str, str]) -> None:
        """Settings of this broker, or with None of all. They hold at once; logs follow the store's note."""
        await change_config(self._store, "brokers", broker_id or ALL_BROKERS, overrides)
        if broker_id is None:
            self._config.set_cluster_overrides(overrides)
        else:
            self._config.set_broker_overrides(overrides)

    def _plan_one(self, wish: NewTopic, outcome: TopicOutcome, accepted: Collection[str]) -> None:
        """``accepted`` are the names that the same request creates before this one."""
        around = self._surroundings({*accepted, *self._creating, *self._unseen})
        outcome.assignment = plan_topic(wish, around)
        outcome.settings = alter_configs.create_topic(self._config, wish.settings.items())
        outcome.partitions = len(outcome.assignment)
        outcome.replication_factor = len(outcome.assignment[0])

    async def _create_one(self, wish: NewTopic, outcome: TopicOutcome) -> None:
        outcome.topic_id = random_uuid(self._entropy.uuid)
        stored = TopicAssignment(outcome.topic_id, _replicas(outcome.assignment))
        self._creating[wish.name] += 1
        try:
            await create_topic(self._store, wish.name, stored, outcome.settings)
        except NodeExists:
            raise BrokerError(
                ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wish.name}' already exists."
            ) from None
        finally:
            self._creating[wish.name] -= 1
            self._creating += Counter()  # drops names that nobody creates any longer
        if self._image.topic(wish.name) is None:
            self._unseen.add(wish.name)
        self.know_overrides(wish.name, outcome.settings)
        log.info("topic_created", topic=wish.name, partitions=outcome.partitions)

    async def _delete_one(self, outcome: TopicOutcome) -> None:
        topic = self._image.topic(outcome.name)
        if topic is None:
            raise BrokerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
            )
        if not self._config.broker[settings.DELETE_TOPIC_ENABLE]:
            raise BrokerError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        outcome.topic_id = topic.topic_id
        try:
            await mark_for_deletion(self._store, outcome.name)
        except NodeExists:
            return  # asked for before: wait with whoever did

    async def _grow_one(self, wish: PartitionIncrease, *, validate_only: bool) -> None:
        found = (await read_topics(self._store, [wish.topic])).get(wish.topic)
        if found is None:
            raise BrokerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{wish.topic[:249]}' does not exist."
            )
        present = found.assignment.partitions
        if any(one.adding or one.removing for one in present.values()):
            raise BrokerError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"A partition reassignment is in progress for the topic '{wish.topic}'.",
            )
        existing = {number: one.replicas for number, one in present.items()}
        added = plan_more_partitions(wish, existing, self._surroundings())
        if validate_only:
            return
        grown = TopicAssignment(found.assignment.topic_id, {**present, **_replicas(added)})
        try:
            await write_assignment(self._store, wish.topic, grown, found.version)
        except (BadVersion, NoNode):
            raise BrokerError(
                ErrorCode.INVALID_REQUEST, f"the topic '{wish.topic}' was changed at the same time"
            ) from None

    async def _wait(
        self, outcomes: Sequence[TopicOutcome], holds: Callable[[str], bool], timeout_ms: int
    ) -> None:
        """Wait for those that went well so far; late ones become REQUEST_TIMED_OUT."""
        names = [outcome.name for outcome in outcomes if outcome.code == ErrorCode.NONE]
        late: Sequence[str] = names
        if names and timeout_ms > 0:
            done: asyncio.Future[Sequence[str]] = asyncio.get_running_loop().create_future()
            deadline_ms = self._clock.monotonic_ms() + timeout_ms
            self._purgatory.try_complete_else_watch(
                DelayedTopics(names, holds, done.set_result), names, deadline_ms
            )
            self._timer_driver.arm(deadline_ms)
            late = await done
        for outcome in outcomes:
            if outcome.name in late and outcome.code == ErrorCode.NONE:
                outcome.code, outcome.message = ErrorCode.REQUEST_TIMED_OUT, None

    def _is_gone_or_led(self, topic: str, count: int) -> bool:
        """Of a topic that was there: nobody need wait for partitions of one that was deleted meanwhile."""
        return self._image.topic(topic) is None or self._has_leaders(topic, count)

    def _refuse_gone(self, outcomes: Sequence[TopicOutcome]) -> None:
        for outcome in outcomes:
            if outcome.code == ErrorCode.NONE and self._image.topic(outcome.name) is None:
                outcome.code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                outcome.message = f"The topic '{outcome.name}' was deleted meanwhile."

    def _has_leaders(self, topic: str, count: int) -> bool:
        known = self._image.topic(topic)
        return known is not None and len(known.partitions) >= count and known.has_all_leaders

    def _surroundings(self, pending: Collection[str] = ()) -> Surroundings:
        values = self._config.broker
        brokers = [BrokerRack(node.id, node.rack) for node in self._image.brokers.values()]
        count = max(len(brokers), 1)
        return Surroundings(
            self._image.topics,
            brokers,
            values[settings.NUM_PARTITIONS],
            values[settings.DEFAULT_REPLICATION_FACTOR],
            self._entropy.below(count),
            self._entropy.below(count),
            pending,
        )


def _replicas(assignment: Assignment) -> dict[int, ReplicaAssignment]:
    return {number: ReplicaAssignment(replicas) for number, replicas in assignment.items()}
