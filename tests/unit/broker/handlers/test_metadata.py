"""Metadata: names, ids, authorized operations, auto-creation, cached responses."""

import asyncio
import gc

import pytest

from odradek.broker.topics import metadata_responses
from odradek.cluster.metadata_cache import MetadataCache
from odradek.model.errors import ErrorCode
from odradek.testing.workers import InlineWorkers
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

METADATA = 3


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("known", [True, False])
def test_null_topic_name_is_rejected_before_version_12(run_scenario, version, known):
    async def scenario(harness):
        await harness.create("orders")
        topic_id = harness.topic_id("orders") if known else b"x" * 16
        request = MetadataRequest([MetadataRequestTopic(topic_id, None)])
        [topic] = (await harness.request(METADATA, version, request)).topics
        assert (topic.error_code, topic.name) == (ErrorCode.INVALID_REQUEST, "")

    run_scenario(scenario)


@pytest.mark.parametrize("version", [10, 11])
def test_topic_id_is_rejected_before_version_12(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders")
        request = MetadataRequest([MetadataRequestTopic(harness.topic_id("orders"), "orders")])
        [topic] = (await harness.request(METADATA, version, request)).topics
        assert (topic.error_code, topic.name) == (ErrorCode.INVALID_REQUEST, "orders")

    run_scenario(scenario)


def test_topic_is_described_by_id(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        requested = [
            MetadataRequestTopic(harness.topic_id("orders"), None),
            MetadataRequestTopic(b"x" * 16, None),
        ]
        result, unknown = (await harness.request(METADATA, 12, MetadataRequest(requested))).topics
        assert (result.error_code, result.name) == (0, "orders")
        assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)

    run_scenario(scenario)


def test_authorized_operations_are_returned_only_on_request(run_scenario):
    async def scenario(harness):
        await harness.create("orders")
        quiet = await harness.request(METADATA, 8, MetadataRequest(None))
        assert quiet.topics[0].topic_authorized_operations == -(2**31)
        assert quiet.cluster_authorized_operations == -(2**31)
        requested = MetadataRequest(
            None, include_cluster_authorized_operations=True, include_topic_authorized_operations=True
        )
        reported = await harness.request(METADATA, 8, requested)
        assert reported.topics[0].topic_authorized_operations > 0
        assert reported.cluster_authorized_operations > 0

    run_scenario(scenario)


def test_topics_are_not_created_with_auto_creation_disabled(run_scenario):
    async def scenario(harness):
        requested = MetadataRequest([MetadataRequestTopic(name="fresh")])
        response = await harness.request(METADATA, 12, requested)
        assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert harness.broker.metadata_cache.topic("fresh") is None

    run_scenario(scenario, {"auto.create.topics.enable": "false"})


def test_duplicate_name_creates_one_topic_and_returns_one_entry(run_scenario):
    async def scenario(harness):
        requested = MetadataRequest([MetadataRequestTopic(name="fresh"), MetadataRequestTopic(name="fresh")])
        response = await harness.request(METADATA, 12, requested)
        assert [topic.name for topic in response.topics] == ["fresh"]
        assert harness.broker.metadata_cache.topic("fresh") is not None

    run_scenario(scenario)


def test_failed_auto_creation_returns_its_error(run_scenario):
    async def scenario(harness):
        requested = MetadataRequest([MetadataRequestTopic(name="fresh")])
        response = await harness.request(METADATA, 12, requested)
        assert response.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR

    run_scenario(scenario, {"default.replication.factor": "3"})


def test_concurrent_auto_creation_of_one_topic(run_scenario):
    async def scenario(harness):
        other = await harness.memory_broker.connect()
        requested = MetadataRequest([MetadataRequestTopic(name="fresh")])
        tasks = [client.send(METADATA, 12, requested) for client in (harness.client, other, harness.client)]
        for task in tasks:
            assert (await task).topics[0].error_code == 0

    run_scenario(scenario)


@pytest.mark.sources
def test_all_topics_response_is_encoded_once_per_metadata_change(run_scenario, monkeypatch):
    encoded = []
    original = metadata_responses.all_topics

    def all_topics(*specified):
        encoded.append(specified)
        return original(*specified)

    monkeypatch.setattr(metadata_responses, "all_topics", all_topics)

    async def scenario(harness):
        async def names(version, **options):
            response = await harness.request(METADATA, version, MetadataRequest(None, **options))
            return {topic.name for topic in response.topics}

        await harness.create("one")
        assert [await names(12) for _ in range(3)] == [{"one"}] * 3
        assert len(encoded) == 1
        await harness.create("two")
        assert await names(12) == {"one", "two"}
        assert len(encoded) == 2
        assert await names(7) == {"one", "two"}, "another variant of the response"
        assert len(encoded) == 3
        with_operations = await harness.request(
            METADATA, 8, MetadataRequest(None, include_topic_authorized_operations=True)
        )
        assert all(topic.topic_authorized_operations > 0 for topic in with_operations.topics)
        without = await harness.request(METADATA, 8, MetadataRequest(None))
        assert all(topic.topic_authorized_operations < 0 for topic in without.topics)

    run_scenario(scenario)


def test_large_all_topics_response_is_encoded_once_on_a_thread(run_scenario):
    async def scenario(harness):
        await harness.create("wide", metadata_responses.EVENT_LOOP_PARTITIONS_MAX + 1)
        encoded, release = [], asyncio.Event()

        async def run(work):
            encoded.append(work)
            await release.wait()
            return work()

        harness.cluster.workers.run = run
        clients = [await harness.memory_broker.connect() for _ in range(3)]
        waiting = [
            asyncio.ensure_future(client.request(METADATA, 12, MetadataRequest(None))) for client in clients
        ]
        await asyncio.sleep(0.01)
        assert len(encoded) == 1
        await harness.create("late")
        late = asyncio.ensure_future(harness.request(METADATA, 12, MetadataRequest(None)))
        await asyncio.sleep(0.01)
        assert len(encoded) == 2, "the metadata changed: the first response is stale"
        release.set()
        assert gc.isenabled()
        for response in await asyncio.gather(*waiting):
            assert {topic.name for topic in response.topics} == {"wide"}
        assert {topic.name for topic in (await late).topics} == {"wide", "late"}
        again = await harness.request(METADATA, 12, MetadataRequest(None))
        assert {topic.name for topic in again.topics} == {"wide", "late"}
        assert len(encoded) == 2
        assert gc.isenabled(), "it is disabled only while a response is encoded"

    run_scenario(scenario)


def test_cached_response_variants_are_limited():
    cache = metadata_responses.AllTopicsResponseCache(MetadataCache(), InlineWorkers())
    for number in range(10 * metadata_responses.CACHED_VARIANTS_MAX):
        cache.get(
            metadata_responses.ResponseVariant(number, "PLAINTEXT", False, False),
            lambda metadata_cache: [b"answer"],
        )
        assert len(cache._cached) <= metadata_responses.CACHED_VARIANTS_MAX + 1
