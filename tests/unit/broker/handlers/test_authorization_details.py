"""Authorization where a response is filtered, or more than one resource counts."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.handlers.acl_client import (
    CLUSTER,
    GROUP,
    SETTINGS,
    TOPIC,
    TRANSACTIONAL_ID,
    acl,
    allow,
    connect_as,
    send,
)
from tests.unit.broker.handlers.authorization_cases import records
from tests.unit.broker.handlers.transactional_client import TransactionalProducer, create_coordinators

from odradek.broker.audit import REFUSALS_MAX
from odradek.model.acl_enums import AclPermissionType
from odradek.model.acl_operations import (
    CLUSTER_OPERATIONS,
    GROUP_OPERATIONS,
    TOPIC_OPERATIONS,
    AclOperation,
    bit_field,
)
from odradek.model.errors import ErrorCode
from odradek.testing.broker import ConnectionEnded
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.describe_cluster import DescribeClusterRequest
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.messages.list_transactions import ListTransactionsRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

READ, WRITE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE
DELETE, DESCRIBE = AclOperation.DELETE, AclOperation.DESCRIBE
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NOT_REQUESTED = -2147483648
DENY = AclPermissionType.DENY


async def metadata(client: Any, *names: str, version: int = 12, **options: Any) -> dict[str, Any]:
    topics = [MetadataRequestTopic(name=name) for name in names] or None
    options.setdefault("allow_auto_topic_creation", False)
    response = await send(client, "Metadata", version, MetadataRequest(topics, **options))
    return {topic.name: topic for topic in response.topics}


# Metadata.


@pytest.mark.parametrize("version", range(1, 13))
def test_list_of_all_topics_has_the_allowed_ones_only(run_scenario, version) -> None:
    async def scenario(harness):
        alice, bob = await connect_as(harness, "alice"), await connect_as(harness, "bob")
        for topic in ("mine", "theirs"):
            await harness.create(topic)
        options = {} if version < 4 else {"allow_auto_topic_creation": False}
        options.setdefault("allow_auto_topic_creation", True)
        assert await metadata(alice, version=version, **options) == {}
        await allow(harness, acl(DESCRIBE, TOPIC, "mine"), acl(READ, TOPIC, "*", principal="User:bob"))
        [(name, mine)] = (await metadata(alice, version=version, **options)).items()
        assert (name, mine.error_code, len(mine.partitions)) == ("mine", 0, 1)
        assert (await metadata(bob, version=version, **options)).keys() == {"mine", "theirs"}
        assert (await metadata(harness.client, version=version, **options)).keys() == {"mine", "theirs"}
        await harness.create("new")
        assert (await metadata(bob, version=version, **options)).keys() == {"mine", "theirs", "new"}
        assert (await metadata(alice, version=version, **options)).keys() == {"mine"}

    run_scenario(scenario, SETTINGS)


def test_empty_list_means_all_allowed_topics_in_version_0(run_scenario) -> None:
    async def scenario(harness):
        alice = await connect_as(harness, "alice")
        await harness.create("mine")
        await harness.create("theirs")
        await allow(harness, acl(DESCRIBE, TOPIC, "mine"))
        response = await send(alice, "Metadata", 0, MetadataRequest([]))
        assert [topic.name for topic in response.topics] == ["mine"]

    run_scenario(scenario, SETTINGS)


def test_list_of_very_many_topics_is_filtered(run_scenario) -> None:
    async def scenario(harness):
        topics = [CreatableTopic(f"t{number}", 1, 1) for number in range(250)]
        await send(harness.client, "CreateTopics", 7, CreateTopicsRequest(topics, 60_000))
        alice = await connect_as(harness, "alice")
        await allow(
            harness, acl(READ, TOPIC, "*"), acl(READ, TOPIC, "t7", DENY), acl(DESCRIBE, TOPIC, "t7", DENY)
        )
        listed = await metadata(alice)
        assert listed.keys() == {f"t{number}" for number in range(250)} - {"t7"}
        bob = await connect_as(harness, "bob")
        assert await metadata(bob) == {}

    run_scenario(scenario, SETTINGS)


def test_denied_topic_is_not_created_and_its_name_tells_nothing(run_scenario) -> None:
    async def scenario(harness):
        alice = await connect_as(harness, "alice")
        await harness.create("theirs")
        await allow(harness, acl(CREATE, CLUSTER))
        entries = await metadata(alice, "theirs", "nowhere", "not legal!", allow_auto_topic_creation=True)
        assert {(e.error_code, e.topic_id, e.is_internal, len(e.partitions)) for e in entries.values()} == {
            (DENIED, bytes(16), False, 0)
        }
        assert harness.broker.metadata_cache.topic("nowhere") is None

    run_scenario(scenario, SETTINGS)


@pytest.mark.parametrize(
    ("granted", "is_created"),
    [
        ([], False),
        ([acl(CREATE, CLUSTER)], True),
        ([acl(CREATE, TOPIC, "new")], True),
        ([acl(CREATE, TOPIC, "other")], False),
        ([acl(CREATE, CLUSTER), acl(CREATE, TOPIC, "new", DENY)], True),
    ],
)
def test_missing_topic_is_created_for_who_may(run_scenario, granted, is_created) -> None:
    async def scenario(harness):
        alice = await connect_as(harness, "alice")
        await harness.create("mine")
        await allow(harness, acl(READ, TOPIC, "*"), *granted)
        entries = await metadata(alice, "mine", "new", allow_auto_topic_creation=True)
        assert entries["mine"].error_code == 0
        assert entries["new"].error_code == (0 if is_created else DENIED)
        assert (harness.broker.metadata_cache.topic("new") is not None) is is_created

    run_scenario(scenario, SETTINGS)


def test_missing_topic_is_unknown_where_none_is_created(run_scenario) -> None:
    async def scenario(harness):
        alice = await connect_as(harness, "alice")
        await allow(harness, acl(READ, TOPIC, "*"))
        entries = await metadata(alice, "new", allow_auto_topic_creation=True)
        assert entries["new"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run_scenario(scenario, {**SETTINGS, "auto.create.topics.enable": "false"})


def test_topics_by_id(run_scenario) -> None:
    async def scenario(harness):
        alice = await connect_as(harness, "alice")
        await harness.create("mine")
        await harness.create("theirs")
        await allow(harness, acl(DESCRIBE, TOPIC, "mine"), acl(CREATE, CLUSTER))
        ids = [harness.topic_id("mine"), harness.topic_id("theirs"), bytes(range(16))]
        topics = [MetadataRequestTopic(topic_id, None) for topic_id in ids]
        # A name beside an id is of no use.
        topics.append(MetadataRequestTopic(bytes(range(16, 32)), "nowhere"))
        response = await send(alice, "Metadata", 12, MetadataRequest(topics, True))
        by_id = {topic.topic_id: (topic.error_code, topic.name) for topic in response.topics}
        assert [by_id[topic_id] for topic_id in ids] == [
            (0, "mine"),
            (DENIED, None),
            (ErrorCode.UNKNOWN_TOPIC_ID, None),
        ]
        assert harness.broker.metadata_cache.topic("nowhere") is None

    run_scenario(scenario, SETTINGS)


# Authorized operations.


def test_authorized_operations(run_scenario) -> None:
    async def scenario(harness):
        alice, bob = await connect_as(harness, "alice"), await connect_as(harness, "bob")
        await harness.create("mine")
        await allow(
            harness,
            acl(READ, TOPIC, "mine"),
            acl(DESCRIBE, TOPIC, "*", principal="User:bob"),
            acl(AclOperation.ALTER, CLUSTER),
            acl(AclOperation.ALL, GROUP, "group"),
        )
        await create_coordinators(harness)
        wanted = {"include_topic_authorized_operations": True}
        expected = [
            (harness.client, TOPIC_OPERATIONS),
            (alice, bit_field([READ, DESCRIBE])),
            (bob, bit_field([DESCRIBE])),
        ]
        for client, operations in expected:
            assert (await metadata(client, "mine", **wanted))[
                "mine"
            ].topic_authorized_operations == operations
            assert (await metadata(client, **wanted))["mine"].topic_authorized_operations == operations
            assert (await metadata(client))["mine"].topic_authorized_operations == NOT_REQUESTED
        on_cluster = [
            (harness.client, CLUSTER_OPERATIONS),
            (alice, bit_field([AclOperation.ALTER, DESCRIBE])),
            (bob, 0),
        ]
        for client, operations in on_cluster:
            response = await send(client, "DescribeCluster", 1, DescribeClusterRequest(True))
            assert (response.error_code, response.cluster_authorized_operations) == (0, operations)
            request = MetadataRequest([], False, include_cluster_authorized_operations=True)
            response = await send(client, "Metadata", 10, request)
            assert response.cluster_authorized_operations == operations
        described = await send(alice, "DescribeGroups", 5, DescribeGroupsRequest(["group", "other"], True))
        assert [(group.error_code, group.authorized_operations) for group in described.groups] == [
            (0, GROUP_OPERATIONS),
            (ErrorCode.GROUP_AUTHORIZATION_FAILED, NOT_REQUESTED),
        ]

    run_scenario(scenario, SETTINGS)


# Lists.


def test_groups_are_listed_as_allowed(run_scenario) -> None:
    async def scenario(harness):
        await harness.create("orders")
        await create_coordinators(harness)
        topics = [OffsetCommitRequestTopic("orders", [OffsetCommitRequestPartition(0, 1)])]
        for group in ("mine", "theirs"):
            await send(harness.client, "OffsetCommit", 9, OffsetCommitRequest(group, topics=topics))
        await allow(harness, acl(READ, GROUP, "mine"), acl(DESCRIBE, CLUSTER, principal="User:bob"))

        async def listed(name: str) -> set[str]:
            client = await connect_as(harness, name)
            response = await send(client, "ListGroups", 5, ListGroupsRequest())
            assert response.error_code == 0
            return {group.group_id for group in response.groups}

        assert await listed("alice") == {"mine"}
        assert await listed("bob") == {"mine", "theirs"}
        assert await listed("carol") == set()

    run_scenario(scenario, SETTINGS)


def test_transactions_are_listed_and_described_as_allowed(run_scenario) -> None:
    async def scenario(harness):
        for topic in ("mine", "theirs"):
            await harness.create(topic)
        await create_coordinators(harness)
        for name in ("my-txn", "their-txn"):
            producer = TransactionalProducer(harness, name)
            assert await producer.init() == 0
            assert await producer.add("mine") == await producer.add("theirs") == {0: 0}
        alice = await connect_as(harness, "alice")
        await allow(harness, acl(DESCRIBE, TRANSACTIONAL_ID, "my-txn"), acl(READ, TOPIC, "mine"))
        response = await send(alice, "ListTransactions", 1, ListTransactionsRequest())
        assert [each.transactional_id for each in response.transaction_states] == ["my-txn"]
        request = DescribeTransactionsRequest(["my-txn", "their-txn", "no-txn"])
        response = await send(alice, "DescribeTransactions", 0, request)
        mine, theirs, nobodys = response.transaction_states
        assert (mine.error_code, [topic.topic for topic in mine.topics]) == (0, ["mine"])
        for state in (theirs, nobodys):
            assert (state.error_code, state.topics, state.producer_id) == (
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                [],
                theirs.producer_id,
            )

    run_scenario(scenario, SETTINGS)


def test_all_offsets_of_a_group_are_those_of_allowed_topics(run_scenario) -> None:
    async def scenario(harness):
        for topic in ("mine", "theirs"):
            await harness.create(topic)
        await create_coordinators(harness)
        topics = [
            OffsetCommitRequestTopic(topic, [OffsetCommitRequestPartition(0, 1)])
            for topic in ("mine", "theirs")
        ]
        await send(harness.client, "OffsetCommit", 9, OffsetCommitRequest("group", topics=topics))
        alice = await connect_as(harness, "alice")
        await allow(harness, acl(DESCRIBE, GROUP, "group"), acl(READ, TOPIC, "mine"))
        for version in range(2, 10):
            request = OffsetFetchRequest("group", None)
            if version >= 8:
                request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("group", topics=None)])
            response = await send(alice, "OffsetFetch", version, request)
            of_group = response.groups[0].topics if version >= 8 else response.topics
            assert [topic.name for topic in of_group] == ["mine"]

    run_scenario(scenario, SETTINGS)


# Produce and Fetch.


def produced(*topics: str, acks: int = -1, data: bytes | None = None) -> ProduceRequest:
    return ProduceRequest(
        None,
        acks,
        1000,
        [TopicProduceData(topic, [PartitionProduceData(0, data or records())]) for topic in topics],
    )


def test_denied_topic_gets_no_records(run_scenario) -> None:
    async def scenario(harness):
        for topic in ("mine", "theirs"):
            await harness.create(topic)
        alice = await connect_as(harness, "alice")
        await allow(harness, acl(WRITE, TOPIC, "mine"))
        response = await send(alice, "Produce", 11, produced("theirs", "mine", "theirs"))
        codes = [topic.partition_responses[0].error_code for topic in response.responses]
        assert codes == [DENIED, 0, DENIED]
        assert (await harness.values("mine"), await harness.values("theirs")) == ([b"v"], [])

    run_scenario(scenario, SETTINGS)


def test_denied_produce_without_acks_closes_the_connection(run_scenario) -> None:
    async def scenario(harness):
        for topic in ("mine", "theirs"):
            await harness.create(topic)
        alice = await connect_as(harness, "alice")
        await allow(harness, acl(WRITE, TOPIC, "mine"))
        alice.send_oneway(0, 11, produced("mine", acks=0))
        assert (await metadata(alice, "mine"))["mine"].error_code == 0
        alice.send_oneway(0, 11, produced("theirs", "mine", acks=0))
        with pytest.raises(ConnectionEnded):
            await metadata(alice, "mine")
        assert (await harness.values("mine"), await harness.values("theirs")) == ([b"v"] * 2, [])

    run_scenario(scenario, SETTINGS)


def test_transactional_produce_needs_the_transactional_id(run_scenario) -> None:
    async def scenario(harness):
        await harness.create("orders")
        await create_coordinators(harness)
        producer = TransactionalProducer(harness, "txn")
        await producer.init()
        await producer.add()
        alice = await connect_as(harness, "alice")
        await allow(harness, acl(WRITE, TOPIC, "orders"))
        data = bytes(producer.batch(b"v"))
        for transactional_id in ("txn", None):
            request = produced("orders", data=data)
            request.transactional_id = transactional_id
            response = await send(alice, "Produce", 11, request)
            code = response.responses[0].partition_responses[0].error_code
            assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        await allow(harness, acl(WRITE, TRANSACTIONAL_ID, "txn"))
        request = produced("orders", data=data)
        request.transactional_id = "txn"
        response = await send(alice, "Produce", 11, request)
        assert response.responses[0].partition_responses[0].error_code == 0

    run_scenario(scenario, SETTINGS)


def fetched(harness: Any, *topics: str, session_id: int = 0, epoch: int = -1) -> FetchRequest:
    return FetchRequest(
        topics=[
            FetchTopic(
                topic_id=harness.topic_id(topic),
                partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)],
            )
            for topic in topics
        ],
        max_wait_ms=500,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
    )


def test_fetch_session_follows_the_acls(run_scenario) -> None:
    async def scenario(harness):
        names = {}
        for topic in ("mine", "theirs"):
            await harness.create(topic)
            await harness.produce(topic, b"a")
            names[harness.topic_id(topic)] = topic
        alice = await connect_as(harness, "alice")
        await allow(harness, acl(READ, TOPIC, "mine"))

        async def fetch(request: FetchRequest) -> tuple[dict[str, tuple[int, bool]], int]:
            response = await send(alice, "Fetch", 17, request)
            assert response.error_code == 0
            entries = {
                names[topic.topic_id]: (part.error_code, bool(part.records))
                for topic in response.responses
                for part in topic.partitions
            }
            return entries, response.session_id

        entries, session_id = await fetch(fetched(harness, "mine", "theirs", epoch=0))
        assert entries == {"mine": (0, True), "theirs": (DENIED, False)}
        # An incremental fetch has the errors of the whole session.
        entries, _ = await fetch(fetched(harness, session_id=session_id, epoch=1))
        assert entries == {"mine": (0, True), "theirs": (DENIED, False)}
        await allow(harness, acl(READ, TOPIC, "theirs"), acl(READ, TOPIC, "mine", DENY))
        entries, _ = await fetch(fetched(harness, session_id=session_id, epoch=2))
        assert entries == {"mine": (DENIED, False), "theirs": (0, True)}

    run_scenario(scenario, SETTINGS)


# Topics.


def test_configs_of_a_created_topic_are_hidden_from_who_may_not_describe_them(run_scenario) -> None:
    async def scenario(harness):
        alice = await connect_as(harness, "alice")
        await allow(
            harness,
            acl(CREATE, CLUSTER),
            acl(AclOperation.DESCRIBE_CONFIGS, TOPIC, "open"),
        )
        topics = [CreatableTopic("open", 2, 1), CreatableTopic("hidden", 2, 1), CreatableTopic("bad!", 1, 1)]
        response = await send(alice, "CreateTopics", 7, CreateTopicsRequest(topics, 1000))
        opened, hidden, bad = response.topics
        assert (opened.error_code, opened.topic_config_error_code, opened.num_partitions) == (0, 0, 2)
        assert opened.topic_id == harness.topic_id("open")
        assert opened.configs
        assert (hidden.error_code, hidden.topic_config_error_code, hidden.num_partitions) == (0, DENIED, -1)
        assert (hidden.topic_id, hidden.configs) == (bytes(16), [])
        assert (bad.error_code, bad.topic_config_error_code) == (ErrorCode.INVALID_TOPIC_EXCEPTION, 0)

    run_scenario(scenario, SETTINGS)


def test_deleting_by_id_does_not_tell_the_name(run_scenario) -> None:
    async def scenario(harness):
        for topic in ("hidden", "known", "mine"):
            await harness.create(topic)
        alice = await connect_as(harness, "alice")
        await allow(harness, acl(DESCRIBE, TOPIC, "known"), acl(DELETE, TOPIC, "mine"))
        ids = {topic: harness.topic_id(topic) for topic in ("hidden", "known", "mine")}
        states = [DeleteTopicState(None, topic_id) for topic_id in (*ids.values(), bytes(range(16)))]
        response = await send(alice, "DeleteTopics", 6, DeleteTopicsRequest(states, timeout_ms=1000))
        assert {(each.topic_id, each.error_code, each.name) for each in response.responses} == {
            (ids["hidden"], DENIED, None),
            (ids["known"], DENIED, "known"),
            (ids["mine"], 0, "mine"),
            (bytes(range(16)), ErrorCode.UNKNOWN_TOPIC_ID, None),
        }
        assert harness.broker.metadata_cache.topics.keys() >= {"hidden", "known"}

    run_scenario(scenario, SETTINGS)


# The broker itself.


def test_broker_needs_no_acl_for_itself(run_scenario) -> None:
    """Nobody is a super user: the broker creates its internal topics, and coordinates a transaction."""

    async def scenario(harness):
        await allow(
            harness,
            acl(AclOperation.ALL, TOPIC, "orders", principal="User:ANONYMOUS"),
            acl(AclOperation.ALL, GROUP, "*", principal="User:ANONYMOUS"),
            acl(AclOperation.ALL, TRANSACTIONAL_ID, "*", principal="User:ANONYMOUS"),
        )
        assert await harness.create("orders") == 0
        await create_coordinators(harness)
        producer = TransactionalProducer(harness, "txn")
        assert await producer.init() == 0
        await producer.transact(b"v")
        assert await producer.add_offsets() == 0
        assert await producer.commit_offset(1) == 0
        assert await producer.end() == 0
        assert await producer.wait_until_complete() == "CompleteCommit"

    run_scenario(scenario, {**SETTINGS, "super.users": ""})


def test_denials_are_logged_once_per_kind(run_scenario, caplog) -> None:
    async def scenario(harness):
        alice = await connect_as(harness, "alice")
        await harness.create("theirs")
        with caplog.at_level("WARNING", logger="odradek.audit"):
            for _ in range(REFUSALS_MAX + 5):
                await metadata(alice, "theirs")
            await metadata(alice)
        events = [record for record in caplog.records if getattr(record, "event", "").endswith("denied")]
        assert len(events) == REFUSALS_MAX
        assert all(record.fields["principal"] == "User:alice" for record in events)
        assert {record.fields["resource"] for record in events} == {"TOPIC:theirs"}
        assert {record.fields["api"] for record in events} == {"Metadata"}

    run_scenario(scenario, SETTINGS)
