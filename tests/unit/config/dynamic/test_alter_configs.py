"""AlterConfigs and IncrementalAlterConfigs."""

import pytest

from odradek.config.dynamic.alter_configs import (
    AlterOperation,
    alter_broker,
    alter_topic,
    create_topic,
    replace_broker,
    replace_topic,
)
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import AlterOp

SET, DELETE, APPEND, SUBTRACT = AlterOp.SET, AlterOp.DELETE, AlterOp.APPEND, AlterOp.SUBTRACT
REQUEST, CONFIG = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG


@pytest.fixture
def config() -> DynamicBrokerConfig:
    return DynamicBrokerConfig({"log.retention.hours": "5"})


@pytest.mark.parametrize(
    ("current", "operations", "expected"),
    [
        ({}, [("retention.ms", SET, "5")], {"retention.ms": "5"}),
        ({"retention.ms": "5"}, [("retention.ms", SET, "6")], {"retention.ms": "6"}),
        ({"retention.ms": "5", "segment.ms": "1"}, [("retention.ms", DELETE, None)], {"segment.ms": "1"}),
        ({}, [("retention.ms", DELETE, None)], {}),
        ({}, [("cleanup.policy", APPEND, "compact")], {"cleanup.policy": "delete,compact"}),
        ({}, [("cleanup.policy", APPEND, "delete")], {"cleanup.policy": "delete"}),
        (
            {"cleanup.policy": "delete,compact"},
            [("cleanup.policy", SUBTRACT, "delete")],
            {"cleanup.policy": "compact"},
        ),
        (
            {"cleanup.policy": "compact"},
            [("cleanup.policy", SUBTRACT, "delete")],
            {"cleanup.policy": "compact"},
        ),
        (
            {},
            [("leader.replication.throttled.replicas", APPEND, "0:1,1:2")],
            {"leader.replication.throttled.replicas": "0:1,1:2"},
        ),
        (
            {},
            [("retention.ms", SET, "-1"), ("preallocate", SET, "TRUE")],
            {"retention.ms": "-1", "preallocate": "TRUE"},
        ),
        ({}, [], {}),
    ],
)
def test_operations_change_topic_overrides(
    config: DynamicBrokerConfig,
    current: dict[str, str],
    operations: list[tuple[str, int, str | None]],
    expected: dict[str, str],
) -> None:
    assert alter_topic(config, current, [AlterOperation(*each) for each in operations]) == expected


@pytest.mark.parametrize(
    ("operations", "code", "message"),
    [
        ([("nope", SET, "1")], CONFIG, "unknown topic config nope"),
        ([("log.segment.bytes", SET, "100")], CONFIG, "unknown topic config log.segment.bytes"),
        (
            [("segment.bytes", SET, "1")],
            CONFIG,
            "segment.bytes must be at least 14, got 1",
        ),
        ([("retention.ms", SET, "-2")], CONFIG, "must be at least -1"),
        ([("compression.type", SET, "none")], CONFIG, "must be one of uncompressed"),
        ([("retention.ms", APPEND, "1")], CONFIG, "append requires a config of type list, got retention.ms"),
        (
            [("retention.ms", SUBTRACT, "1")],
            CONFIG,
            "subtract requires a config of type list, got retention.ms",
        ),
        ([("nope", APPEND, "1")], CONFIG, "unknown config nope"),
        ([("retention.ms", SET, None)], REQUEST, "configs must not be null, got null for retention.ms"),
        ([("a", SET, "1"), ("a", SET, "2")], REQUEST, "each config must appear once, got a twice"),
        ([("retention.ms", 9, "1")], REQUEST, "operation must be in 0..3, got 9"),
        (
            [("min.compaction.lag.ms", SET, "5"), ("max.compaction.lag.ms", SET, "3")],
            CONFIG,
            "min.compaction.lag.ms must be at most max.compaction.lag.ms (3), got 5",
        ),
        ([("remote.storage.enable", SET, "true")], CONFIG, "tiered storage is not available"),
        ([("remote.log.copy.disable", SET, "true")], CONFIG, "tiered storage is not available"),
    ],
)
def test_invalid_topic_overrides_are_rejected(
    config: DynamicBrokerConfig, operations: list[tuple[str, int, str | None]], code: ErrorCode, message: str
) -> None:
    with pytest.raises(BrokerError) as error:
        alter_topic(config, {}, [AlterOperation(*each) for each in operations])
    assert error.value.code is code
    assert message in (error.value.message or "")


def test_replace_removes_overrides_that_are_not_listed(config: DynamicBrokerConfig) -> None:
    assert replace_topic(config, [("segment.ms", "5")]) == {"segment.ms": "5"}
    config.set_broker_overrides({"message.max.bytes": "5"})
    assert replace_broker(config, [("log.retention.ms", "6")], per_broker=True) == {"log.retention.ms": "6"}


@pytest.mark.parametrize("entries", [[("segment.ms", None)], [("segment.ms", "1"), ("segment.ms", "2")]])
def test_replace_rejects_nulls_and_duplicates(
    config: DynamicBrokerConfig, entries: list[tuple[str, str | None]]
) -> None:
    with pytest.raises(BrokerError) as error:
        replace_topic(config, entries)
    assert error.value.code is REQUEST


def test_new_topic_overrides_are_checked(config: DynamicBrokerConfig) -> None:
    assert create_topic(config, [("cleanup.policy", "compact")]) == {"cleanup.policy": "compact"}
    for entries in ([("cleanup.policy", None)], [("cleanup.policy", "x")], [("x", "y")]):
        with pytest.raises(BrokerError) as error:
            create_topic(config, entries)
        assert error.value.code is CONFIG


@pytest.mark.parametrize("per_broker", [True, False])
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("log.retention.hours", "100", "configs cannot be changed dynamically: log.retention.hours"),
        ("broker.id", "5", "configs cannot be changed dynamically: broker.id"),
        ("zookeeper.connect", "x", "configs cannot be changed dynamically"),
        ("listener.name.x.ssl.keystore.password", "x", "passwords and keys cannot be changed dynamically"),
        ("listener.name.x.ssl.keystore.key", "x", "passwords and keys cannot be changed dynamically"),
        ("listener.name.x.plain.sasl.jaas.config", "x", "passwords and keys cannot be changed dynamically"),
        ("odradek.allow.anonymous", "true", "configs cannot be changed dynamically"),
        ("ssl.keystore.type", "PEM", "only with a listener prefix: ssl.keystore.type"),
        ("message.max.bytes", "-1", "must be at least 0"),
        ("message.max.bytes", "x", "must be an integer of 32 bits"),
        ("log.retention.ms", "0", "log.retention.ms must be -1 (unlimited) or >= 1"),
        ("leader.replication.throttled.rate", "-5", "must be at least 0"),
        ("log.roll.ms", "0", "log.roll.ms must be >= 1, got 0"),
        ("no.such", "1", "unknown broker config no.such"),
    ],
)
def test_invalid_broker_overrides_are_rejected(
    config: DynamicBrokerConfig, name: str, value: str, message: str, per_broker: bool
) -> None:
    with pytest.raises(BrokerError) as error:
        alter_broker(config, {}, [AlterOperation(name, SET, value)], per_broker=per_broker)
    assert error.value.code is REQUEST
    assert message in (error.value.message or "")


@pytest.mark.parametrize("per_broker", [True, False])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log.retention.ms", "100"),
        ("num.io.threads", "9"),
        ("listener.name.plaintext.max.connections", "5"),
        ("leader.replication.throttled.rate", "5"),
        ("replica.alter.log.dirs.io.max.bytes.per.second", "7"),
        ("min.insync.replicas", "2"),
    ],
)
def test_cluster_wide_settings_can_be_changed_for_one_or_all_brokers(
    config: DynamicBrokerConfig, name: str, value: str, per_broker: bool
) -> None:
    assert alter_broker(config, {}, [AlterOperation(name, SET, value)], per_broker=per_broker) == {
        name: value
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [("listeners", "PLAINTEXT://127.0.0.1:1"), ("listener.name.plaintext.ssl.keystore.type", "PEM")],
)
def test_per_broker_settings_cannot_be_changed_cluster_wide(
    config: DynamicBrokerConfig, name: str, value: str
) -> None:
    assert alter_broker(config, {}, [AlterOperation(name, SET, value)], per_broker=True) == {name: value}
    with pytest.raises(BrokerError) as error:
        alter_broker(config, {}, [AlterOperation(name, SET, value)], per_broker=False)
    assert "not cluster-wide" in (error.value.message or "")


def test_change_is_checked_together_with_the_other_layers() -> None:
    config = DynamicBrokerConfig({})
    config.set_broker_overrides({"log.cleaner.threads": "4"})
    with pytest.raises(BrokerError, match="1 MiB per cleaner thread"):
        alter_broker(
            config, {}, [AlterOperation("log.cleaner.dedupe.buffer.size", SET, "2000000")], per_broker=False
        )


def test_anonymous_listener_cannot_be_added_at_run_time() -> None:
    config = DynamicBrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:1"})
    operations = [AlterOperation("listeners", SET, "PLAINTEXT://10.0.0.1:1")]
    with pytest.raises(BrokerError, match=r"odradek\.allow\.anonymous"):
        alter_broker(config, {}, operations, per_broker=True)


def test_alter_does_not_change_the_current_configuration(config: DynamicBrokerConfig) -> None:
    current = {"retention.ms": "5"}
    alter_topic(config, current, [AlterOperation("retention.ms", SET, "6")])
    assert current == {"retention.ms": "5"}
    current = {"message.max.bytes": "5"}
    alter_broker(config, current, [AlterOperation("message.max.bytes", SET, "6")], per_broker=True)
    assert current == {"message.max.bytes": "5"}
    assert config.broker_overrides == {}


POOLS = [
    "num.network.threads",
    "num.io.threads",
    "background.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "log.cleaner.threads",
]


@pytest.mark.parametrize("name", [*POOLS, "listener.name.internal.num.network.threads"])
def test_thread_pool_can_at_most_be_halved_or_doubled(name: str) -> None:
    pool = name.removeprefix("listener.name.internal.")
    config = DynamicBrokerConfig({pool: "9"})
    for count in ("4", "9", "18"):
        assert alter_broker(config, {}, [AlterOperation(name, SET, count)], per_broker=True) == {name: count}
    for count, message in (
        ("3", "at least half of its current value 9"),
        ("19", "at most double its current value 9"),
    ):
        with pytest.raises(BrokerError) as error:
            alter_broker(config, {}, [AlterOperation(name, SET, count)], per_broker=True)
        assert error.value.code is REQUEST
        assert message in (error.value.message or "")


def test_thread_pool_is_compared_with_its_current_size() -> None:
    config = DynamicBrokerConfig({"num.io.threads": "8"})
    config.set_cluster_overrides({"num.io.threads": "16"})
    assert alter_broker(config, {}, [AlterOperation("num.io.threads", SET, "32")], per_broker=False)
    config.set_cluster_overrides({"num.io.threads": "32"})
    with pytest.raises(BrokerError):
        alter_broker(config, {}, [AlterOperation("num.io.threads", DELETE, None)], per_broker=False)
