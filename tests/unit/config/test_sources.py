import pytest

from odradek.config import broker, derived, profiles
from odradek.config.sources import load, read_variables, variable_name
from odradek.model.errors import ConfigError

OPEN = "odradek.allow.anonymous=true"


def test_without_a_file_the_serve_profile_is_used() -> None:
    loaded = load(None, {}, [])
    assert loaded.given == profiles.values(profiles.SERVE)
    assert loaded.settings[broker.LISTENERS] == "PLAINTEXT://127.0.0.1:9092"
    assert loaded.warnings == ()


def test_arguments_alone_keep_the_profile() -> None:
    loaded = load(None, {}, ["num.partitions=3"])
    assert loaded.settings[broker.NUM_PARTITIONS] == 3
    assert loaded.settings[broker.OFFSETS_TOPIC_REPLICATION_FACTOR] == 1


def test_a_file_replaces_the_profile() -> None:
    loaded = load("listeners=PLAINTEXT://127.0.0.1:1", {}, [])
    assert loaded.settings[broker.OFFSETS_TOPIC_REPLICATION_FACTOR] == 3
    assert loaded.settings[broker.LOG_DIRS] is None


def test_the_later_source_wins() -> None:
    file = "listeners=PLAINTEXT://127.0.0.1:1\nnum.partitions=1\nnum.replica.fetchers=1\nfetch.max.bytes=2000"
    variables = {"ODRADEK_NUM_REPLICA_FETCHERS": "2", "ODRADEK_FETCH_MAX_BYTES": "3000"}
    settings = load(file, variables, ["fetch.max.bytes=4000"]).settings
    assert settings[broker.NUM_PARTITIONS] == 1
    assert settings[broker.NUM_REPLICA_FETCHERS] == 2
    assert settings[broker.FETCH_MAX_BYTES] == 4000


def test_a_later_source_wins_over_other_names_of_the_same_thing() -> None:
    settings = load("log.retention.ms=5\n" + OPEN, {}, ["log.retention.hours=24"]).settings
    assert derived.retention_ms(settings) == 24 * 3_600_000
    assert derived.log_dirs(load(None, {}, ["log.dir=/data"]).settings) == ("/data",)
    assert derived.broker_id(load(None, {}, ["node.id=7"]).settings) == 7


def test_within_one_source_the_finer_unit_wins() -> None:
    settings = load("log.retention.ms=5\nlog.retention.hours=9\n" + OPEN, {}, []).settings
    assert derived.retention_ms(settings) == 5


def test_unknown_names_warn_with_the_nearest_known_one() -> None:
    loaded = load(None, {}, ["log.retention.hour=1", "zzzzzz=1"])
    assert loaded.warnings == (
        "log.retention.hour: unknown setting; did you mean log.retention.hours?",
        "zzzzzz: unknown setting",
    )
    assert loaded.given["zzzzzz"] == "1"


def test_a_topic_setting_in_a_broker_file_is_pointed_to_its_broker_name() -> None:
    assert load(None, {}, ["retention.ms=1"]).warnings == (
        "retention.ms: unknown setting; for all topics it is called log.retention.ms",
    )


def test_names_with_a_listener_or_of_plugins_do_not_warn() -> None:
    given = [
        "listener.name.lan.max.connections=5",
        "listener.name.lan.gssapi.sasl.kerberos.service.name=x",
        "rsm.config.anything=1",
    ]
    assert load(None, {}, given).warnings == ()
    assert len(load(None, {}, ["listener.name.lan.no.such=1"]).warnings) == 1


def test_all_problems_of_all_sources_come_at_once() -> None:
    with pytest.raises(ConfigError) as bad:
        load("a=\\u1\n", {"ODRADEK_NUM_PARTITIONS": "0"}, ["fetch.max.bytes=x", "nonsense", "=1"])
    assert len(bad.value.problems) == 5
    text = "\n".join(bad.value.problems)
    assert "line 1" in text
    assert "Invalid value 0 for configuration num.partitions: Value must be at least 1" in text
    assert "Invalid value x for configuration fetch.max.bytes" in text
    assert "--set needs name=value, not 'nonsense'" in text


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
    assert read_variables({variable: "1"}) == ({name: "1"}, [])


def test_variable_names_are_distinct() -> None:
    assert len({variable_name(name) for name in broker.BY_NAME}) == len(broker.BY_NAME)


def test_variables_may_name_a_listener() -> None:
    values, unknown = read_variables({"ODRADEK_LISTENER_NAME_MY_LAN_SSL_CLIENT_AUTH": "required"})
    assert values == {"listener.name.my_lan.ssl.client.auth": "required"}
    assert unknown == []


def test_other_variables_are_left_alone_and_misspelt_ones_warn() -> None:
    values, unknown = read_variables({"HOME": "/", "ODRADEK_PURE": "1", "ODRADEK_NUM_PARTITION": "1"})
    assert values == {}
    assert unknown == ["ODRADEK_NUM_PARTITION: unknown setting; did you mean ODRADEK_NUM_PARTITIONS?"]


def test_serving_strangers_needs_an_explicit_word() -> None:
    with pytest.raises(ConfigError) as bad:
        load("num.partitions=1", {}, [])
    assert "PLAINTEXT://:9092" in bad.value.problems[0]
    assert "odradek.allow.anonymous=true" in bad.value.problems[0]
    load("num.partitions=1", {}, [OPEN])


def test_every_difference_of_the_profile_is_one_and_has_a_reason() -> None:
    for setting, value, reason in profiles.SERVE:
        assert setting.read(value) != setting.default
        assert reason.endswith(".")


def test_variables_of_the_clients_and_of_logging_are_known() -> None:
    values, unknown = read_variables({"ODRADEK_BOOTSTRAP": "h:1", "ODRADEK_LOG_LEVEL": "info"})
    assert (values, unknown) == ({"odradek.log.level": "info"}, [])


def test_listening_everywhere_names_both_remedies_at_once() -> None:
    with pytest.raises(ConfigError) as bad:
        load(None, {}, ["listeners=PLAINTEXT://0.0.0.0:9092"])
    exposed, advertised = bad.value.problems
    assert "odradek.allow.anonymous=true" in exposed
    assert "127.0.0.1" in exposed
    assert "advertised.listeners=PLAINTEXT://HOST:9092" in advertised
    load(None, {}, ["listeners=PLAINTEXT://0.0.0.0:9092", "advertised.listeners=PLAINTEXT://h:9092", OPEN])


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_a_protocol_that_is_not_available_is_refused_first_of_all_with_a_remedy(protocol: str) -> None:
    with pytest.raises(ConfigError) as bad:
        load(None, {}, [f"listeners={protocol}://127.0.0.1:9093"])
    (told,) = bad.value.problems
    assert told.startswith(f"listeners: {protocol}://127.0.0.1:9093: {protocol} is not available yet")
    assert "listeners=PLAINTEXT://127.0.0.1:9093" in told


def test_zookeeper_is_refused_with_the_other_problems() -> None:
    with pytest.raises(ConfigError) as bad:
        load(None, {}, ["zookeeper.connect=zk:2181", "log.roll.ms=0"])
    assert len(bad.value.problems) == 2
