"""Automatic topic creation: settings of internal topics, and concurrent requests."""

from __future__ import annotations

import asyncio
import logging

import pytest

from odradek.broker.topics.auto_topic_creation import AutoTopicCreation, plan_auto_created_topic
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.model.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from odradek.store.port import StoreError
from odradek.testing.clock import run_virtually


def test_offsets_topic_is_planned_from_its_settings() -> None:
    request = plan_auto_created_topic(OFFSETS_TOPIC, DynamicBrokerConfig({}).broker)
    assert (request.partitions, request.replication_factor) == (50, 3)
    assert request.settings == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    specified = {
        "offsets.topic.num.partitions": "7",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.segment.bytes": "1048576",
    }
    request = plan_auto_created_topic(OFFSETS_TOPIC, DynamicBrokerConfig(specified).broker)
    assert (request.partitions, request.replication_factor, request.settings["segment.bytes"]) == (
        7,
        1,
        "1048576",
    )


def test_transaction_state_topic_is_planned_from_its_settings() -> None:
    request = plan_auto_created_topic(TRANSACTIONS_TOPIC, DynamicBrokerConfig({}).broker)
    assert (request.partitions, request.replication_factor) == (50, 3)
    assert request.settings == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }


def test_other_topics_get_the_broker_defaults() -> None:
    request = plan_auto_created_topic("orders", DynamicBrokerConfig({}).broker)
    assert (request.partitions, request.replication_factor, request.settings) == (-1, -1, {})


def test_concurrent_requests_create_the_topic_once_and_again_only_after_a_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    problems: list[str | None] = ["too few brokers", "too few brokers", None]
    made: list[str] = []

    async def create(name: str) -> str | None:
        await asyncio.sleep(1)
        made.append(name)
        return problems[len(made) - 1]

    async def main() -> None:
        topic = AutoTopicCreation(OFFSETS_TOPIC, create)
        for count in range(1, 4):
            topic.ensure_created()
            topic.ensure_created()
            await asyncio.sleep(2)
            assert len(made) == count
        await topic.stop()
        topic.ensure_created()
        await asyncio.sleep(2)
        assert len(made) == 3

    with caplog.at_level(logging.WARNING):
        run_virtually(main)
    assert caplog.text.count("topic_not_created") == 1


def test_store_error_is_logged_and_creation_retried(caplog: pytest.LogCaptureFixture) -> None:
    tries = 0

    async def create(name: str) -> str | None:
        nonlocal tries
        tries += 1
        raise StoreError("no response")

    async def main() -> None:
        topic = AutoTopicCreation(OFFSETS_TOPIC, create)
        for _ in range(2):
            topic.ensure_created()
            await asyncio.sleep(1)
        await topic.stop()

    with caplog.at_level(logging.WARNING):
        run_virtually(main)
    assert tries == 2
    assert "topic_not_created" in caplog.text


def test_stop_cancels_the_creation() -> None:
    async def create(name: str) -> str | None:
        await asyncio.sleep(1000)
        return None

    async def main() -> None:
        topic = AutoTopicCreation(OFFSETS_TOPIC, create)
        topic.ensure_created()
        await asyncio.sleep(1)
        await topic.stop()
        assert asyncio.get_running_loop().time() < 2

    run_virtually(main)
