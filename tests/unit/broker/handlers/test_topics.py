"""CreateTopics, CreatePartitions and DeleteTopics: waiting, errors, races."""

import asyncio

import pytest

from odradek.model.errors import ErrorCode
from odradek.store.layout.znodes import ReplicaAssignment, TopicAssignment
from odradek.store.topics import read_topics, write_assignment
from odradek.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

CREATE, DELETE, GROW = 19, 20, 37


def deleting(*names, timeout_ms=5000):
    return DeleteTopicsRequest([DeleteTopicState(name) for name in names], [], timeout_ms)


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_create_with_zero_timeout_creates_and_returns_request_timed_out(run_scenario, timeout_ms):
    async def scenario(harness):
        request = CreateTopicsRequest([CreatableTopic("orders", 1, 1)], timeout_ms)
        response = await harness.request(CREATE, 7, request)
        assert response.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        await asyncio.sleep(1)
        assert harness.broker.metadata_cache.topic("orders") is not None

    run_scenario(scenario)


def test_topic_without_live_replicas_is_rejected_and_its_name_stays_free(run_scenario):
    async def scenario(harness):
        began_ms = harness.cluster.clock.monotonic_ms()
        assert await harness.create("orders", assignments={0: [77]}) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await harness.create("orders") == ErrorCode.NONE
        assert harness.cluster.clock.monotonic_ms() - began_ms < 1000

    run_scenario(scenario)


def test_topics_of_one_request_succeed_or_fail_independently(run_scenario):
    async def scenario(harness):
        await harness.create("there")
        new_topics = [
            CreatableTopic("good", 2, 1),
            CreatableTopic("there", 1, 1),
            CreatableTopic("a/b", 1, 1),
            CreatableTopic("many", 1, 5),
            CreatableTopic("none", 0, 1),
            CreatableTopic("odd", 1, 1, [], [CreatableTopicConfig("retention.ms", "soon")]),
            CreatableTopic("strange", 1, 1, [], [CreatableTopicConfig("no.such", "1")]),
            CreatableTopic("null", 1, 1, [], [CreatableTopicConfig("retention.ms", None)]),
        ]
        response = await harness.request(CREATE, 7, CreateTopicsRequest(new_topics, 5000))
        codes = {topic.name: topic.error_code for topic in response.topics}
        assert codes == {
            "good": 0,
            "there": ErrorCode.TOPIC_ALREADY_EXISTS,
            "a/b": ErrorCode.INVALID_TOPIC_EXCEPTION,
            "many": ErrorCode.INVALID_REPLICATION_FACTOR,
            "none": ErrorCode.INVALID_PARTITIONS,
            "odd": ErrorCode.INVALID_CONFIG,
            "strange": ErrorCode.INVALID_CONFIG,
            "null": ErrorCode.INVALID_CONFIG,
        }
        assert set(harness.broker.metadata_cache.topics) == {"there", "good"}
        assert all(topic.error_message for topic in response.topics if topic.error_code)

    run_scenario(scenario)


def test_duplicate_topic_entries_are_rejected(run_scenario):
    async def scenario(harness):
        names = ("twin", "single", "twin")
        request = CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], 5000)
        response = await harness.request(CREATE, 7, request)
        rejected = ErrorCode.INVALID_REQUEST
        result = [(topic.name, topic.error_code) for topic in response.topics]
        assert result == [("twin", rejected), ("single", 0), ("twin", rejected)]
        assert set(harness.broker.metadata_cache.topics) == {"single"}

    run_scenario(scenario)


def test_first_of_colliding_names_in_one_request_is_created(run_scenario):
    async def scenario(harness):
        names = ("a.b_c", "a_b.c", "a-b_c")
        request = CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], 5000)
        response = await harness.request(CREATE, 7, request)
        codes = [topic.error_code for topic in response.topics]
        assert codes == [0, ErrorCode.INVALID_TOPIC_EXCEPTION, 0]
        assert "a.b_c" in response.topics[1].error_message
        assert set(harness.broker.metadata_cache.topics) == {"a.b_c", "a-b_c"}

    run_scenario(scenario)


def test_validate_only_accepts_the_first_of_colliding_names(run_scenario):
    async def scenario(harness):
        names = ("a.b", "a_b")
        request = CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], 5000, True)
        response = await harness.request(CREATE, 7, request)
        assert [topic.error_code for topic in response.topics] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert not harness.broker.metadata_cache.topics

    run_scenario(scenario)


def test_concurrent_creation_of_colliding_names_succeeds_once(run_scenario):
    async def scenario(harness):
        clients = [await harness.memory_broker.connect() for _ in range(4)]
        names = ("a.b.c", "a_b_c", "a.b_c", "a_b.c")
        requests = [CreateTopicsRequest([CreatableTopic(name, 1, 1)], 5000) for name in names]
        begun = [client.send(CREATE, 7, item) for client, item in zip(clients, requests, strict=True)]
        codes = sorted(response.topics[0].error_code for response in await asyncio.gather(*begun))
        assert codes == [0, *[ErrorCode.INVALID_TOPIC_EXCEPTION] * 3]
        assert len(harness.broker.metadata_cache.topics) == 1

    run_scenario(scenario, delay_max_ms=5)


def test_concurrent_creation_of_one_topic_succeeds_once(run_scenario):
    async def scenario(harness):
        clients = [await harness.memory_broker.connect() for _ in range(4)]
        request = CreateTopicsRequest([CreatableTopic("orders", 3, 1)], 5000)
        responses = await asyncio.gather(*(client.send(CREATE, 7, request) for client in clients))
        codes = sorted(respons.topics[0].error_code for respons in responses)
        assert codes == [0, *[ErrorCode.TOPIC_ALREADY_EXISTS] * 3]

    run_scenario(scenario, delay_max_ms=5)


def test_concurrent_deletion_of_one_topic_succeeds_for_all(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        clients = [await harness.memory_broker.connect() for _ in range(3)]
        responses = await asyncio.gather(*(client.send(DELETE, 6, deleting("orders")) for client in clients))
        for response in responses:
            assert response.responses[0].error_code in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert harness.broker.metadata_cache.topic("orders") is None

    run_scenario(scenario)


def test_deletion_can_be_disabled(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        response = await harness.request(DELETE, 6, deleting("orders", "nowhere"))
        codes = {respons.name: respons.error_code for respons in response.responses}
        assert codes["orders"] == ErrorCode.TOPIC_DELETION_DISABLED
        assert harness.broker.metadata_cache.topic("orders") is not None

    run_scenario(scenario, {"delete.topic.enable": "false"})


def test_duplicate_topic_is_deleted_once(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        response = await harness.request(DELETE, 6, deleting("orders", "orders"))
        assert [respons.error_code for respons in response.responses] == [0]

    run_scenario(scenario)


def test_files_of_a_deleted_topic_are_removed_after_the_delay(run_scenario):
    async def scenario(harness):
        await harness.create("orders", 2, {"file.delete.delay.ms": "5000"})
        await harness.produce("orders", b"x")
        await harness.request(DELETE, 6, deleting("orders"))
        names = harness.cluster.files.list_names
        assert len([name for name in names("/data") if name.endswith("-delete")]) == 2
        await asyncio.sleep(10)
        assert not [name for name in names("/data") if name.startswith("orders")]

    run_scenario(scenario)


def test_repeatedly_recreated_topic_is_always_empty(run_scenario):
    async def scenario(harness):
        seen = set()
        for _ in range(10):
            assert await harness.create("orders") == 0
            seen.add(harness.topic_id("orders"))
            assert (await harness.produce("orders", b"x")).base_offset == 0
            response = await harness.request(DELETE, 6, deleting("orders"))
            assert response.responses[0].error_code == 0
        assert len(seen) == 10

    run_scenario(scenario)


def test_new_partitions_accept_a_manual_assignment(run_scenario):
    async def scenario(harness):
        await harness.create("orders")

        async def grow(*replicas):
            assignments = [CreatePartitionsAssignment(list(replica)) for replica in replicas]
            request = CreatePartitionsTopic("orders", 1 + len(replicas), assignments)
            response = await harness.request(GROW, 3, CreatePartitionsRequest([request], 5000))
            return response.results[0].error_code

        own = harness.broker.broker_id
        assert await grow((own + 1,)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await grow((own, own)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await grow((own,), (own,)) == 0
        assert len(harness.broker.metadata_cache.topic("orders").partitions) == 3

    run_scenario(scenario)


def test_create_partitions_of_a_topic_deleted_meanwhile_fails_at_once(run_scenario):
    async def scenario(harness):
        other = await harness.memory_broker.connect()
        for _ in range(20):
            await harness.create("orders")
            began_ms = harness.cluster.clock.monotonic_ms()
            request = CreatePartitionsTopic("orders", 3, None)
            deleting_it = other.send(DELETE, 6, deleting("orders"))
            growing = harness.client.send(GROW, 3, CreatePartitionsRequest([request], 600_000))
            grown, deleted = await growing, await deleting_it
            assert deleted.responses[0].error_code == 0
            assert grown.results[0].error_code in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            assert harness.cluster.clock.monotonic_ms() - began_ms < 5_000

    run_scenario(scenario)


def test_create_partitions_is_rejected_during_a_reassignment(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        store = harness.memory_broker._session.store
        own = harness.broker.broker_id
        moving = {0: ReplicaAssignment((own,), adding=(own + 1,))}
        await write_assignment(store, "orders", TopicAssignment(harness.topic_id("orders"), moving))
        request = CreatePartitionsTopic("orders", 2, None)
        response = await harness.request(GROW, 3, CreatePartitionsRequest([request], 5000))
        assert response.results[0].error_code == ErrorCode.REASSIGNMENT_IN_PROGRESS

    run_scenario(scenario)


INTERNAL = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
}


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
@pytest.mark.parametrize("validate_only", [False, True])
def test_create_partitions_is_rejected_for_internal_topics(run_scenario, topic, validate_only):
    async def scenario(harness):
        await harness.request(3, 12, MetadataRequest([MetadataRequestTopic(name=topic)]))
        request = CreatePartitionsTopic(topic, 7, None)
        response = await harness.request(GROW, 3, CreatePartitionsRequest([request], 5000, validate_only))
        assert response.results[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert "cannot be changed" in response.results[0].error_message
        assert len(harness.broker.metadata_cache.topic(topic).partitions) == 3

    run_scenario(scenario, INTERNAL)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_coordinator_ignores_partitions_added_to_its_topic(run_scenario, topic):
    async def scenario(harness):
        await harness.request(3, 12, MetadataRequest([MetadataRequestTopic(name=topic)]))
        offsets, transactions = (
            harness.broker._group_coordinator._topic,
            harness.broker._transaction_coordinator._topic,
        )
        coordinator = offsets if topic == "__consumer_offsets" else transactions
        identifiers = [f"name {number}" for number in range(30)]
        before = [coordinator.partition_of(identifier) for identifier in identifiers]
        own = ReplicaAssignment((harness.broker.broker_id,))
        grown = TopicAssignment(harness.topic_id(topic), dict.fromkeys(range(7), own))
        await write_assignment(harness.memory_broker._session.store, topic, grown)
        await asyncio.sleep(1)
        assert len(harness.broker.metadata_cache.topic(topic).partitions) == 7
        assert [coordinator.partition_of(identifier) for identifier in identifiers] == before
        await harness.request(DELETE, 6, deleting(topic))
        await harness.create(topic, 5)
        assert {coordinator.partition_of(identifier) for identifier in identifiers} == set(range(5))

    run_scenario(scenario, INTERNAL)


@pytest.mark.parametrize(
    ("topic", "partitions", "policy"),
    [("__consumer_offsets", 7, "compact"), ("__transaction_state", 5, "compact")],
)
def test_internal_topics_have_their_own_settings(run_scenario, topic, partitions, policy):
    async def scenario(harness):
        requested = MetadataRequest([MetadataRequestTopic(name=topic)])
        [result] = (await harness.request(3, 12, requested)).topics
        assert result.error_code == 0
        assert result.is_internal
        assert len(result.partitions) == partitions
        assert harness.broker._admin_manager.topic_overrides(topic)["cleanup.policy"] == policy

    run_scenario(
        scenario,
        {
            "offsets.topic.num.partitions": "7",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "5",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        },
    )


def test_created_topic_is_in_the_store(run_scenario):
    async def scenario(harness):
        await harness.create("orders", 2)
        result = await read_topics(harness.memory_broker._session.store)
        assert set(result) == {"orders"}
        assert result["orders"].assignment.topic_id == harness.topic_id("orders")

    run_scenario(scenario)


def test_assignment_that_does_not_fit_into_a_node_is_refused(run_scenario):
    async def scenario(harness):
        assert await harness.create("orders", 90_000) == ErrorCode.INVALID_PARTITIONS
        assert await harness.create("orders") == ErrorCode.NONE
        request = CreatePartitionsTopic("orders", 90_000, None)
        response = await harness.request(GROW, 3, CreatePartitionsRequest([request], 5000))
        assert response.results[0].error_code == ErrorCode.INVALID_PARTITIONS
        assert "at most 1048576 bytes" in response.results[0].error_message
        assert len(harness.broker.metadata_cache.topic("orders").partitions) == 1

    run_scenario(scenario)
