"""Admin API of topics and their partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.client.admin.api_driver import AdminApi
from odradek.client.admin.api_handler import CONTROLLER_MOVED, AdminApiHandler, ApiError
from odradek.client.admin.configs import ConfigEntry, config_text, created_entries
from odradek.client.admin.lookup_strategies import at_any_broker, at_controller
from odradek.client.names import CollectionOf, Names, read_names
from odradek.client.values import PartitionInfo
from odradek.model.acl_operations import AclOperation, operations_in
from odradek.model.errors import ErrorCode
from odradek.model.ids import ZERO_TOPIC_ID
from odradek.model.uuids import parse_uuid, uuid_text
from odradek.net.api_versions import RequestBuilder
from odradek.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from odradek.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from odradek.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

IDS_SINCE: Final = 6
"""The first version of DeleteTopics with topic ids, and names in another field."""


class NewTopic(NamedTuple):
    """A topic to create. Counts of -1 use the broker defaults (brokers since 2.4).

    ``assignments`` holds the replicas of each partition, the preferred leader first, instead of counts.

    >>> from odradek import NewTopic
    >>> NewTopic("castle", partitions=3, configs={"retention.ms": 60_000}).partitions
    3
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, object] = {}
    assignments: Mapping[int, Sequence[int]] = {}


class CreatedTopic(NamedTuple):
    """A created topic. Brokers before 2.4 return no counts and configs, before 2.8 no id."""

    name: str
    topic_id: str | None
    partitions: int
    replication_factor: int
    configs: Mapping[str, ConfigEntry]


class TopicListing(NamedTuple):
    """A listed topic."""

    name: str
    topic_id: str | None
    is_internal: bool


class TopicDescription(NamedTuple):
    """A topic, with leaders and replicas of its partitions."""

    name: str
    topic_id: str | None
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]
    authorized_operations: frozenset[AclOperation] | None


class NewPartitions(NamedTuple):
    """The new total of partitions; ``assignments`` holds the replicas of each added one.

    >>> from odradek import NewPartitions
    >>> NewPartitions(6).total
    6
    """

    total: int
    assignments: Sequence[Sequence[int]] | None = None


class TopicsApi(AdminApi):
    """Topic methods of ``Admin``."""

    async def create_topics(
        self,
        topics: CollectionOf[NewTopic | str],
        *,
        validate_only: bool = False,
        timeout_s: float | None = None,
    ) -> dict[str, CreatedTopic]:
        """Create topics; with ``validate_only`` only check whether they could be created.

        >>> from odradek import Admin, NewTopic
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> created = admin.create_topics([NewTopic("letters", partitions=3)])
        >>> created["letters"].partitions
        3
        >>> admin.close()
        """
        new_topics = (
            NewTopic(topic) if isinstance(topic, str) else topic for topic in read_names(topics, "topics")
        )
        by_name = {topic.name: topic for topic in new_topics}

        def request(names: Sequence[str], timeout_ms: int) -> CreateTopicsRequest:
            return CreateTopicsRequest(
                [_creatable(by_name[name]) for name in names], timeout_ms, validate_only
            )

        def read(
            names: Sequence[str], response: CreateTopicsResponse
        ) -> Iterable[tuple[str, CreatedTopic | ApiError]]:
            for topic in response.topics:
                yield topic.name, _api_error(topic.error_code, topic.error_message) or _created(topic)

        handler = AdminApiHandler(
            call="create topics",
            key_name=topic_name,
            lookup=at_controller,
            build_request=request,
            read_response=read,
            retry_codes=CONTROLLER_MOVED,
        )
        return await self._driver.run(handler, by_name, timeout_s)

    async def delete_topics(
        self, topics: Names = (), *, topic_ids: Names = (), timeout_s: float | None = None
    ) -> None:
        """Delete topics by name, or by id (brokers since 2.8), with all their records.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["forgettable"])
        >>> admin.delete_topics(["forgettable"])
        >>> admin.close()
        """
        keys: list[TopicKey] = _keys(topics, topic_ids)
        await self._driver.run(_deletion_handler(), keys, timeout_s)

    async def list_topics(
        self, *, include_internal: bool = False, timeout_s: float | None = None
    ) -> dict[str, TopicListing]:
        """Return all topics by name; internal topics only with ``include_internal``.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["counted"])
        >>> "counted" in admin.list_topics()
        True
        >>> admin.close()
        """

        def read(
            keys: Sequence[None], response: MetadataResponse
        ) -> Iterable[tuple[None, dict[str, TopicListing]]]:
            topics = (_described(topic) for topic in response.topics if not topic.error_code)
            yield (
                None,
                {
                    topic.name: TopicListing(*topic[:3])
                    for topic in topics
                    if include_internal or not topic.is_internal
                },
            )

        handler: AdminApiHandler[None, dict[str, TopicListing]] = AdminApiHandler(
            call="list topics",
            key_name=lambda _: "list topics",
            lookup=at_any_broker,
            build_request=lambda keys, timeout_ms: MetadataRequest(None, allow_auto_topic_creation=False),
            read_response=read,
        )
        return await self._driver.run_single(handler, timeout_s)

    async def describe_topics(
        self,
        topics: Names = (),
        *,
        topic_ids: Names = (),
        include_authorized_operations: bool = False,
        timeout_s: float | None = None,
    ) -> dict[str, TopicDescription]:
        """Return topics, by name or by id (brokers since 3.1), with leaders and replicas.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["village"])
        >>> [info.partition for info in admin.describe_topics(["village"])["village"].partitions]
        [0]
        >>> admin.close()
        """
        keys: list[TopicKey] = _keys(topics, topic_ids)
        handler = _description_handler(include_authorized_operations)
        by_key = await self._driver.run(handler, keys, timeout_s)
        return {topic.name: topic for topic in by_key.values()}

    async def create_partitions(
        self,
        totals: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Add partitions to topics; the numbers are new totals.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["growing"])
        >>> admin.create_partitions({"growing": 2})
        >>> admin.close()
        """
        await self._driver.run(_partitions_handler(totals, validate_only), totals, timeout_s)


TopicKey = str | bytes
"""A topic name or id."""


def _keys(topics: Names, topic_ids: Names) -> list[TopicKey]:
    return [*read_names(topics, "topics"), *map(parse_uuid, read_names(topic_ids, "topic_ids"))]


def topic_name(key: TopicKey) -> str:
    """Return the name of a topic for error messages."""
    return f"topic {key}" if isinstance(key, str) else f"topic id {uuid_text(key)}"


def _api_error(code: int, message: str | None = None) -> ApiError | None:
    return ApiError(ErrorCode(code), message) if code else None


def _creatable(topic: NewTopic) -> CreatableTopic:
    assignments = [CreatableReplicaAssignment(number, list(ids)) for number, ids in topic.assignments.items()]
    configs = [CreatableTopicConfig(name, config_text(value)) for name, value in topic.configs.items()]
    return CreatableTopic(topic.name, topic.partitions, topic.replication_factor, assignments, configs)


def _created(topic: CreatableTopicResult) -> CreatedTopic:
    return CreatedTopic(
        topic.name,
        _id_text(topic.topic_id),
        topic.num_partitions,
        topic.replication_factor,
        created_entries(topic.configs or ()),
    )


def _id_text(topic_id: bytes) -> str | None:
    return None if topic_id == ZERO_TOPIC_ID else uuid_text(topic_id)


def _deletion_handler() -> AdminApiHandler[TopicKey, None]:
    def request(keys: Sequence[TopicKey], timeout_ms: int) -> RequestBuilder:
        def build(version: int) -> DeleteTopicsRequest:
            names = [key for key in keys if isinstance(key, str)]
            if version < IDS_SINCE and len(names) == len(keys):
                return DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms)
            states = [
                DeleteTopicState(key) if isinstance(key, str) else DeleteTopicState(None, key) for key in keys
            ]
            return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)

        return RequestBuilder(DeleteTopicsRequest, build)

    def read(
        keys: Sequence[TopicKey], response: DeleteTopicsResponse
    ) -> Iterable[tuple[TopicKey, ApiError | None]]:
        for result in response.responses:
            key: TopicKey = result.topic_id if result.topic_id in keys else result.name or ""
            yield key, _api_error(result.error_code, result.error_message)

    return AdminApiHandler(
        call="delete topics",
        key_name=topic_name,
        lookup=at_controller,
        build_request=request,
        read_response=read,
        retry_codes=CONTROLLER_MOVED,
    )


def _description_handler(with_operations: bool) -> AdminApiHandler[TopicKey, TopicDescription]:
    def request(keys: Sequence[TopicKey], timeout_ms: int) -> MetadataRequest:
        topics = [
            MetadataRequestTopic(name=key) if isinstance(key, str) else MetadataRequestTopic(key, None)
            for key in keys
        ]
        return MetadataRequest(topics, False, include_topic_authorized_operations=with_operations)

    def read(
        keys: Sequence[TopicKey], response: MetadataResponse
    ) -> Iterable[tuple[TopicKey, TopicDescription | ApiError]]:
        for topic in response.topics:
            key: TopicKey = topic.topic_id if topic.topic_id in keys else topic.name or ""
            yield key, _api_error(topic.error_code) or _described(topic)

    return AdminApiHandler(
        call="describe topics",
        key_name=topic_name,
        lookup=at_any_broker,
        build_request=request,
        read_response=read,
        retry_codes=frozenset({ErrorCode.LEADER_NOT_AVAILABLE}),
    )


def _described(topic: MetadataResponseTopic) -> TopicDescription:
    name = topic.name or ""
    partitions = (
        PartitionInfo(
            name,
            partition.partition_index,
            partition.leader_id,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
            partition.leader_epoch,
        )
        for partition in topic.partitions
    )
    return TopicDescription(
        name,
        _id_text(topic.topic_id),
        topic.is_internal,
        tuple(sorted(partitions)),
        operations_in(topic.topic_authorized_operations),
    )


def _partitions_handler(
    totals: Mapping[str, int | NewPartitions], validate_only: bool
) -> AdminApiHandler[str, None]:
    def topic_of(name: str) -> CreatePartitionsTopic:
        new = totals[name]
        total, assignments = (new, None) if isinstance(new, int) else new
        if assignments is None:
            return CreatePartitionsTopic(name, total, None)
        return CreatePartitionsTopic(
            name, total, [CreatePartitionsAssignment(list(ids)) for ids in assignments]
        )

    def request(names: Sequence[str], timeout_ms: int) -> CreatePartitionsRequest:
        return CreatePartitionsRequest([topic_of(name) for name in names], timeout_ms, validate_only)

    def read(
        names: Sequence[str], response: CreatePartitionsResponse
    ) -> Iterable[tuple[str, ApiError | None]]:
        for result in response.results:
            yield result.name, _api_error(result.error_code, result.error_message)

    return AdminApiHandler(
        call="create partitions",
        key_name=topic_name,
        lookup=at_controller,
        build_request=request,
        read_response=read,
        retry_codes=CONTROLLER_MOVED,
    )
