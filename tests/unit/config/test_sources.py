"""Sources of the static configuration."""

import pytest

from odradek.config import broker, derived, profiles
from odradek.config.sources import load, parse_variables, variable_name
from odradek.model.errors import ConfigError

ALLOW_ANONYMOUS = "odradek.allow.anonymous=true"


def test_serve_profile_is_used_without_a_file() -> None:
    loaded = load(None, {}, [])
    assert loaded.raw_values == profiles.values(profiles.SERVE)
    assert loaded.settings[broker.LISTENERS] == "PLAINTEXT://127.0.0.1:9092"
    assert loaded.warnings == ()


def test_arguments_override_the_profile() -> None:
    loaded = load(None, {}, ["num.partitions=3"])
    assert loaded.settings[broker.NUM_PARTITIONS] == 3
    assert loaded.settings[broker.OFFSETS_TOPIC_REPLICATION_FACTOR] == 1


def test_file_replaces_the_profile() -> None:
    loaded = load("listeners=PLAINTEXT://127.0.0.1:1", {}, [])
    assert loaded.settings[broker.OFFSETS_TOPIC_REPLICATION_FACTOR] == 3
    assert loaded.settings[broker.LOG_DIRS] is None


def test_later_source_wins() -> None:
    file = "listeners=PLAINTEXT://127.0.0.1:1\nnum.partitions=1\nnum.replica.fetchers=1\nfetch.max.bytes=2000"
    variables = {"ODRADEK_NUM_REPLICA_FETCHERS": "2", "ODRADEK_FETCH_MAX_BYTES": "3000"}
    settings = load(file, variables, ["fetch.max.bytes=4000"]).settings
    assert settings[broker.NUM_PARTITIONS] == 1
    assert settings[broker.NUM_REPLICA_FETCHERS] == 2
    assert settings[broker.FETCH_MAX_BYTES] == 4000


def test_later_source_overrides_synonyms() -> None:
    settings = load("log.retention.ms=5\n" + ALLOW_ANONYMOUS, {}, ["log.retention.hours=24"]).settings
    assert derived.retention_ms(settings) == 24 * 3_600_000
    assert derived.log_dirs(load(None, {}, ["log.dir=/data"]).settings) == ("/data",)
    assert derived.broker_id(load(None, {}, ["node.id=7"]).settings) == 7


def test_finer_unit_wins_within_one_source() -> None:
    settings = load("log.retention.ms=5\nlog.retention.hours=9\n" + ALLOW_ANONYMOUS, {}, []).settings
    assert derived.retention_ms(settings) == 5


def test_unknown_names_cause_a_warning_with_the_nearest_name() -> None:
    loaded = load(None, {}, ["log.retention.hour=1", "zzzzzz=1"])
    assert loaded.warnings == (
        "log.retention.hour: unknown setting; did you mean log.retention.hours?",
        "zzzzzz: unknown setting",
    )
    assert loaded.raw_values["zzzzzz"] == "1"


def test_warning_for_a_topic_setting_names_the_broker_setting() -> None:
    assert load(None, {}, ["retention.ms=1"]).warnings == (
        "retention.ms: unknown setting; for all topics it is called log.retention.ms",
    )


def test_listener_prefixes_and_plugin_names_cause_no_warning() -> None:
    arguments = [
        "listener.name.lan.max.connections=5",
        "listener.name.lan.gssapi.sasl.kerberos.service.name=x",
        "rsm.config.anything=1",
    ]
    assert load(None, {}, arguments).warnings == ()
    assert len(load(None, {}, ["listener.name.lan.no.such=1"]).warnings) == 1


def test_problems_of_all_sources_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        load("a=\\u1\n", {"ODRADEK_NUM_PARTITIONS": "0"}, ["fetch.max.bytes=x", "nonsense", "=1"])
    assert len(error.value.problems) == 5
    text = "\n".join(error.value.problems)
    assert "line 1" in text
    assert "num.partitions must be at least 1, got 0" in text
    assert "fetch.max.bytes must be an integer of 32 bits, got x" in text
    assert "--set must be name=value, got 'nonsense'" in text


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("log.retention.hours", "ODRADEK_LOG_RETENTION_HOURS"),
        ("odradek.allow.anonymous", "ODRADEK_ALLOW_ANONYMOUS"),
        ("zookeeper.clientCnxnSocket", "ODRADEK_ZOOKEEPER_CLIENTCNXNSOCKET"),
    ],
)
def test_variables_are_named_after_settings(name: str, variable: str) -> None:
    assert variable_name(name) == variable
    assert parse_variables({variable: "1"}) == ({name: "1"}, [])


def test_variable_names_are_distinct() -> None:
    assert len({variable_name(name) for name in broker.BY_NAME}) == len(broker.BY_NAME)


def test_variables_may_have_a_listener_prefix() -> None:
    values, unknown = parse_variables({"ODRADEK_LISTENER_NAME_MY_LAN_SSL_CLIENT_AUTH": "required"})
    assert values == {"listener.name.my_lan.ssl.client.auth": "required"}
    assert unknown == []


def test_unknown_variables_cause_a_warning() -> None:
    values, unknown = parse_variables({"HOME": "/", "ODRADEK_PURE": "1", "ODRADEK_NUM_PARTITION": "1"})
    assert values == {}
    assert unknown == ["ODRADEK_NUM_PARTITION: unknown setting; did you mean ODRADEK_NUM_PARTITIONS?"]


def test_anonymous_access_must_be_allowed_explicitly() -> None:
    with pytest.raises(ConfigError) as error:
        load("num.partitions=1", {}, [])
    assert "PLAINTEXT://:9092" in error.value.problems[0]
    assert "odradek.allow.anonymous=true" in error.value.problems[0]
    load("num.partitions=1", {}, [ALLOW_ANONYMOUS])


def test_every_profile_setting_differs_from_the_default_and_has_a_reason() -> None:
    for setting, value, reason in profiles.SERVE:
        assert setting.parse_value(value) != setting.default
        assert reason.endswith(".")


def test_variables_of_the_clients_and_of_logging_are_known() -> None:
    values, unknown = parse_variables({"ODRADEK_BOOTSTRAP": "h:1", "ODRADEK_LOG_LEVEL": "info"})
    assert (values, unknown) == ({"odradek.log.level": "info"}, [])


def test_listening_on_all_interfaces_reports_both_problems_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        load(None, {}, ["listeners=PLAINTEXT://0.0.0.0:9092"])
    anonymous, advertised = error.value.problems
    assert "odradek.allow.anonymous=true" in anonymous
    assert "127.0.0.1" in anonymous
    assert "advertised.listeners=PLAINTEXT://HOST:9092" in advertised
    load(
        None,
        {},
        ["listeners=PLAINTEXT://0.0.0.0:9092", "advertised.listeners=PLAINTEXT://h:9092", ALLOW_ANONYMOUS],
    )


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_only_listener_must_be_the_one_between_brokers(protocol: str) -> None:
    listeners = [f"listeners={protocol}://127.0.0.1:9093"]
    with pytest.raises(ConfigError) as error:
        load(None, {}, listeners)
    (problem,) = error.value.problems
    assert problem.startswith("inter.broker.listener.name must be a listener name")
    loaded = load(None, {}, [*listeners, f"security.inter.broker.protocol={protocol}"])
    assert loaded.settings[broker.SECURITY_INTER_BROKER_PROTOCOL] == protocol


def test_unavailable_setting_is_reported_with_other_problems() -> None:
    with pytest.raises(ConfigError) as error:
        load(None, {}, ["zookeeper.ssl.crl.enable=true", "log.roll.ms=0"])
    assert len(error.value.problems) == 2
