"""Constraints between settings."""

import pytest

from odradek.config import broker
from odradek.config.constraints import live_problems, problems
from odradek.config.definition import Settings, parse_settings


def settings(raw_values: dict[str, str]) -> Settings:
    return parse_settings(broker.BY_NAME, raw_values)


@pytest.mark.parametrize(
    ("raw_values", "message"),
    [
        ({"broker.id": "-2"}, "broker.id must be between -1 and reserved.broker.max.id (1000), got -2"),
        ({"broker.id": "1001"}, "reserved.broker.max.id (1000), got 1001"),
        ({"broker.id": "-1", "broker.id.generation.enable": "false"}, "broker.id must be >= 0, got -1"),
        ({"broker.id": "5", "node.id": "6"}, "node.id must equal broker.id (5), got 6"),
        ({"log.retention.hours": "0"}, "log.retention.ms must be -1 (unlimited) or >= 1"),
        ({"log.roll.ms": "0"}, "log.roll.ms must be"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be"),
        ({"log.dirs": ""}, "at least one directory"),
        ({"offsets.commit.required.acks": "-2"}, "offsets.commit.required.acks"),
        ({"offsets.commit.required.acks": "4"}, "offsets.commit.required.acks"),
        ({"offsets.topic.compression.codec": "9"}, "offsets.topic.compression.codec"),
        ({"queued.max.request.bytes": "5"}, "queued.max.request.bytes must be at least"),
        ({"log.cleaner.dedupe.buffer.size": "1000"}, "at least 1 MiB per cleaner thread"),
        ({"replica.fetch.wait.max.ms": "40000"}, "at most replica.socket.timeout.ms (30000), got 40000"),
        ({"replica.lag.time.max.ms": "1"}, "replica.lag.time.max.ms"),
        ({"max.connections.per.ip": "0"}, "max.connections.per.ip must be >= 1"),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "must be classic, got consumer"),
        (
            {"group.coordinator.rebalance.protocols": "classic,consumer"},
            "must be classic, got classic,consumer",
        ),
        ({"process.roles": "broker"}, "process.roles must be empty"),
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "only one of",
        ),
        ({"listeners": "SSL://:1"}, "inter.broker.listener.name"),
    ],
)
def test_inconsistent_settings_are_reported(raw_values: dict[str, str], message: str) -> None:
    assert any(message in line for line in problems(settings(raw_values), raw_values))


@pytest.mark.parametrize(
    "raw_values",
    [
        {},
        {"broker.id": "1000"},
        {"broker.id": "1001", "broker.id.generation.enable": "false"},
        {"node.id": "6"},
        {"log.retention.ms": "-1"},
        {"queued.max.request.bytes": "0"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"},
        {"offsets.commit.required.acks": "3"},
    ],
)
def test_settings_that_kafka_accepts_are_accepted(raw_values: dict[str, str]) -> None:
    assert problems(settings(raw_values), raw_values) == []


def test_generated_broker_id_is_not_checked_at_run_time() -> None:
    raw_values = {"broker.id": "1001"}
    assert live_problems(settings(raw_values), raw_values) == []
