"""TopicsApi: made, listed, described, given more partitions, deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.client.admin.admin_api import AdminApi
from odradek.client.admin.api_handler import CONTROLLER_MOVED, AdminApiHandler, ApiError
from odradek.client.admin.configs import ConfigEntry, created_entries, setting_text
from odradek.client.admin.lookup_strategies import anywhere, at_controller
from odradek.client.names import Names, Several, read_names
from odradek.client.values import PartitionInfo
from odradek.model.acl_operations import Operation, operations_in
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
"""DeleteTopics takes ids, and names in a list of another kind, from this version on."""


class NewTopic(NamedTuple):
    """A topic to be made. Counts of -1 leave the choice to the cluster (its brokers must be 2.4 or later).

    ``assignments`` names the brokers of each partition, the preferred leader first, instead of counts.

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
    """A topic as it was made. Brokers before 2.4 tell no counts and settings, before 2.8 no id."""

    name: str
    topic_id: str | None
    partitions: int
    replication_factor: int
    configs: Mapping[str, ConfigEntry]


class TopicListing(NamedTuple):
    """A topic among others."""

    name: str
    topic_id: str | None
    is_internal: bool


class TopicDescription(NamedTuple):
    """A topic, and where its partitions live."""

    name: str
    topic_id: str | None
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]
    authorized_operations: frozenset[Operation] | None


class NewPartitions(NamedTuple):
    """How many partitions a topic shall have in all; ``assignments`` names the brokers of each added one.

    >>> from odradek import NewPartitions
    >>> NewPartitions(6).total
    6
    """

    total: int
    assignments: Sequence[Sequence[int]] | None = None


class TopicsApi(AdminApi):
    """The topics of ``Admin``."""

    async def create_topics(
        self,
        topics: Several[NewTopic | str],
        *,
        validate_only: bool = False,
        timeout_s: float | None = None,
    ) -> dict[str, CreatedTopic]:
        """Make topics; with ``validate_only`` only find out whether they could be made.

        >>> from odradek import Admin, NewTopic
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> made = admin.create_topics([NewTopic("letters", partitions=3)])
        >>> made["letters"].partitions
        3
        >>> admin.close()
        """
        given = (NewTopic(one) if isinstance(one, str) else one for one in read_names(topics, "topics"))
        wanted = {one.name: one for one in given}

        def request(names: Sequence[str], timeout_ms: int) -> CreateTopicsRequest:
            return CreateTopicsRequest(
                [_creatable(wanted[name]) for name in names], timeout_ms, validate_only
            )

        def read(
            names: Sequence[str], answer: CreateTopicsResponse
        ) -> Iterable[tuple[str, CreatedTopic | ApiError]]:
            for one in answer.topics:
                yield one.name, _refused(one.error_code, one.error_message) or _created(one)

        work = AdminApiHandler(
            what="create topics",
            name=topic_name,
            route=at_controller,
            request=request,
            read=read,
            again=CONTROLLER_MOVED,
        )
        return await self._driver.run(work, wanted, timeout_s)

    async def delete_topics(
        self, topics: Names = (), *, topic_ids: Names = (), timeout_s: float | None = None
    ) -> None:
        """Delete topics by name, or by id (brokers from 2.8 on), with all their records.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["forgettable"])
        >>> admin.delete_topics(["forgettable"])
        >>> admin.close()
        """
        keys: list[TopicKey] = _keys(topics, topic_ids)
        await self._driver.run(_deletion(), keys, timeout_s)

    async def list_topics(
        self, *, include_internal: bool = False, timeout_s: float | None = None
    ) -> dict[str, TopicListing]:
        """All topics by name; without those of the brokers themselves unless they are asked for.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["counted"])
        >>> "counted" in admin.list_topics()
        True
        >>> admin.close()
        """

        def read(
            keys: Sequence[None], answer: MetadataResponse
        ) -> Iterable[tuple[None, dict[str, TopicListing]]]:
            found = (_described(one) for one in answer.topics if not one.error_code)
            yield (
                None,
                {
                    one.name: TopicListing(*one[:3])
                    for one in found
                    if include_internal or not one.is_internal
                },
            )

        work: AdminApiHandler[None, dict[str, TopicListing]] = AdminApiHandler(
            what="list topics",
            name=lambda _: "list topics",
            route=anywhere,
            request=lambda keys, timeout_ms: MetadataRequest(None, allow_auto_topic_creation=False),
            read=read,
        )
        return await self._driver.run_single(work, timeout_s)

    async def describe_topics(
        self,
        topics: Names = (),
        *,
        topic_ids: Names = (),
        include_authorized_operations: bool = False,
        timeout_s: float | None = None,
    ) -> dict[str, TopicDescription]:
        """TopicsApi by name, or by id (brokers from 3.1 on), with leaders and replicas of their partitions.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["village"])
        >>> [one.partition for one in admin.describe_topics(["village"])["village"].partitions]
        [0]
        >>> admin.close()
        """
        keys: list[TopicKey] = _keys(topics, topic_ids)
        work = _description(include_authorized_operations)
        found = await self._driver.run(work, keys, timeout_s)
        return {one.name: one for one in found.values()}

    async def create_partitions(
        self,
        totals: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Give topics more partitions; the numbers are totals.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["growing"])
        >>> admin.create_partitions({"growing": 2})
        >>> admin.close()
        """
        await self._driver.run(_growth(totals, validate_only), totals, timeout_s)


TopicKey = str | bytes
"""A topic's name, or its id."""


def _keys(topics: Names, topic_ids: Names) -> list[TopicKey]:
    return [*read_names(topics, "topics"), *map(parse_uuid, read_names(topic_ids, "topic_ids"))]


def topic_name(key: TopicKey) -> str:
    """A topic as errors call it."""
    return f"topic {key}" if isinstance(key, str) else f"topic with the id {uuid_text(key)}"


def _refused(code: int, message: str | None = None) -> ApiError | None:
    return ApiError(ErrorCode(code), message) if code else None


def _creatable(topic: NewTopic) -> CreatableTopic:
    assignments = [CreatableReplicaAssignment(number, list(ids)) for number, ids in topic.assignments.items()]
    configs = [CreatableTopicConfig(name, setting_text(value)) for name, value in topic.configs.items()]
    return CreatableTopic(topic.name, topic.partitions, topic.replication_factor, assignments, configs)


def _created(one: CreatableTopicResult) -> CreatedTopic:
    return CreatedTopic(
        one.name,
        _id_text(one.topic_id),
        one.num_partitions,
        one.replication_factor,
        created_entries(one.configs or ()),
    )


def _id_text(topic_id: bytes) -> str | None:
    return None if topic_id == ZERO_TOPIC_ID else uuid_text(topic_id)


def _deletion() -> AdminApiHandler[TopicKey, None]:
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
        keys: Sequence[TopicKey], answer: DeleteTopicsResponse
    ) -> Iterable[tuple[TopicKey, ApiError | None]]:
        for one in answer.responses:
            key: TopicKey = one.topic_id if one.topic_id in keys else one.name or ""
            yield key, _refused(one.error_code, one.error_message)

    return AdminApiHandler(
        what="delete topics",
        name=topic_name,
        route=at_controller,
        request=request,
        read=read,
        again=CONTROLLER_MOVED,
    )


def _description(with_operations: bool) -> AdminApiHandler[TopicKey, TopicDescription]:
    def request(keys: Sequence[TopicKey], timeout_ms: int) -> MetadataRequest:
        asked = [
            MetadataRequestTopic(name=key) if isinstance(key, str) else MetadataRequestTopic(key, None)
            for key in keys
        ]
        return MetadataRequest(asked, False, include_topic_authorized_operations=with_operations)

    def read(
        keys: Sequence[TopicKey], answer: MetadataResponse
    ) -> Iterable[tuple[TopicKey, TopicDescription | ApiError]]:
        for one in answer.topics:
            key: TopicKey = one.topic_id if one.topic_id in keys else one.name or ""
            yield key, _refused(one.error_code) or _described(one)

    return AdminApiHandler(
        what="describe topics",
        name=topic_name,
        route=anywhere,
        request=request,
        read=read,
        again=frozenset({ErrorCode.LEADER_NOT_AVAILABLE}),
    )


def _described(topic: MetadataResponseTopic) -> TopicDescription:
    name = topic.name or ""
    partitions = (
        PartitionInfo(
            name,
            one.partition_index,
            one.leader_id,
            tuple(one.replica_nodes),
            tuple(one.isr_nodes),
            tuple(one.offline_replicas),
            one.leader_epoch,
        )
        for one in topic.partitions
    )
    return TopicDescription(
        name,
        _id_text(topic.topic_id),
        topic.is_internal,
        tuple(sorted(partitions)),
        operations_in(topic.topic_authorized_operations),
    )


def _growth(totals: Mapping[str, int | NewPartitions], validate_only: bool) -> AdminApiHandler[str, None]:
    def wanted(name: str) -> CreatePartitionsTopic:
        given = totals[name]
        total, assignments = (given, None) if isinstance(given, int) else given
        if assignments is None:
            return CreatePartitionsTopic(name, total, None)
        return CreatePartitionsTopic(
            name, total, [CreatePartitionsAssignment(list(ids)) for ids in assignments]
        )

    def request(names: Sequence[str], timeout_ms: int) -> CreatePartitionsRequest:
        return CreatePartitionsRequest([wanted(name) for name in names], timeout_ms, validate_only)

    def read(names: Sequence[str], answer: CreatePartitionsResponse) -> Iterable[tuple[str, ApiError | None]]:
        for one in answer.results:
            yield one.name, _refused(one.error_code, one.error_message)

    return AdminApiHandler(
        what="create partitions",
        name=topic_name,
        route=at_controller,
        request=request,
        read=read,
        again=CONTROLLER_MOVED,
    )
