"""Metadata: what names and ids may be asked for, and what is told of operations."""

import asyncio
import gc

import pytest

from odradek.broker.topics import metadata_responses as answers
from odradek.cluster.metadata_cache import MetadataCache
from odradek.model.errors import ErrorCode
from odradek.testing.workers import InlineWorkers
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

METADATA = 3


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("known", [True, False])
def test_a_topic_without_a_name_is_refused_before_ids_can_be_asked_for(play, version, known):
    async def scenario(town):
        await town.create("orders")
        topic_id = town.topic_id("orders") if known else b"x" * 16
        request = MetadataRequest([MetadataRequestTopic(topic_id, None)])
        [topic] = (await town.ask(METADATA, version, request)).topics
        assert (topic.error_code, topic.name) == (ErrorCode.INVALID_REQUEST, "")

    play(scenario)


@pytest.mark.parametrize("version", [10, 11])
def test_an_id_beside_a_name_is_refused_before_ids_can_be_asked_for(play, version):
    async def scenario(town):
        await town.create("orders")
        request = MetadataRequest([MetadataRequestTopic(town.topic_id("orders"), "orders")])
        [topic] = (await town.ask(METADATA, version, request)).topics
        assert (topic.error_code, topic.name) == (ErrorCode.INVALID_REQUEST, "orders")

    play(scenario)


def test_a_topic_is_found_by_id(play):
    async def scenario(town):
        await town.create("orders")
        asked = [MetadataRequestTopic(town.topic_id("orders"), None), MetadataRequestTopic(b"x" * 16, None)]
        found, unknown = (await town.ask(METADATA, 12, MetadataRequest(asked))).topics
        assert (found.error_code, found.name) == (0, "orders")
        assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)

    play(scenario)


def test_operations_are_told_only_when_asked_for(play):
    async def scenario(town):
        await town.create("orders")
        quiet = await town.ask(METADATA, 8, MetadataRequest(None))
        assert quiet.topics[0].topic_authorized_operations == -(2**31)
        assert quiet.cluster_authorized_operations == -(2**31)
        asked = MetadataRequest(
            None, include_cluster_authorized_operations=True, include_topic_authorized_operations=True
        )
        told = await town.ask(METADATA, 8, asked)
        assert told.topics[0].topic_authorized_operations > 0
        assert told.cluster_authorized_operations > 0

    play(scenario)


def test_topics_are_not_made_where_the_broker_forbids_it(play):
    async def scenario(town):
        asked = MetadataRequest([MetadataRequestTopic(name="fresh")])
        answer = await town.ask(METADATA, 12, asked)
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert town.broker.image.topic("fresh") is None

    play(scenario, {"auto.create.topics.enable": "false"})


def test_one_name_asked_twice_makes_one_topic_and_one_entry_as_in_kafka(play):
    async def scenario(town):
        asked = MetadataRequest([MetadataRequestTopic(name="fresh"), MetadataRequestTopic(name="fresh")])
        answer = await town.ask(METADATA, 12, asked)
        assert [topic.name for topic in answer.topics] == ["fresh"]
        assert town.broker.image.topic("fresh") is not None

    play(scenario)


def test_a_topic_that_cannot_be_made_says_why(play):
    async def scenario(town):
        asked = MetadataRequest([MetadataRequestTopic(name="fresh")])
        answer = await town.ask(METADATA, 12, asked)
        assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR

    play(scenario, {"default.replication.factor": "3"})


def test_two_clients_that_ask_for_the_same_new_topic_both_get_it(play):
    async def scenario(town):
        other = await town.memory.connect()
        asked = MetadataRequest([MetadataRequestTopic(name="fresh")])
        tasks = [client.begin(METADATA, 12, asked) for client in (town.client, other, town.client)]
        for task in tasks:
            assert (await task).topics[0].error_code == 0

    play(scenario)


def test_all_topics_are_encoded_once_per_change_of_the_cluster(play, monkeypatch):
    made = []
    original = answers.all_topics
    monkeypatch.setattr(answers, "all_topics", lambda *given: made.append(given) or original(*given))

    async def scenario(town):
        async def names(version, **how):
            answer = await town.ask(METADATA, version, MetadataRequest(None, **how))
            return {topic.name for topic in answer.topics}

        await town.create("one")
        assert [await names(12) for _ in range(3)] == [{"one"}] * 3
        assert len(made) == 1
        await town.create("two")
        assert await names(12) == {"one", "two"}
        assert len(made) == 2
        assert await names(7) == {"one", "two"}, "another form of the answer"
        assert len(made) == 3
        with_operations = await town.ask(
            METADATA, 8, MetadataRequest(None, include_topic_authorized_operations=True)
        )
        assert all(topic.topic_authorized_operations > 0 for topic in with_operations.topics)
        without = await town.ask(METADATA, 8, MetadataRequest(None))
        assert all(topic.topic_authorized_operations < 0 for topic in without.topics)

    play(scenario)


def test_an_answer_about_many_partitions_is_made_on_a_thread_once_for_all_who_wait(play):
    async def scenario(town):
        await town.create("wide", answers.ON_THE_LOOP_PARTITIONS_MAX + 1)
        made, release = [], asyncio.Event()

        async def run(work):
            made.append(work)
            await release.wait()
            return work()

        town.cluster.workers.run = run
        clients = [await town.memory.connect() for _ in range(3)]
        waiting = [
            asyncio.ensure_future(client.request(METADATA, 12, MetadataRequest(None))) for client in clients
        ]
        await asyncio.sleep(0.01)
        assert len(made) == 1
        await town.create("late")
        late = asyncio.ensure_future(town.ask(METADATA, 12, MetadataRequest(None)))
        await asyncio.sleep(0.01)
        assert len(made) == 2, "the image has changed: the first answer would be too old"
        release.set()
        assert gc.isenabled()
        for answer in await asyncio.gather(*waiting):
            assert {topic.name for topic in answer.topics} == {"wide"}
        assert {topic.name for topic in (await late).topics} == {"wide", "late"}
        again = await town.ask(METADATA, 12, MetadataRequest(None))
        assert {topic.name for topic in again.topics} == {"wide", "late"}
        assert len(made) == 2
        assert gc.isenabled(), "it rests only while an answer is made"

    play(scenario)


def test_forms_of_answers_that_are_kept_are_bounded():
    kept = answers.AllTopicsAnswers(MetadataCache(), InlineWorkers())
    for number in range(10 * answers.FORMS_KEPT_MAX):
        kept.get(answers.AnswerForm(number, "PLAINTEXT", False, False), lambda image: [b"answer"])
        assert len(kept._kept) <= answers.FORMS_KEPT_MAX + 1
