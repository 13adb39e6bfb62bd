"""Values derived from several settings."""

import pytest

from odradek.config import broker, derived, topic
from odradek.config.definition import Settings, parse_settings
from odradek.config.dynamic.broker_config import DynamicBrokerConfig


def settings(raw_values: dict[str, str]) -> Settings:
    return parse_settings(broker.BY_NAME, raw_values)


def topic_settings(overrides: dict[str, str], raw_values: dict[str, str] | None = None) -> Settings:
    return DynamicBrokerConfig(raw_values or {}).topic_settings(overrides)


@pytest.mark.parametrize(
    ("raw_values", "millis"),
    [
        ({}, 7 * 24 * 3_600_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "1"}, 60_000),
        ({"log.retention.minutes": "1", "log.retention.ms": "1"}, 1),
        ({"log.retention.ms": "-2"}, -1),
        ({"log.retention.hours": "-7"}, -1),
    ],
)
def test_retention_takes_the_finest_unit(raw_values: dict[str, str], millis: int) -> None:
    assert derived.retention_ms(settings(raw_values)) == millis


def test_roll_and_flush_have_fallbacks() -> None:
    assert derived.roll_ms(settings({})) == 168 * 3_600_000
    assert derived.roll_ms(settings({"log.roll.ms": "5"})) == 5
    assert derived.roll_jitter_ms(settings({"log.roll.jitter.hours": "1"})) == 3_600_000
    assert derived.flush_ms(settings({"log.flush.scheduler.interval.ms": "9"})) == 9
    assert (
        derived.flush_ms(settings({"log.flush.scheduler.interval.ms": "9", "log.flush.interval.ms": "3"}))
        == 3
    )
    assert derived.zookeeper_connection_timeout_ms(settings({})) == 18_000
    assert derived.zookeeper_connection_timeout_ms(settings({"zookeeper.connection.timeout.ms": "1"})) == 1


def test_log_dirs_override_log_dir() -> None:
    assert derived.log_dirs(settings({})) == ("/tmp/kafka-logs",)
    assert derived.log_dirs(settings({"log.dir": "x", "log.dirs": "a,, b"})) == ("a", "b")


def test_connection_limit_addresses_may_contain_colons() -> None:
    raw_values = {"max.connections.per.ip.overrides": "::1:5, h:4"}
    assert derived.connection_limits(settings(raw_values)) == {"::1": 5, "h": 4}


def test_deprecated_timestamp_limit_is_a_fallback() -> None:
    deprecated = {"message.timestamp.difference.max.ms": "10"}
    assert derived.topic_timestamp_before_max_ms(topic_settings(deprecated)) == 10
    newer = topic_settings({**deprecated, "message.timestamp.after.max.ms": "3"})
    assert derived.topic_timestamp_after_max_ms(newer) == 3
    assert derived.topic_timestamp_before_max_ms(newer) == 10
    inherited = topic_settings({}, {"log.message.timestamp.difference.max.ms": "10"})
    assert inherited[topic.MESSAGE_TIMESTAMP_BEFORE_MAX_MS] == 10
    assert derived.topic_timestamp_after_max_ms(inherited) == 10


@pytest.mark.parametrize(
    ("raw_values", "secret"),
    [
        ({}, None),
        ({"delegation.token.secret.key": "new"}, "new"),
        ({"delegation.token.master.key": "old"}, "old"),
        ({"delegation.token.secret.key": "new", "delegation.token.master.key": "old"}, "new"),
        ({"delegation.token.secret.key": ""}, None),
        ({"delegation.token.secret.key": "", "delegation.token.master.key": "old"}, None),
    ],
)
def test_delegation_tokens_need_a_secret(raw_values: dict[str, str], secret: str | None) -> None:
    derived_secret = derived.delegation_token_secret(settings(raw_values))
    assert (None if derived_secret is None else derived_secret.reveal()) == secret
