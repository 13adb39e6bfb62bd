"""Topic and config changes: plan, write to the store, wait until this broker's metadata shows the change.

A topic is created once each partition has a leader in the metadata cache, and deleted once it is gone from
there. Requests wait in the topic purgatory, keyed by topic name.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from odradek.broker.quotas.controller_mutation_quota import UNBOUNDED, ControllerMutationQuota
from odradek.broker.timer_driver import TimerDriver
from odradek.broker.topics.auto_topic_creation import plan_auto_created_topic
from odradek.broker.topics.controller_topic_creation import ControllerTopicCreation
from odradek.broker.topics.topic_planning import (
    Assignment,
    ClusterView,
    NewTopic,
    PartitionIncrease,
    plan_partition_increase,
    plan_topic,
)
from odradek.cluster.metadata_cache import MetadataCache
from odradek.cluster.replica_assignment import BrokerRack
from odradek.config import broker as settings
from odradek.config.dynamic import alter_configs
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.ids import ZERO_TOPIC_ID, TopicId, TopicPartition
from odradek.model.uuids import random_uuid
from odradek.net.broker_requests import BrokerRequests
from odradek.ports.clock import Clock
from odradek.ports.entropy import Entropy
from odradek.store.configs import change_config, read_configs_of
from odradek.store.layout.znodes import ReplicaAssignment, TopicAssignment
from odradek.store.port import BadVersion, NodeExists, NoNode, StoreProvider, TooLarge
from odradek.store.topics import create_topic, mark_for_deletion, read_topics, write_assignment
from odradek.telemetry import events
from odradek.timers.purgatory import DelayedOperation, DelayedOperationPurgatory

# Time a Metadata request waits for the leaders of a topic it created.
AUTO_CREATE_WAIT_MS = 5_000
ALL_BROKERS = "<default>"
"""Entity name in the store of the cluster-wide default config."""

log = events.logger("topics")


@dataclass(slots=True)
class TopicResult:
    """Result of one topic in a request."""

    name: str
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: TopicId = ZERO_TOPIC_ID
    partitions: int = -1
    replication_factor: int = -1
    settings: Mapping[str, str] = field(default_factory=dict)
    assignment: Assignment = field(default_factory=dict)

    def set_error(self, error: BrokerError) -> None:
        self.code, self.message = error.code, error.message


class DelayedTopics(DelayedOperation):
    """Waits until a condition holds for each topic, or for the deadline."""

    __slots__ = ("_condition", "_on_done", "_topics")

    def __init__(
        self,
        topics: Sequence[str],
        condition: Callable[[str], bool],
        on_done: Callable[[Sequence[str]], None],
    ) -> None:
        super().__init__()
        self._topics = list(topics)
        self._condition = condition
        self._on_done = on_done

    def try_complete(self) -> bool:
        self._topics = [topic for topic in self._topics if not self._condition(topic)]
        return not self._topics and self.force_complete()

    def on_complete(self) -> None:
        self._on_done(self._topics)


class OverrideObserver(Protocol):
    """A component whose state depends on the configs of topics."""

    def update_topic(self, topic: str, overrides: Mapping[str, str]) -> None: ...

    def replace_topics(self, overrides: Mapping[str, Mapping[str, str]]) -> None: ...


class AdminManager:
    def __init__(
        self,
        stores: StoreProvider,
        metadata_cache: MetadataCache,
        config: DynamicBrokerConfig,
        timer_driver: TimerDriver,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._stores = stores
        self._metadata_cache = metadata_cache
        self._config = config
        self._timer_driver = timer_driver
        self._clock = clock
        self._entropy = entropy
        self._purgatory = DelayedOperationPurgatory("topic", timer_driver.wheel)
        self._overrides: dict[str, dict[str, str]] = {}
        self._creating: Counter[str] = Counter()
        """Topics being written to the store, with the number of requests that write each."""
        self._not_in_cache: set[str] = set()
        """Topics created by this broker that are not in the metadata cache yet."""
        self._controller_creation: ControllerTopicCreation | None = None
        """Set in a cluster of several brokers, of which only the controller creates topics itself."""
        self._override_observer: OverrideObserver | None = None
        """Told of changed topic configs; None if nothing depends on them but the logs."""
        self.is_deleting: Callable[[str], bool] = lambda topic: False
        """Returns whether the controller on this broker is deleting a topic. Its name is not free before."""
        self.config_lock = asyncio.Lock()
        """Held from reading configs to writing them, so that concurrent changes are not lost."""

    def create_through_controller(self, requests: BrokerRequests, is_controller: Callable[[], bool]) -> None:
        """Auto-create topics through the controller from now on, while it is another broker."""
        self._controller_creation = ControllerTopicCreation(requests, is_controller, self._clock)

    async def stop(self) -> None:
        if self._controller_creation is not None:
            await self._controller_creation.stop()

    def topic_overrides(self, topic: str) -> Mapping[str, str]:
        """Return the configs of a topic, as far as this broker was told of them.

        A broker without a replica is told of changes, not of what another broker created a topic with.
        """
        return self._overrides.get(topic, {})

    async def read_topic_overrides(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Read the configs of topics from the store; topics without configs are left out."""
        return await read_configs_of(self._stores.store, "topics", topics)

    async def read_broker_overrides(self, broker_id: str | None) -> dict[str, str]:
        """Read the overrides of a broker, or of the whole cluster, from the store."""
        name = broker_id or ALL_BROKERS
        return (await read_configs_of(self._stores.store, "brokers", [name])).get(name, {})

    def put_topic_overrides(self, topic: str, overrides: Mapping[str, str]) -> None:
        if overrides:
            self._overrides[topic] = dict(overrides)
        else:
            self._overrides.pop(topic, None)
        if self._override_observer is not None:
            self._override_observer.update_topic(topic, overrides)

    def replace_topic_overrides(self, overrides: Mapping[str, Mapping[str, str]]) -> None:
        """Set the configs of all topics."""
        self._overrides = {topic: dict(configs) for topic, configs in overrides.items() if configs}
        if self._override_observer is not None:
            self._override_observer.replace_topics(self._overrides)

    def observe_topic_overrides(self, observer: OverrideObserver) -> None:
        """Tell an observer of the current configs of topics, and of every change."""
        self._override_observer = observer
        observer.replace_topics(self._overrides)

    def on_topic_changed(self, topic: str) -> None:
        """Check the requests waiting for a topic after a metadata update."""
        self._not_in_cache.discard(topic)
        self._purgatory.check_and_complete(topic)

    async def create_topics(
        self,
        requests: Sequence[NewTopic],
        timeout_ms: int,
        quota: ControllerMutationQuota = UNBOUNDED,
        *,
        validate_only: bool,
    ) -> list[TopicResult]:
        outcomes = [TopicResult(request.name) for request in requests]
        accepted: set[str] = set()
        for request, outcome in zip(requests, outcomes, strict=True):
            try:
                self._plan_topic(request, outcome, accepted)
                if not validate_only:
                    quota.record(outcome.partitions)
                    await self._create_topic(request, outcome)
            except BrokerError as error:
                outcome.set_error(error)
            else:
                accepted.add(request.name)
        if not validate_only:
            counts = {outcome.name: outcome.partitions for outcome in outcomes}
            await self._await_topics(outcomes, lambda name: self._has_leaders(name, counts[name]), timeout_ms)
        return outcomes

    async def auto_create_topics(
        self, names: Sequence[str], quota: ControllerMutationQuota = UNBOUNDED
    ) -> dict[str, ErrorCode]:
        """Auto-create topics, if enabled; return the errors of those that failed."""
        if not self._config.broker[settings.AUTO_CREATE_TOPICS_ENABLE]:
            return {}
        requests = [plan_auto_created_topic(name, self._config.broker) for name in dict.fromkeys(names)]
        if self._controller_creation is not None and self._controller_creation.is_needed:
            return self._controller_creation.start(requests, self._config.broker)
        outcomes = await self.create_topics(requests, AUTO_CREATE_WAIT_MS, quota, validate_only=False)
        # Wait also for topics that another request created first.
        existing = [
            TopicResult(outcome.name)
            for outcome in outcomes
            if outcome.code == ErrorCode.TOPIC_ALREADY_EXISTS
        ]
        await self._await_topics(existing, lambda name: self._has_leaders(name, 1), AUTO_CREATE_WAIT_MS)
        # Clients retry while a topic has no leaders.
        ignored = {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT}
        return {outcome.name: outcome.code for outcome in outcomes if outcome.code not in ignored}

    async def create_internal_topic(self, name: str) -> str | None:
        """Create an internal topic, even if auto-creation is disabled; return the problem, or None."""
        request = plan_auto_created_topic(name, self._config.broker)
        if self._controller_creation is not None and self._controller_creation.is_needed:
            return await self._controller_creation.create(request, self._config.broker)
        outcome = (await self.create_topics([request], AUTO_CREATE_WAIT_MS, validate_only=False))[0]
        if outcome.code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return None
        return outcome.message or outcome.code.name

    async def read_assignment(self, name: str) -> TopicAssignment | None:
        """Read the assignment of a topic, which has all its partitions; None if there is no such topic."""
        stored = (await read_topics(self._stores.store, [name])).get(name)
        return None if stored is None else stored.assignment

    async def delete_topics(
        self, names: Sequence[str], timeout_ms: int, quota: ControllerMutationQuota = UNBOUNDED
    ) -> list[TopicResult]:
        outcomes = [TopicResult(name) for name in names]
        for outcome in outcomes:
            try:
                await self._delete_topic(outcome, quota)
            except BrokerError as error:
                outcome.set_error(error)
        await self._await_topics(outcomes, self._is_deleted, timeout_ms)
        return outcomes

    async def create_partitions(
        self,
        requests: Sequence[PartitionIncrease],
        timeout_ms: int,
        quota: ControllerMutationQuota = UNBOUNDED,
        *,
        validate_only: bool,
    ) -> list[TopicResult]:
        outcomes = [TopicResult(request.topic) for request in requests]
        for request, outcome in zip(requests, outcomes, strict=True):
            try:
                await self._increase_partitions(request, quota, validate_only=validate_only)
                outcome.partitions = request.count
            except BrokerError as error:
                outcome.set_error(error)
        if not validate_only:
            counts = {request.topic: request.count for request in requests}
            await self._await_topics(
                outcomes, lambda name: self._is_deleted_or_has_leaders(name, counts[name]), timeout_ms
            )
            self._fail_deleted(outcomes)
        return outcomes

    async def await_leaders(
        self, leaders: Mapping[TopicPartition, int], timeout_ms: int
    ) -> list[TopicPartition]:
        """Wait until partitions have these leaders in the metadata cache; return those that are late."""

        def is_late(partition: TopicPartition) -> bool:
            metadata = self._metadata_cache.partition(*partition)
            return metadata is None or metadata.leader != leaders[partition]

        by_topic: dict[str, list[TopicPartition]] = {}
        for partition in leaders:
            by_topic.setdefault(partition.topic, []).append(partition)
        outcomes = [TopicResult(topic) for topic in by_topic]
        await self._await_topics(outcomes, lambda name: not any(map(is_late, by_topic[name])), timeout_ms)
        return [partition for partition in leaders if is_late(partition)]

    async def set_topic_overrides(self, topic: str, overrides: Mapping[str, str]) -> None:
        await change_config(self._stores.store, "topics", topic, overrides)
        self.put_topic_overrides(topic, overrides)

    async def set_broker_overrides(self, broker_id: str | None, overrides: Mapping[str, str]) -> None:
        """Store and apply configs of this broker, or with None of all; logs follow by notification."""
        await change_config(self._stores.store, "brokers", broker_id or ALL_BROKERS, overrides)
        if broker_id is None:
            self._config.set_cluster_overrides(overrides)
        else:
            self._config.set_broker_overrides(overrides)

    def _plan_topic(self, request: NewTopic, outcome: TopicResult, accepted: Collection[str]) -> None:
        """Plan one topic; ``accepted`` are the names created earlier by the same request."""
        cluster = self._cluster_view(chain(accepted, self._creating, self._not_in_cache))
        outcome.assignment = plan_topic(request, cluster)
        outcome.settings = alter_configs.create_topic(self._config, request.settings.items())
        outcome.partitions = len(outcome.assignment)
        outcome.replication_factor = len(outcome.assignment[0])

    async def _create_topic(self, request: NewTopic, outcome: TopicResult) -> None:
        outcome.topic_id = random_uuid(self._entropy.uuid)
        stored = TopicAssignment(outcome.topic_id, _replicas(outcome.assignment))
        self._creating[request.name] += 1
        try:
            await create_topic(self._stores.store, request.name, stored, outcome.settings)
        except NodeExists:
            raise BrokerError(
                ErrorCode.TOPIC_ALREADY_EXISTS, f"topic '{request.name}' already exists"
            ) from None
        except TooLarge as error:
            raise BrokerError(ErrorCode.INVALID_PARTITIONS, str(error)) from None
        finally:
            self._creating[request.name] -= 1
            self._creating += Counter()  # drops zero counts
        if self._metadata_cache.topic(request.name) is None:
            self._not_in_cache.add(request.name)
        self.put_topic_overrides(request.name, outcome.settings)
        log.info("topic_created", topic=request.name, partitions=outcome.partitions)

    async def _delete_topic(self, outcome: TopicResult, quota: ControllerMutationQuota) -> None:
        topic = self._metadata_cache.topic(outcome.name)
        if topic is None:
            raise BrokerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic '{outcome.name[:249]}' does not exist"
            )
        if not self._config.broker[settings.DELETE_TOPIC_ENABLE]:
            raise BrokerError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        outcome.topic_id = topic.topic_id
        quota.record(len(topic.partitions))
        try:
            await mark_for_deletion(self._stores.store, outcome.name)
        except NodeExists:
            return  # deletion is in progress: wait for it

    async def _increase_partitions(
        self, request: PartitionIncrease, quota: ControllerMutationQuota, *, validate_only: bool
    ) -> None:
        stored = (await read_topics(self._stores.store, [request.topic])).get(request.topic)
        if stored is None:
            raise BrokerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic '{request.topic[:249]}' does not exist"
            )
        partitions = stored.assignment.partitions
        if any(replicas.adding or replicas.removing for replicas in partitions.values()):
            raise BrokerError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"topic '{request.topic}' has a partition reassignment in progress",
            )
        existing = {number: assigned.replicas for number, assigned in partitions.items()}
        added = plan_partition_increase(request, existing, self._cluster_view())
        if validate_only:
            return
        quota.record(len(added))
        assignment = TopicAssignment(stored.assignment.topic_id, {**partitions, **_replicas(added)})
        try:
            await write_assignment(self._stores.store, request.topic, assignment, stored.version)
        except (BadVersion, NoNode):
            raise BrokerError(
                ErrorCode.INVALID_REQUEST, f"topic '{request.topic}' was changed by another request"
            ) from None
        except TooLarge as error:
            raise BrokerError(ErrorCode.INVALID_PARTITIONS, str(error)) from None

    async def _await_topics(
        self, outcomes: Sequence[TopicResult], condition: Callable[[str], bool], timeout_ms: int
    ) -> None:
        """Wait for the topics without an error; late ones become REQUEST_TIMED_OUT."""
        names = [outcome.name for outcome in outcomes if outcome.code == ErrorCode.NONE]
        late = set(names)
        if names and timeout_ms > 0:
            done: asyncio.Future[Sequence[str]] = asyncio.get_running_loop().create_future()
            deadline_ms = self._clock.monotonic_ms() + timeout_ms
            self._purgatory.try_complete_else_watch(
                DelayedTopics(names, condition, done.set_result), names, deadline_ms
            )
            self._timer_driver.arm(deadline_ms)
            late = set(await done)
        for outcome in outcomes:
            if outcome.name in late and outcome.code == ErrorCode.NONE:
                outcome.code, outcome.message = ErrorCode.REQUEST_TIMED_OUT, None

    def _is_deleted(self, topic: str) -> bool:
        return self._metadata_cache.topic(topic) is None and not self.is_deleting(topic)

    def _is_deleted_or_has_leaders(self, topic: str, count: int) -> bool:
        """Return whether all partitions have leaders, or the topic was deleted meanwhile."""
        return self._metadata_cache.topic(topic) is None or self._has_leaders(topic, count)

    def _fail_deleted(self, outcomes: Sequence[TopicResult]) -> None:
        for outcome in outcomes:
            if outcome.code == ErrorCode.NONE and self._metadata_cache.topic(outcome.name) is None:
                outcome.code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                outcome.message = f"topic '{outcome.name}' was deleted meanwhile"

    def _has_leaders(self, topic: str, count: int) -> bool:
        metadata = self._metadata_cache.topic(topic)
        return metadata is not None and len(metadata.partitions) >= count and metadata.has_all_leaders

    def _cluster_view(self, pending: Iterable[str] = ()) -> ClusterView:
        values = self._config.broker
        brokers = [BrokerRack(node.id, node.rack) for node in self._metadata_cache.brokers.values()]
        count = max(len(brokers), 1)
        return ClusterView(
            self._metadata_cache.topics,
            brokers,
            values[settings.NUM_PARTITIONS],
            values[settings.DEFAULT_REPLICATION_FACTOR],
            self._entropy.below(count),
            self._entropy.below(count),
            pending,
        )


def _replicas(assignment: Assignment) -> dict[int, ReplicaAssignment]:
    return {number: ReplicaAssignment(replicas) for number, replicas in assignment.items()}
