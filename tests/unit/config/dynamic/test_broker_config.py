"""DynamicBrokerConfig and descriptions. The expected facts of the first tests were printed by Kafka 3.9.1
itself.
"""

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
DEFAULT, FILE, CLUSTER, OWN, TOPIC = (
    ConfigSource.DEFAULT_CONFIG,
    ConfigSource.STATIC_BROKER_CONFIG,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigSource.TOPIC_CONFIG,
)


@pytest.fixture
def layers() -> DynamicBrokerConfig:
    made = DynamicBrokerConfig(STATIC)
    assert made.set_cluster_overrides({"log.retention.ms": "777", "message.max.bytes": "1000"}) == []
    assert made.set_broker_overrides({"message.max.bytes": "2000", "log.flush.interval.ms": "99"}) == []
    return made


def fact(facts: list[DescribedSetting], name: str) -> DescribedSetting:
    (found,) = [each for each in facts if each.name == name]
    return found


@pytest.mark.parametrize(
    ("name", "value", "synonyms"),
    [
        (
            "message.max.bytes",
            "2000",
            [
                ("message.max.bytes", "2000", OWN),
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
                ("log.flush.interval.ms", "99", OWN),
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
def test_a_broker_is_described_as_kafka_does(
    layers: DynamicBrokerConfig,
    name: str,
    value: str | None,
    synonyms: list[tuple[str, str | None, ConfigSource]],
) -> None:
    found = fact(describe_broker(layers), name)
    assert (found.value, list(found.synonyms)) == (value, synonyms)
    assert found.source == (synonyms[0][2] if synonyms else DEFAULT)
    assert found.is_default == (found.source is DEFAULT)


def test_read_only_sensitive_and_type_are_told(layers: DynamicBrokerConfig) -> None:
    facts = describe_broker(layers)
    assert not fact(facts, "message.max.bytes").read_only
    assert fact(facts, "broker.id").read_only
    assert fact(facts, "listener.name.plaintext.ssl.keystore.type").read_only
    assert fact(facts, "ssl.keystore.password").sensitive
    assert fact(facts, "ssl.keystore.password").type is ConfigType.PASSWORD
    unknown = fact(facts, "unknown.name")
    assert (unknown.sensitive, unknown.read_only, unknown.type) == (True, True, ConfigType.UNKNOWN)
    assert fact(facts, "broker.id").documentation == broker.BROKER_ID.documentation


def test_no_secret_is_ever_described() -> None:
    layers = DynamicBrokerConfig(
        {"ssl.key.password": "hunter2", "listener.name.lan.ssl.key.password": "hunter2"}
    )
    layers.set_broker_overrides({"listener.name.wan.ssl.key.password": "hunter2"})
    assert "hunter2" not in repr(describe_broker(layers))


def test_every_listed_setting_is_described_and_no_unlisted_one(layers: DynamicBrokerConfig) -> None:
    names = {each.name for each in describe_broker(layers)}
    listed = {setting.name for setting in broker.BROKER if not setting.unlisted}
    assert names == listed | {"unknown.name", "listener.name.plaintext.ssl.keystore.type"}


def test_names_can_be_asked_for(layers: DynamicBrokerConfig) -> None:
    assert [each.name for each in describe_broker(layers, {"broker.id", "no.such"})] == ["broker.id"]
    assert [each.name for each in describe_topic(layers, {}, {"retention.ms"})] == ["retention.ms"]
    assert [each.name for each in describe_cluster(layers, {"log.retention.ms"})] == ["log.retention.ms"]


def test_the_cluster_is_described_by_what_was_set_for_it(layers: DynamicBrokerConfig) -> None:
    facts = describe_cluster(layers)
    assert {(each.name, each.value, each.source) for each in facts} == {
        ("log.retention.ms", "777", CLUSTER),
        ("message.max.bytes", "1000", CLUSTER),
    }
    assert fact(facts, "message.max.bytes").synonyms == (("message.max.bytes", "1000", CLUSTER),)


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
                ("log.flush.interval.ms", "99", OWN),
                ("log.flush.scheduler.interval.ms", "9223372036854775807", DEFAULT),
            ],
        ),
        (
            "max.message.bytes",
            "2000",
            [
                ("message.max.bytes", "2000", OWN),
                ("message.max.bytes", "1000", CLUSTER),
                ("message.max.bytes", "1048588", DEFAULT),
            ],
        ),
        ("min.cleanable.dirty.ratio", "0.5", [("log.cleaner.min.cleanable.ratio", "0.5", DEFAULT)]),
    ],
)
def test_a_topic_is_described_as_kafka_does(
    layers: DynamicBrokerConfig, name: str, value: str, synonyms: list[tuple[str, str, ConfigSource]]
) -> None:
    found = fact(describe_topic(layers, {"retention.ms": "42", "message.format.version": "2.0"}), name)
    assert (found.value, list(found.synonyms)) == (value, synonyms)
    assert found.source == (synonyms[0][2] if synonyms else DEFAULT)


def test_topics_follow_the_broker_and_their_own_overrides(layers: DynamicBrokerConfig) -> None:
    own = layers.topic_settings({"retention.ms": "42"})
    assert own[topic.RETENTION_MS] == 42
    assert own[topic.MAX_MESSAGE_BYTES] == 2000
    assert own[topic.CLEANUP_POLICY] == ("compact", "delete")
    assert layers.topic_settings({})[topic.RETENTION_MS] == 777


def test_topic_settings_are_kept_until_a_layer_changes(layers: DynamicBrokerConfig) -> None:
    before = layers.topic_settings({"retention.ms": "42"})
    assert layers.topic_settings({"retention.ms": "42"}) is before
    version = layers.version
    layers.set_broker_overrides({})
    assert layers.version > version
    after = layers.topic_settings({"retention.ms": "42"})
    assert after[topic.MAX_MESSAGE_BYTES] == 1000


def test_the_number_of_kept_topic_settings_is_bounded() -> None:
    layers = DynamicBrokerConfig({})
    for number in range(3000):
        layers.topic_settings({"retention.ms": str(number)})
    assert len(layers._topics) <= 1024


def test_overrides_that_cannot_be_used_are_passed_over_and_told() -> None:
    layers = DynamicBrokerConfig({})
    problems = layers.set_cluster_overrides(
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
    assert layers.cluster_overrides == {"log.retention.ms": "9"}
    assert layers.broker[broker.LOG_RETENTION_MS] == 9


def test_layers_that_contradict_each_other_leave_the_values_there_were() -> None:
    layers = DynamicBrokerConfig({})
    assert layers.set_cluster_overrides({"log.retention.ms": "0"}) != []
    assert layers.broker[broker.LOG_RETENTION_MS] is None


def test_bad_topic_overrides_are_passed_over_and_told() -> None:
    overrides = {"retention.ms": "x", "no.such": "1", "segment.bytes": "100"}
    settings = DynamicBrokerConfig({}).topic_settings(overrides)
    assert settings[topic.SEGMENT_BYTES] == 100
    assert settings[topic.RETENTION_MS] == topic.RETENTION_MS.default
    assert len(topic_problems(overrides)) == 2


def test_throttles_exist_once_they_are_set() -> None:
    layers = DynamicBrokerConfig({})
    name = "leader.replication.throttled.rate"
    assert name not in {each.name for each in describe_broker(layers)}
    assert layers.set_broker_overrides({name: "1000"}) == []
    assert layers.throttles[LEADER_REPLICATION_THROTTLED_RATE] == 1000
    assert fact(describe_broker(layers), name).value == "1000"


def test_an_id_handed_out_is_entered() -> None:
    layers = DynamicBrokerConfig({})
    layers.set_broker_id(1001)
    assert layers.broker[broker.BROKER_ID] == 1001
    assert fact(describe_broker(layers), "node.id").value == "1001"
    assert layers.set_broker_overrides({"message.max.bytes": "1"}) == []


def test_static_texts_that_are_no_values_are_refused() -> None:
    with pytest.raises(ConfigError):
        DynamicBrokerConfig({"num.partitions": "0"})
