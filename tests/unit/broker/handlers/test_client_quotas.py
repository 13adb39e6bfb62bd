"""Client quotas of a broker: set and described by requests, and enforced on connections."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from odradek.model.errors import ErrorCode
from odradek.store.configs import change_config, read_config, watch_config_changes
from odradek.testing.broker import MemoryCluster
from odradek.testing.clock import run_virtually
from odradek.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

DESCRIBE, ALTER = 48, 49
EXACT, DEFAULT, ANY = 0, 1, 2
THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED

KEPT = {"retention.ms": "-1"}
"""Records of tests are old."""

Entity = dict[str, str | None]


def entry_of(entity: Entity, quotas: dict[str, float | None]) -> AlterClientQuotasRequestEntryData:
    parts = [AlterClientQuotasRequestEntityData(kind, name) for kind, name in entity.items()]
    ops = [OpData(key, 0.0 if value is None else value, value is None) for key, value in quotas.items()]
    return AlterClientQuotasRequestEntryData(parts, ops)


async def alter_all(
    harness: Any, *entries: AlterClientQuotasRequestEntryData, validate_only: bool = False
) -> list[int]:
    request = AlterClientQuotasRequest([*entries], validate_only)
    response = await harness.request(ALTER, 1, request)
    for requested, entry in zip(entries, response.entries, strict=True):
        kinds = [(part.entity_type, part.entity_name) for part in requested.entity]
        assert [(part.entity_type, part.entity_name) for part in entry.entity] == kinds
        assert (entry.error_message is None) is (entry.error_code == 0)
    await asyncio.sleep(0.02)  # until the broker is notified
    return [entry.error_code for entry in response.entries]


async def alter(harness: Any, entity: Entity, **quotas: float | None) -> None:
    assert await alter_all(harness, entry_of(entity, quotas)) == [0]


async def describe(harness: Any, *components: ComponentData, strict: bool = False, version: int = 1) -> Any:
    request = DescribeClientQuotasRequest([*components], strict)
    response = await harness.request(DESCRIBE, version, request)
    assert response.error_code == 0, response.error_message
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            quota.key: quota.value for quota in entry.values
        }
        for entry in response.entries
    }


def test_quotas_are_described_as_set(run_scenario):
    async def scenario(harness):
        await alter(harness, {"user": "a b"}, producer_byte_rate=1000.0, request_percentage=12.5)
        await alter(harness, {"user": None}, consumer_byte_rate=2000.0)
        await alter(harness, {"client-id": "x/y"}, controller_mutation_rate=3.0)
        await alter(harness, {"client-id": "app", "user": "a b"}, producer_byte_rate=4000.0)
        await alter(harness, {"ip": "10.0.0.1"}, connection_creation_rate=5.0)
        user, default = (("user", "a b"),), (("user", None),)
        client_id, pair = (("client-id", "x/y"),), (("user", "a b"), ("client-id", "app"))
        everything = {
            user: {"producer_byte_rate": 1000, "request_percentage": 12.5},
            default: {"consumer_byte_rate": 2000},
            client_id: {"controller_mutation_rate": 3},
            pair: {"producer_byte_rate": 4000},
            (("ip", "10.0.0.1"),): {"connection_creation_rate": 5},
        }
        for version in range(2):
            assert await describe(harness, version=version) == everything
        assert await describe(harness, strict=True) == {}
        cases: list[tuple[list[ComponentData], bool, set[Any]]] = [
            ([ComponentData("user", ANY, None)], False, {user, default, pair}),
            ([ComponentData("user", ANY, None)], True, {user, default}),
            ([ComponentData("user", EXACT, "a b")], False, {user, pair}),
            ([ComponentData("user", EXACT, "a b")], True, {user}),
            ([ComponentData("user", DEFAULT, None)], True, {default}),
            ([ComponentData("user", EXACT, "nobody")], False, set()),
            ([ComponentData("client-id", EXACT, "app")], False, {pair}),
            ([ComponentData("client-id", ANY, None)], True, {client_id}),
            (
                [ComponentData("user", EXACT, "a b"), ComponentData("client-id", EXACT, "app")],
                True,
                {pair},
            ),
            ([ComponentData("user", EXACT, "a b"), ComponentData("client-id", ANY, None)], True, {pair}),
            ([ComponentData("ip", ANY, None)], True, {(("ip", "10.0.0.1"),)}),
            ([ComponentData("ip", DEFAULT, None)], True, set()),
        ]
        for components, strict, entities in cases:
            quotas = await describe(harness, *components, strict=strict)
            assert quotas == {entity: everything[entity] for entity in entities}

    run_scenario(scenario)


def test_entries_fail_independently_and_as_a_whole(run_scenario):
    async def scenario(harness):
        invalid = ErrorCode.INVALID_REQUEST
        codes = await alter_all(
            harness,
            entry_of({"user": "a"}, {"producer_byte_rate": 1.0}),
            entry_of({"user": "b"}, {"producer_byte_rate": 1.0, "unknown": 1.0}),
            entry_of({"user": "c"}, {"producer_byte_rate": 1.5}),
            entry_of({"user": "c"}, {"request_percentage": math.nan}),
            entry_of({"user": ""}, {"producer_byte_rate": 1.0}),
            entry_of({}, {"producer_byte_rate": 1.0}),
            entry_of({"ip": "nowhere"}, {"connection_creation_rate": 1.0}),
            entry_of({"ip": "10.0.0.1"}, {"connection_creation_rate": -1.0}),
            entry_of({"ip": "10.0.0.1"}, {"producer_byte_rate": 1.0}),
            entry_of({"ip": "10.0.0.1", "user": "a"}, {"producer_byte_rate": 1.0}),
            entry_of({"planet": "mars"}, {"producer_byte_rate": 1.0}),
            entry_of({"client-id": "z"}, {"consumer_byte_rate": 2.0}),
        )
        assert codes == [0, *[invalid] * 10, 0]
        assert set(await describe(harness)) == {(("user", "a"),), (("client-id", "z"),)}

    run_scenario(scenario)


def test_validation_changes_nothing(run_scenario):
    async def scenario(harness):
        entries = [entry_of({"user": "a"}, {"producer_byte_rate": value}) for value in (1.0, 1.5)]
        codes = await alter_all(harness, *entries, validate_only=True)
        assert codes == [0, ErrorCode.INVALID_REQUEST]
        assert await describe(harness) == {}
        store = harness.broker._membership.store
        assert await watch_config_changes(store) == []

    run_scenario(scenario)


def test_nodes_without_quotas_are_removed_and_credentials_stay(run_scenario):
    async def scenario(harness):
        store = harness.broker._membership.store
        await change_config(store, "users", "kept", {"SCRAM-SHA-256": "secret"})
        entities: list[Entity] = [{"user": "kept"}, {"user": "u", "client-id": "c"}, {"user": "u"}]
        for entity in entities:
            await alter(harness, entity, producer_byte_rate=1.0)
        for entity in (entities[0], entities[2]):
            await alter(harness, entity, producer_byte_rate=None, unknown=None)
        assert await describe(harness) == {(("user", "u"), ("client-id", "c")): {"producer_byte_rate": 1}}
        await alter(harness, {"user": "u", "client-id": "c"}, producer_byte_rate=None)
        await alter(harness, {"user": "never"}, producer_byte_rate=None)
        await alter(harness, {"user": "kept"}, **{"SCRAM-SHA-256": None})
        assert await store.children("/config/users") == ["kept"]
        assert await read_config(store, "users", "kept") == {"SCRAM-SHA-256": "secret"}
        assert not harness.broker._client_configs.quotas.is_enabled

    run_scenario(scenario)


def test_change_of_another_broker_meanwhile_is_not_lost(run_scenario):
    async def scenario(harness):
        await asyncio.gather(
            *(
                harness.request(
                    ALTER, 1, AlterClientQuotasRequest([entry_of({"user": "a"}, {key: 1.0})], False)
                )
                for key in ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
            ),
            change_config(harness.broker._membership.store, "users", "b", {"producer_byte_rate": "1"}),
        )
        quotas = await describe(harness)
        assert len(quotas[("user", "a"),]) == 3
        assert quotas[("user", "b"),] == {"producer_byte_rate": 1}

    run_scenario(scenario)


async def produce(harness: Any, client: Any, size: int, acks: int = 1, version: int = 9) -> Any:
    from tests.unit.broker.conftest import batch

    data = [TopicProduceData("orders", [PartitionProduceData(0, batch(bytes(size)))])]
    request = ProduceRequest(None, acks, 30_000, data)
    if acks == 0:
        client.send_oneway(0, version, request)
        return None
    return await client.request(0, version, request)


async def round_trip(client: Any) -> float:
    """Return the seconds until a request on this connection is answered."""
    started = asyncio.get_running_loop().time()
    await client.request(18, 0, ApiVersionsRequest("", ""))
    return asyncio.get_running_loop().time() - started


def test_producer_over_its_rate_is_throttled_and_others_are_not(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings=KEPT)
        await alter(harness, {"client-id": "greedy"}, producer_byte_rate=1000.0)
        greedy = await harness.memory_broker.connect("greedy")
        other = await harness.memory_broker.connect("other")
        response = await produce(harness, greedy, 20_000)
        assert response.responses[0].partition_responses[0].error_code == 0
        assert response.throttle_time_ms == pytest.approx(10_000, rel=0.1)
        assert (await produce(harness, other, 20_000)).throttle_time_ms == 0
        assert await round_trip(other) < 0.1
        assert await round_trip(greedy) == pytest.approx(response.throttle_time_ms / 1000, rel=0.1)
        assert await round_trip(greedy) < 0.1

    run_scenario(scenario)


@pytest.mark.parametrize(("acks", "version"), [(1, 2), (1, 11), (0, 9), (-1, 9)])
def test_every_version_of_produce_is_muted(run_scenario, acks, version):
    async def scenario(harness):
        await harness.create("orders", settings=KEPT)
        await alter(harness, {"user": "ANONYMOUS"}, producer_byte_rate=1000.0)
        client = await harness.memory_broker.connect()
        await produce(harness, client, 20_000, acks, version)
        assert await round_trip(client) == pytest.approx(10, rel=0.1)

    # Message sets of old versions are not made here: any bytes count.
    run_scenario(scenario)


def test_quota_is_changed_and_removed_live(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings=KEPT)
        entity = {"user": None, "client-id": "app"}
        client = await harness.memory_broker.connect("app")
        assert (await produce(harness, client, 20_000)).throttle_time_ms == 0
        await alter(harness, entity, producer_byte_rate=1_000_000.0)
        assert (await produce(harness, client, 20_000)).throttle_time_ms == 0
        await alter(harness, entity, producer_byte_rate=1000.0)
        assert (await produce(harness, client, 20_000)).throttle_time_ms > 10_000
        await alter(harness, entity, producer_byte_rate=None)
        assert (await produce(harness, client, 20_000)).throttle_time_ms == 0
        assert harness.broker._dispatcher.dispatch_metered is None

    run_scenario(scenario)


@pytest.mark.parametrize("version", [4, 11, 17])
def test_throttled_fetch_returns_no_records_and_the_next_one_does(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders", settings=KEPT)
        for _ in range(3):
            await harness.produce("orders", bytes(9_000))
        await alter(harness, {"client-id": "client"}, consumer_byte_rate=1000.0)

        async def fetch(offset: int) -> Any:
            request = harness.fetch_request("orders", offset, version=version, partition_max_bytes=5_000)
            return await harness.request(1, version, request)

        first = await fetch(0)
        assert first.throttle_time_ms == 0
        assert first.responses[0].partitions[0].records
        second = await fetch(1)
        assert (second.error_code, second.responses) == (0, [])
        assert second.throttle_time_ms == pytest.approx(8_100, rel=0.1)
        started = asyncio.get_running_loop().time()
        assert len((await fetch(1)).responses) <= 1  # may have to wait once more
        assert asyncio.get_running_loop().time() - started == pytest.approx(8.1, rel=0.1)
        await asyncio.sleep(20)
        assert (await fetch(1)).responses[0].partitions[0].records

    run_scenario(scenario)


def test_response_is_not_larger_than_the_window_allows(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings=KEPT)
        for _ in range(20):
            await harness.produce("orders", bytes(1_000))
        await alter(harness, {"user": "ANONYMOUS"}, consumer_byte_rate=500.0)
        entry = await harness.fetch("orders", 0)
        assert 3_000 < len(entry.records) <= 5_000

    run_scenario(scenario)


def test_throttled_session_keeps_its_epoch_and_its_partitions(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings=KEPT)
        await harness.produce("orders", bytes(9_000))
        opened = await harness.request(1, 17, harness.fetch_request("orders", 1, session_epoch=0))
        assert opened.session_id
        await alter(harness, {"client-id": "client"}, consumer_byte_rate=1000.0)

        async def fetch(epoch: int) -> Any:
            request = harness.fetch_request("orders", 0, session_epoch=epoch, session_id=opened.session_id)
            return await harness.request(1, 17, request)

        assert (await fetch(1)).responses[0].partitions[0].records
        throttled = await fetch(2)
        assert throttled.throttle_time_ms > 0
        assert (throttled.error_code, throttled.session_id, throttled.responses) == (
            0,
            opened.session_id,
            [],
        )
        await asyncio.sleep(30)
        assert (await fetch(3)).responses[0].partitions[0].records

    run_scenario(scenario)


def test_follower_fetches_are_exempt(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings=KEPT)
        await harness.produce("orders", bytes(50_000))
        await alter(harness, {"user": None}, consumer_byte_rate=1.0, request_percentage=-1.0)
        follower = await harness.memory_broker.connect("broker-7")
        for _ in range(3):
            request = harness.fetch_request("orders", version=12, replica_id=7)
            response = await follower.request(1, 12, request)
            assert response.throttle_time_ms == 0
        consumer = await harness.memory_broker.connect("consumer")
        response = await consumer.request(1, 12, harness.fetch_request("orders", version=12))
        assert response.throttle_time_ms > 0

    run_scenario(scenario)


def new_topics(*partitions: int) -> CreateTopicsRequest:
    topics = [CreatableTopic(f"topic-{count}", count, 1) for count in partitions]
    return CreateTopicsRequest(topics, timeout_ms=10_000)


def test_strict_quota_rejects_the_topics_beyond_it(run_scenario):
    async def scenario(harness):
        await alter(harness, {"user": "ANONYMOUS"}, controller_mutation_rate=1.0)
        response = await harness.request(19, 7, new_topics(20, 1, 2))
        assert [topic.error_code for topic in response.topics] == [0, THROTTLED, THROTTLED]
        assert response.throttle_time_ms == pytest.approx(9_000, rel=0.1)
        assert await round_trip(harness.client) == pytest.approx(9, rel=0.1)
        assert (await harness.request(19, 7, new_topics(1))).topics[0].error_code == 0

    run_scenario(scenario)


def test_permissive_quota_makes_the_changes_and_throttles(run_scenario):
    async def scenario(harness):
        await alter(harness, {"user": "ANONYMOUS"}, controller_mutation_rate=1.0)
        response = await harness.request(19, 5, new_topics(20, 1, 2))
        assert [topic.error_code for topic in response.topics] == [0, 0, 0]
        assert response.throttle_time_ms == pytest.approx(12_000, rel=0.1)

    run_scenario(scenario)


def test_validated_topics_do_not_count(run_scenario):
    async def scenario(harness):
        await alter(harness, {"user": "ANONYMOUS"}, controller_mutation_rate=1.0)
        for _ in range(3):
            request = new_topics(100)
            request.validate_only = True
            assert (await harness.request(19, 7, request)).topics[0].error_code == 0

    run_scenario(scenario)


def test_added_partitions_and_deleted_topics_count(run_scenario):
    async def scenario(harness):
        await harness.create("small", 1)
        await harness.create("large", 30)
        await alter(harness, {"user": "ANONYMOUS"}, controller_mutation_rate=1.0)
        grow = CreatePartitionsRequest([CreatePartitionsTopic("small", 13, None)], 10_000, False)
        assert (await harness.request(37, 3, grow)).results[0].error_code == 0
        more = CreatePartitionsRequest([CreatePartitionsTopic("small", 14, None)], 10_000, False)
        response = await harness.request(37, 3, more)
        assert response.results[0].error_code == THROTTLED
        assert 0 < response.throttle_time_ms <= 1000

        async def delete(topic: str, version: int) -> int:
            names = {"topic_names": [topic]} if version < 6 else {"topics": [DeleteTopicState(topic)]}
            request = DeleteTopicsRequest(**names, timeout_ms=10_000)
            return (await harness.request(20, version, request)).responses[0].error_code

        assert await delete("large", 6) == 0
        assert await delete("small", 6) == THROTTLED
        assert await delete("small", 4) == 0

    run_scenario(scenario)


def test_topics_created_on_first_use_count_without_being_rejected(run_scenario):
    async def scenario(harness):
        await alter(harness, {"user": "ANONYMOUS"}, controller_mutation_rate=1.0)
        request = MetadataRequest([MetadataRequestTopic(name="first-use")], True)
        response = await harness.request(3, 8, request)
        assert (response.topics[0].error_code, response.throttle_time_ms) == (0, 0)
        response = await harness.request(19, 7, new_topics(1))
        assert response.topics[0].error_code == THROTTLED

    run_scenario(scenario, {"num.partitions": "15"})


def test_quotas_survive_a_restart_and_a_new_session(run_with_restarts):
    async def scenario(cluster, start_broker):
        harness = await start_broker()
        await harness.create("orders", settings=KEPT)
        await alter(harness, {"client-id": "greedy"}, producer_byte_rate=1000.0)
        await harness.memory_broker.stop()
        harness = await start_broker()
        client = await harness.memory_broker.connect("greedy")
        assert (await produce(harness, client, 20_000)).throttle_time_ms > 0
        await harness.memory_broker.stop()

    run_with_restarts(scenario)


def test_all_brokers_enforce_a_quota_and_learn_missed_changes_with_a_new_session():
    async def main():
        cluster = MemoryCluster()
        brokers = [await cluster.start(broker_id=number) for number in (1, 2)]
        quotas = [broker.broker._client_configs.quotas for broker in brokers]
        client = await brokers[0].connect()
        for name in ("kept", "removed"):
            request = AlterClientQuotasRequest([entry_of({"user": name}, {"producer_byte_rate": 5.0})], False)
            assert (await client.request(ALTER, 1, request)).entries[0].error_code == 0
        await asyncio.sleep(0.1)
        assert [quota.produce.quota("removed", "") for quota in quotas] == [5, 5]
        brokers[1].pause()
        await brokers[1].expire_session()
        request = AlterClientQuotasRequest(
            [entry_of({"user": "removed"}, {"producer_byte_rate": None})], False
        )
        assert (await client.request(ALTER, 1, request)).entries[0].error_code == 0
        brokers[1].resume()
        await asyncio.sleep(10)
        for quota in quotas:
            assert (quota.produce.quota("removed", ""), quota.produce.quota("kept", "")) == (None, 5)
        for broker in brokers:
            await broker.stop()
        await cluster.close()

    run_virtually(main)


def test_connections_of_an_address_are_limited(run_scenario):
    async def scenario(harness):
        await alter(harness, {"ip": None}, connection_creation_rate=1.0)
        rates = harness.broker._client_configs.connection_rates
        assert rates.ip_rate("10.9.9.9") == 1
        await alter(harness, {"ip": "10.9.9.9"}, connection_creation_rate=7.0)
        assert (rates.ip_rate("10.9.9.9"), rates.ip_rate("10.9.9.8")) == (7, 1)
        connections = [await harness.memory_broker.connect() for _ in range(13)]
        await asyncio.sleep(1.1)
        assert [connection.is_open for connection in connections].count(False) >= 2
        await alter(harness, {"ip": None}, connection_creation_rate=None)
        connections = [await harness.memory_broker.connect() for _ in range(13)]
        await asyncio.sleep(1.1)
        assert all(connection.is_open for connection in connections)

    run_scenario(scenario)


def test_listener_accepts_at_the_configured_rate(run_scenario):
    async def scenario(harness):
        started = asyncio.get_running_loop().time()
        clients = [await harness.memory_broker.connect() for _ in range(60)]
        await asyncio.gather(*(round_trip(client) for client in clients))
        elapsed = asyncio.get_running_loop().time() - started
        assert 2 < elapsed < 12  # 60 connections, at 5 per second after a burst of 50

    run_scenario(scenario, {"max.connection.creation.rate": "5"})
