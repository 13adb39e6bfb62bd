"""Dynamic broker configuration and DescribeConfigs. Expected descriptions were printed by Kafka 3.9.1."""

import pytest

from odradek.config import broker, topic
from odradek.config.broker.throttles import LEADER_REPLICATION_THROTTLED_RATE
from odradek.config.dynamic.broker_config import DynamicBrokerConfig, topic_problems
from odradek.config.dynamic.describe_configs import (
    DescribedSetting,
    describe_broker,
    describe_cluster,
    describe_topic,
)
from odradek.model.errors import ConfigError
from odradek.model.protocol_enums import ConfigSource, ConfigType

STATIC = {
    "zookeeper.connect": "x:1",
    "broker.id": "0",
    "log.retention.hours": "5",
    "log.roll.hours": "7",
    "unknown.name": "z",
    "ssl.keystore.password": "pw",
    "listener.name.plaintext.ssl.keystore.type": "PEM",
    "log.cleanup.policy": " compact , delete",
}
DEFAULT, FILE, CLUSTER, BROKER, TOPIC = (
    ConfigSource.DEFAULT_CONFIG,
    ConfigSource.STATIC_BROKER_CONFIG,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigSource.TOPIC_CONFIG,
)


@pytest.fixture
def config() -> DynamicBrokerConfig:
    config = DynamicBrokerConfig(STATIC)
    assert config.set_cluster_overrides({"log.retention.ms": "777", "message.max.bytes": "1000"}) == []
    assert config.set_broker_overrides({"message.max.bytes": "2000", "log.flush.interval.ms": "99"}) == []
    return config


def find(settings: list[DescribedSetting], name: str) -> DescribedSetting:
    (setting,) = [each for each in settings if each.name == name]
    return setting


@pytest.mark.parametrize(
    ("name", "value", "synonyms"),
    [
        (
            "message.max.bytes",
            "2000",
            [
                ("message.max.bytes", "2000", BROKER),
                ("message.max.bytes", "1000", CLUSTER),
                ("message.max.bytes", "1048588", DEFAULT),
            ],
        ),
        (
            "log.retention.ms",
            "777",
            [
                ("log.retention.ms", "777", CLUSTER),
                ("log.retention.hours", "5", FILE),
                ("log.retention.hours", "168", DEFAULT),
            ],
        ),
        (
            "log.retention.hours",
            "168",
            [("log.retention.hours", "5", FILE), ("log.retention.hours", "168", DEFAULT)],
        ),
        ("log.retention.minutes", None, []),
        ("log.roll.hours", "7", [("log.roll.hours", "7", FILE), ("log.roll.hours", "168", DEFAULT)]),
        ("log.roll.ms", None, []),
        (
            "log.flush.interval.ms",
            "99",
            [
                ("log.flush.interval.ms", "99", BROKER),
                ("log.flush.scheduler.interval.ms", "9223372036854775807", DEFAULT),
            ],
        ),
        (
            "log.cleanup.policy",
            "compact,delete",
            [("log.cleanup.policy", " compact , delete", FILE), ("log.cleanup.policy", "delete", DEFAULT)],
        ),
        ("node.id", "0", [("node.id", "0", FILE), ("node.id", "-1", DEFAULT)]),
        ("zookeeper.connect", "x:1", [("zookeeper.connect", "x:1", FILE)]),
        ("ssl.cipher.suites", "", [("ssl.cipher.suites", "", DEFAULT)]),
        ("log.dirs", None, []),
        (
            "log.cleaner.io.max.bytes.per.second",
            "1.7976931348623157E308",
            [("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308", DEFAULT)],
        ),
        (
            "listener.name.plaintext.ssl.keystore.type",
            "PEM",
            [
                ("listener.name.plaintext.ssl.keystore.type", "PEM", FILE),
                ("ssl.keystore.type", "JKS", DEFAULT),
            ],
        ),
        ("ssl.keystore.password", None, [("ssl.keystore.password", None, FILE)]),
        ("unknown.name", None, [("unknown.name", None, FILE)]),
        (
            "inter.broker.protocol.version",
            "3.9-IV0",
            [("inter.broker.protocol.version", "3.9-IV0", DEFAULT)],
        ),
        ("delete.topic.enable", "true", [("delete.topic.enable", "true", DEFAULT)]),
    ],
)
def test_broker_description_equals_kafkas(
    config: DynamicBrokerConfig,
    name: str,
    value: str | None,
    synonyms: list[tuple[str, str | None, ConfigSource]],
) -> None:
    setting = find(describe_broker(config), name)
    assert (setting.value, list(setting.synonyms)) == (value, synonyms)
    assert setting.source == (synonyms[0][2] if synonyms else DEFAULT)
    assert setting.is_default == (setting.source is DEFAULT)


def test_description_has_read_only_sensitive_and_type(config: DynamicBrokerConfig) -> None:
    settings = describe_broker(config)
    assert not find(settings, "message.max.bytes").read_only
    assert find(settings, "broker.id").read_only
    assert find(settings, "listener.name.plaintext.ssl.keystore.type").read_only
    assert find(settings, "ssl.keystore.password").sensitive
    assert find(settings, "ssl.keystore.password").type is ConfigType.PASSWORD
    unknown = find(settings, "unknown.name")
    assert (unknown.sensitive, unknown.read_only, unknown.type) == (True, True, ConfigType.UNKNOWN)
    assert find(settings, "broker.id").documentation == broker.BROKER_ID.documentation


def test_secrets_are_never_described() -> None:
    config = DynamicBrokerConfig(
        {"ssl.key.password": "hunter2", "listener.name.lan.ssl.key.password": "hunter2"}
    )
    config.set_broker_overrides({"listener.name.wan.ssl.key.password": "hunter2"})
    assert "hunter2" not in repr(describe_broker(config))


def test_exactly_the_listed_settings_are_described(config: DynamicBrokerConfig) -> None:
    names = {each.name for each in describe_broker(config)}
    listed = {setting.name for setting in broker.BROKER if not setting.unlisted}
    assert names == listed | {"unknown.name", "listener.name.plaintext.ssl.keystore.type"}


def test_description_can_be_limited_to_names(config: DynamicBrokerConfig) -> None:
    assert [each.name for each in describe_broker(config, {"broker.id", "no.such"})] == ["broker.id"]
    assert [each.name for each in describe_topic(config, {}, {"retention.ms"})] == ["retention.ms"]
    assert [each.name for each in describe_cluster(config, {"log.retention.ms"})] == ["log.retention.ms"]


def test_cluster_description_has_only_cluster_overrides(config: DynamicBrokerConfig) -> None:
    settings = describe_cluster(config)
    assert {(each.name, each.value, each.source) for each in settings} == {
        ("log.retention.ms", "777", CLUSTER),
        ("message.max.bytes", "1000", CLUSTER),
    }
    assert find(settings, "message.max.bytes").synonyms == (("message.max.bytes", "1000", CLUSTER),)


@pytest.mark.parametrize(
    ("name", "value", "synonyms"),
    [
        (
            "retention.ms",
            "42",
            [
                ("retention.ms", "42", TOPIC),
                ("log.retention.ms", "777", CLUSTER),
                ("log.retention.hours", "5", FILE),
                ("log.retention.hours", "168", DEFAULT),
            ],
        ),
        (
            "message.format.version",
            "2.0",
            [("message.format.version", "2.0", TOPIC), ("log.message.format.version", "3.0-IV1", DEFAULT)],
        ),
        ("segment.ms", "25200000", []),
        ("segment.jitter.ms", "0", []),
        ("leader.replication.throttled.replicas", "", []),
        (
            "flush.ms",
            "99",
            [
                ("log.flush.interval.ms", "99", BROKER),
                ("log.flush.scheduler.interval.ms", "9223372036854775807", DEFAULT),
            ],
        ),
        (
            "max.message.bytes",
            "2000",
            [
                ("message.max.bytes", "2000", BROKER),
                ("message.max.bytes", "1000", CLUSTER),
                ("message.max.bytes", "1048588", DEFAULT),
            ],
        ),
        ("min.cleanable.dirty.ratio", "0.5", [("log.cleaner.min.cleanable.ratio", "0.5", DEFAULT)]),
    ],
)
def test_topic_description_equals_kafkas(
    config: DynamicBrokerConfig, name: str, value: str, synonyms: list[tuple[str, str, ConfigSource]]
) -> None:
    setting = find(describe_topic(config, {"retention.ms": "42", "message.format.version": "2.0"}), name)
    assert (setting.value, list(setting.synonyms)) == (value, synonyms)
    assert setting.source == (synonyms[0][2] if synonyms else DEFAULT)


def test_topic_settings_inherit_from_the_broker(config: DynamicBrokerConfig) -> None:
    settings = config.topic_settings({"retention.ms": "42"})
    assert settings[topic.RETENTION_MS] == 42
    assert settings[topic.MAX_MESSAGE_BYTES] == 2000
    assert settings[topic.CLEANUP_POLICY] == ("compact", "delete")
    assert config.topic_settings({})[topic.RETENTION_MS] == 777


def test_topic_settings_are_cached_until_a_layer_changes(config: DynamicBrokerConfig) -> None:
    before = config.topic_settings({"retention.ms": "42"})
    assert config.topic_settings({"retention.ms": "42"}) is before
    version = config.version
    config.set_broker_overrides({})
    assert config.version > version
    after = config.topic_settings({"retention.ms": "42"})
    assert after[topic.MAX_MESSAGE_BYTES] == 1000


def test_cache_of_topic_settings_is_bounded() -> None:
    config = DynamicBrokerConfig({})
    for number in range(3000):
        config.topic_settings({"retention.ms": str(number)})
    assert len(config._topics) <= 1024


def test_invalid_overrides_are_skipped_and_reported() -> None:
    config = DynamicBrokerConfig({})
    problems = config.set_cluster_overrides(
        {
            "message.max.bytes": "x",
            "listeners": "PLAINTEXT://:1",
            "broker.id": "5",
            "no.such": "1",
            "ssl.keystore.type": "PEM",
            "log.retention.ms": "9",
        }
    )
    assert len(problems) == 5
    assert config.cluster_overrides == {"log.retention.ms": "9"}
    assert config.broker[broker.LOG_RETENTION_MS] == 9


def test_inconsistent_layers_keep_the_current_values() -> None:
    config = DynamicBrokerConfig({})
    assert config.set_cluster_overrides({"log.retention.ms": "0"}) != []
    assert config.broker[broker.LOG_RETENTION_MS] is None


def test_invalid_topic_overrides_are_skipped_and_reported() -> None:
    overrides = {"retention.ms": "x", "no.such": "1", "segment.bytes": "100"}
    settings = DynamicBrokerConfig({}).topic_settings(overrides)
    assert settings[topic.SEGMENT_BYTES] == 100
    assert settings[topic.RETENTION_MS] == topic.RETENTION_MS.default
    assert len(topic_problems(overrides)) == 2


def test_throttles_are_described_only_if_set() -> None:
    config = DynamicBrokerConfig({})
    name = "leader.replication.throttled.rate"
    assert name not in {each.name for each in describe_broker(config)}
    assert config.set_broker_overrides({name: "1000"}) == []
    assert config.throttles[LEADER_REPLICATION_THROTTLED_RATE] == 1000
    described = find(describe_broker(config), name)
    assert described.value == "1000"
    assert [synonym.source for synonym in described.synonyms] == [ConfigSource.DYNAMIC_BROKER_CONFIG]


def test_generated_broker_id_is_set() -> None:
    config = DynamicBrokerConfig({})
    config.set_broker_id(1001)
    assert config.broker[broker.BROKER_ID] == 1001
    assert find(describe_broker(config), "node.id").value == "1001"
    assert config.set_broker_overrides({"message.max.bytes": "1"}) == []


def test_invalid_static_values_are_rejected() -> None:
    with pytest.raises(ConfigError):
        DynamicBrokerConfig({"num.partitions": "0"})
