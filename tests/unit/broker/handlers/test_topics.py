"""Topics made, grown and deleted: waiting, refusals, races."""

import asyncio

import pytest

from odradek.model.errors import ErrorCode
from odradek.store.topics import read_topics, write_assignment
from odradek.store.znodes import ReplicaAssignment, TopicAssignment
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
def test_without_time_to_wait_a_topic_is_made_and_the_answer_says_that_it_is_not_ready(play, timeout_ms):
    async def scenario(town):
        request = CreateTopicsRequest([CreatableTopic("orders", 1, 1)], timeout_ms)
        response = await town.ask(CREATE, 7, request)
        assert response.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        await asyncio.sleep(1)
        assert town.broker.image.topic("orders") is not None

    play(scenario)


def test_a_topic_nobody_can_lead_is_refused_at_once_and_its_name_stays_free(play):
    async def scenario(town):
        began_ms = town.cluster.clock.monotonic_ms()
        assert await town.create("orders", assignments={0: [77]}) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await town.create("orders") == ErrorCode.NONE
        assert town.cluster.clock.monotonic_ms() - began_ms < 1000

    play(scenario)


def test_many_topics_in_one_request_fare_each_on_its_own(play):
    async def scenario(town):
        await town.create("there")
        wishes = [
            CreatableTopic("good", 2, 1),
            CreatableTopic("there", 1, 1),
            CreatableTopic("a/b", 1, 1),
            CreatableTopic("many", 1, 5),
            CreatableTopic("none", 0, 1),
            CreatableTopic("odd", 1, 1, [], [CreatableTopicConfig("retention.ms", "soon")]),
            CreatableTopic("strange", 1, 1, [], [CreatableTopicConfig("no.such", "1")]),
            CreatableTopic("null", 1, 1, [], [CreatableTopicConfig("retention.ms", None)]),
        ]
        response = await town.ask(CREATE, 7, CreateTopicsRequest(wishes, 5000))
        codes = {one.name: one.error_code for one in response.topics}
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
        assert set(town.broker.image.topics) == {"there", "good"}
        assert all(one.error_message for one in response.topics if one.error_code)

    play(scenario)


def test_each_entry_of_a_topic_named_twice_is_refused_in_its_place(play):
    async def scenario(town):
        names = ("twin", "single", "twin")
        request = CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], 5000)
        response = await town.ask(CREATE, 7, request)
        refused = ErrorCode.INVALID_REQUEST
        found = [(one.name, one.error_code) for one in response.topics]
        assert found == [("twin", refused), ("single", 0), ("twin", refused)]
        assert set(town.broker.image.topics) == {"single"}

    play(scenario)


def test_of_names_that_collide_in_one_request_the_first_is_created(play):
    async def scenario(town):
        names = ("a.b_c", "a_b.c", "a-b_c")
        request = CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], 5000)
        response = await town.ask(CREATE, 7, request)
        codes = [one.error_code for one in response.topics]
        assert codes == [0, ErrorCode.INVALID_TOPIC_EXCEPTION, 0]
        assert "a.b_c" in response.topics[1].error_message
        assert set(town.broker.image.topics) == {"a.b_c", "a-b_c"}

    play(scenario)


def test_of_names_that_collide_and_are_validated_only_the_first_is_accepted(play):
    async def scenario(town):
        names = ("a.b", "a_b")
        request = CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], 5000, True)
        response = await town.ask(CREATE, 7, request)
        assert [one.error_code for one in response.topics] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert not town.broker.image.topics

    play(scenario)


def test_of_clients_that_create_colliding_names_at_once_one_does(play):
    async def scenario(town):
        clients = [await town.memory.connect() for _ in range(4)]
        names = ("a.b.c", "a_b_c", "a.b_c", "a_b.c")
        requests = [CreateTopicsRequest([CreatableTopic(name, 1, 1)], 5000) for name in names]
        begun = [client.begin(CREATE, 7, one) for client, one in zip(clients, requests, strict=True)]
        codes = sorted(one.topics[0].error_code for one in await asyncio.gather(*begun))
        assert codes == [0, *[ErrorCode.INVALID_TOPIC_EXCEPTION] * 3]
        assert len(town.broker.image.topics) == 1

    play(scenario, delay_max_ms=5)


def test_of_clients_that_make_the_same_topic_at_once_one_does(play):
    async def scenario(town):
        clients = [await town.memory.connect() for _ in range(4)]
        request = CreateTopicsRequest([CreatableTopic("orders", 3, 1)], 5000)
        responses = await asyncio.gather(*(client.begin(CREATE, 7, request) for client in clients))
        codes = sorted(one.topics[0].error_code for one in responses)
        assert codes == [0, *[ErrorCode.TOPIC_ALREADY_EXISTS] * 3]

    play(scenario, delay_max_ms=5)


def test_of_clients_that_delete_the_same_topic_at_once_all_see_it_gone(play):
    async def scenario(town):
        await town.create("orders")
        clients = [await town.memory.connect() for _ in range(3)]
        responses = await asyncio.gather(*(one.begin(DELETE, 6, deleting("orders")) for one in clients))
        for response in responses:
            assert response.responses[0].error_code in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert town.broker.image.topic("orders") is None

    play(scenario)


def test_deletion_can_be_forbidden(play):
    async def scenario(town):
        await town.create("orders")
        response = await town.ask(DELETE, 6, deleting("orders", "nowhere"))
        codes = {one.name: one.error_code for one in response.responses}
        assert codes["orders"] == ErrorCode.TOPIC_DELETION_DISABLED
        assert town.broker.image.topic("orders") is not None

    play(scenario, {"delete.topic.enable": "false"})


def test_a_topic_named_twice_is_deleted_once(play):
    async def scenario(town):
        await town.create("orders")
        response = await town.ask(DELETE, 6, deleting("orders", "orders"))
        assert [one.error_code for one in response.responses] == [0]

    play(scenario)


def test_the_files_of_a_deleted_topic_go_after_their_delay(play):
    async def scenario(town):
        await town.create("orders", 2, {"file.delete.delay.ms": "5000"})
        await town.produce("orders", b"x")
        await town.ask(DELETE, 6, deleting("orders"))
        names = town.cluster.files.list_names
        assert len([name for name in names("/data") if name.endswith("-delete")]) == 2
        await asyncio.sleep(10)
        assert not [name for name in names("/data") if name.startswith("orders")]

    play(scenario)


def test_made_and_deleted_over_and_over_a_topic_is_always_new(play):
    async def scenario(town):
        seen = set()
        for _ in range(10):
            assert await town.create("orders") == 0
            seen.add(town.topic_id("orders"))
            assert (await town.produce("orders", b"x")).base_offset == 0
            response = await town.ask(DELETE, 6, deleting("orders"))
            assert response.responses[0].error_code == 0
        assert len(seen) == 10

    play(scenario)


def test_partitions_may_be_given_their_replicas(play):
    async def scenario(town):
        await town.create("orders")

        async def grow(*replicas):
            assignments = [CreatePartitionsAssignment(list(one)) for one in replicas]
            wish = CreatePartitionsTopic("orders", 1 + len(replicas), assignments)
            response = await town.ask(GROW, 3, CreatePartitionsRequest([wish], 5000))
            return response.results[0].error_code

        own = town.broker.broker_id
        assert await grow((own + 1,)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await grow((own, own)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await grow((own,), (own,)) == 0
        assert len(town.broker.image.topic("orders").partitions) == 3

    play(scenario)


def test_nobody_waits_for_partitions_of_a_topic_that_is_deleted_meanwhile(play):
    async def scenario(town):
        other = await town.memory.connect()
        for _ in range(20):
            await town.create("orders")
            began_ms = town.cluster.clock.monotonic_ms()
            wish = CreatePartitionsTopic("orders", 3, None)
            deleting_it = other.begin(DELETE, 6, deleting("orders"))
            growing = town.client.begin(GROW, 3, CreatePartitionsRequest([wish], 600_000))
            grown, deleted = await growing, await deleting_it
            assert deleted.responses[0].error_code == 0
            assert grown.results[0].error_code in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            assert town.cluster.clock.monotonic_ms() - began_ms < 5_000

    play(scenario)


def test_a_topic_under_reassignment_does_not_grow(play):
    async def scenario(town):
        await town.create("orders")
        store = town.memory._session.store
        own = town.broker.broker_id
        moving = {0: ReplicaAssignment((own,), adding=(own + 1,))}
        await write_assignment(store, "orders", TopicAssignment(town.topic_id("orders"), moving))
        wish = CreatePartitionsTopic("orders", 2, None)
        response = await town.ask(GROW, 3, CreatePartitionsRequest([wish], 5000))
        assert response.results[0].error_code == ErrorCode.REASSIGNMENT_IN_PROGRESS

    play(scenario)


INTERNAL = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
}


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
@pytest.mark.parametrize("validate_only", [False, True])
def test_topics_of_the_brokers_do_not_grow(play, topic, validate_only):
    async def scenario(town):
        await town.ask(3, 12, MetadataRequest([MetadataRequestTopic(name=topic)]))
        wish = CreatePartitionsTopic(topic, 7, None)
        response = await town.ask(GROW, 3, CreatePartitionsRequest([wish], 5000, validate_only))
        assert response.results[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert "cannot be changed" in response.results[0].error_message
        assert len(town.broker.image.topic(topic).partitions) == 3

    play(scenario, INTERNAL)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_growth_behind_the_back_of_a_coordinator_moves_nothing(play, topic):
    async def scenario(town):
        await town.ask(3, 12, MetadataRequest([MetadataRequestTopic(name=topic)]))
        offsets, transactions = town.broker._groups._topic, town.broker._transactions._topic
        coordinator = offsets if topic == "__consumer_offsets" else transactions
        identifiers = [f"name {number}" for number in range(30)]
        before = [coordinator.partition_of(each) for each in identifiers]
        own = ReplicaAssignment((town.broker.broker_id,))
        grown = TopicAssignment(town.topic_id(topic), dict.fromkeys(range(7), own))
        await write_assignment(town.memory._session.store, topic, grown)
        await asyncio.sleep(1)
        assert len(town.broker.image.topic(topic).partitions) == 7
        assert [coordinator.partition_of(each) for each in identifiers] == before
        await town.ask(DELETE, 6, deleting(topic))
        await town.create(topic, 5)
        assert {coordinator.partition_of(each) for each in identifiers} == set(range(5))

    play(scenario, INTERNAL)


@pytest.mark.parametrize(
    ("topic", "partitions", "policy"),
    [("__consumer_offsets", 7, "compact"), ("__transaction_state", 5, "compact")],
)
def test_topics_of_the_brokers_have_settings_of_their_own(play, topic, partitions, policy):
    async def scenario(town):
        asked = MetadataRequest([MetadataRequestTopic(name=topic)])
        [found] = (await town.ask(3, 12, asked)).topics
        assert found.error_code == 0
        assert found.is_internal
        assert len(found.partitions) == partitions
        assert town.broker._topics.overrides_of(topic)["cleanup.policy"] == policy

    play(
        scenario,
        {
            "offsets.topic.num.partitions": "7",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "5",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        },
    )


def test_what_is_made_is_in_the_store(play):
    async def scenario(town):
        await town.create("orders", 2)
        found = await read_topics(town.memory._session.store)
        assert set(found) == {"orders"}
        assert found["orders"].assignment.topic_id == town.topic_id("orders")

    play(scenario)
