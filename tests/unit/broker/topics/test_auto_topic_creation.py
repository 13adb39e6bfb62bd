"""Topics of the brokers' own: their settings, and how they come to be."""

from __future__ import annotations

import asyncio
import logging

import pytest

from odradek.broker.topics.auto_topic_creation import OwnTopic, plan_automatic
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.model.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from odradek.store.port import StoreError
from odradek.testing.clock import run_virtually


def test_the_offsets_topic_is_made_as_its_settings_say() -> None:
    wish = plan_automatic(OFFSETS_TOPIC, DynamicBrokerConfig({}).broker)
    assert (wish.partitions, wish.replication_factor) == (50, 3)
    assert wish.settings == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    given = {
        "offsets.topic.num.partitions": "7",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.segment.bytes": "1048576",
    }
    wish = plan_automatic(OFFSETS_TOPIC, DynamicBrokerConfig(given).broker)
    assert (wish.partitions, wish.replication_factor, wish.settings["segment.bytes"]) == (7, 1, "1048576")


def test_the_transactions_topic_is_made_as_its_settings_say() -> None:
    wish = plan_automatic(TRANSACTIONS_TOPIC, DynamicBrokerConfig({}).broker)
    assert (wish.partitions, wish.replication_factor) == (50, 3)
    assert wish.settings == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }


def test_a_topic_of_clients_has_the_brokers_defaults() -> None:
    wish = plan_automatic("orders", DynamicBrokerConfig({}).broker)
    assert (wish.partitions, wish.replication_factor, wish.settings) == (-1, -1, {})


def test_many_who_need_it_have_it_made_once_and_again_only_after_that_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    problems: list[str | None] = ["too few brokers", "too few brokers", None]
    made: list[str] = []

    async def create(name: str) -> str | None:
        await asyncio.sleep(1)
        made.append(name)
        return problems[len(made) - 1]

    async def main() -> None:
        topic = OwnTopic(OFFSETS_TOPIC, create)
        for count in range(1, 4):
            topic.need()
            topic.need()
            await asyncio.sleep(2)
            assert len(made) == count
        await topic.stop()
        topic.need()
        await asyncio.sleep(2)
        assert len(made) == 3

    with caplog.at_level(logging.WARNING):
        run_virtually(main)
    assert caplog.text.count("topic_not_created") == 1


def test_a_store_that_fails_is_told_and_the_topic_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    tries = 0

    async def create(name: str) -> str | None:
        nonlocal tries
        tries += 1
        raise StoreError("no answer")

    async def main() -> None:
        topic = OwnTopic(OFFSETS_TOPIC, create)
        for _ in range(2):
            topic.need()
            await asyncio.sleep(1)
        await topic.stop()

    with caplog.at_level(logging.WARNING):
        run_virtually(main)
    assert tries == 2
    assert "topic_not_created" in caplog.text


def test_making_it_ends_with_the_broker() -> None:
    async def create(name: str) -> str | None:
        await asyncio.sleep(1000)
        return None

    async def main() -> None:
        topic = OwnTopic(OFFSETS_TOPIC, create)
        topic.need()
        await asyncio.sleep(1)
        await topic.stop()
        assert asyncio.get_running_loop().time() < 2

    run_virtually(main)
