"""Options of the topic sink: parsing and validation errors."""

from __future__ import annotations

import pickle

import pytest

from odradek.model.errors import ConfigError
from odradek.spark.options.sink_options import Guarantee, MissingMarkers, SinkOptions, read_sink_options

BROKERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def read(is_streaming: bool = True, /, **options: str) -> SinkOptions:
    return read_sink_options({**BROKERS, **options}, is_streaming=is_streaming)


def problems(is_streaming: bool = True, /, **options: str) -> str:
    with pytest.raises(ConfigError) as raised:
        read(is_streaming, **options)
    return str(raised.value)


def test_default_guarantee_is_at_least_once() -> None:
    options = read(topic="t")
    assert options.guarantee is Guarantee.AT_LEAST_ONCE
    assert options.topic == "t"
    assert "transaction.timeout.ms" not in options.producer_settings


def test_sink_options_pickle() -> None:
    options = read(topic="t", guarantee="exactly_once")
    assert pickle.loads(pickle.dumps(options)) == options


def test_sink_option_names_are_case_insensitive() -> None:
    options = read(markerTopic="m", transactionalidprefix="p", GUARANTEE="Exactly-Once")
    assert (options.marker_topic, options.transactional_id_prefix) == ("m", "p")
    assert options.guarantee is Guarantee.EXACTLY_ONCE


def test_client_options_override_defaults_of_the_sink() -> None:
    options = read(
        guarantee="exactly_once", **{"kafka.linger.ms": "7", "kafka.transaction.timeout.ms": "1000"}
    )
    assert options.producer_settings["linger.ms"] == "7"
    assert options.producer_settings["transaction.timeout.ms"] == "1000"


def test_default_transaction_timeout_is_ten_minutes() -> None:
    assert read(guarantee="exactly_once").producer_settings["transaction.timeout.ms"] == "600000"


def test_admin_settings_are_those_an_admin_client_supports() -> None:
    options = read(**{"kafka.linger.ms": "7", "kafka.request.timeout.ms": "5000"})
    assert options.admin_settings == {"bootstrap.servers": "127.0.0.1:9092", "request.timeout.ms": "5000"}


def test_unknown_client_option_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    options = read(**{"kafka.of.a.client.nobody.knows": "7"})
    assert "of.a.client.nobody.knows" not in options.producer_settings
    assert "kafka.of.a.client.nobody.knows" in caplog.text


def test_options_of_spark_itself_are_accepted() -> None:
    assert read(topic="t", checkpointLocation="/x", path="/y", queryName="q", includeHeaders="true")


@pytest.mark.parametrize(
    ("misspelt", "right"), [("topics", "topic"), ("garantee", "guarantee"), ("markertopics", "markerTopic")]
)
def test_misspelt_option_suggests_the_right_name(misspelt: str, right: str) -> None:
    assert f"did you mean {right}?" in problems(**{misspelt: "x"})


def test_client_option_without_prefix_is_rejected() -> None:
    assert "as in kafka.linger.ms" in problems(**{"linger.ms": "5"})


def test_unknown_guarantee_is_rejected() -> None:
    assert "at_least_once or exactly_once, got 'at_most_once'" in problems(guarantee="at_most_once")


@pytest.mark.parametrize("name", ["key.serializer", "value.serializer", "transactional.id"])
def test_settings_fixed_by_the_sink_are_rejected(name: str) -> None:
    assert f"kafka.{name} cannot be set" in problems(**{f"kafka.{name}": "x"})


def test_exactly_once_requires_acks_all_and_idempotence() -> None:
    assert "requires kafka.acks=all" in problems(guarantee="exactly_once", **{"kafka.acks": "1"})
    error = problems(guarantee="exactly_once", **{"kafka.enable.idempotence": "false"})
    assert "requires kafka.enable.idempotence=true" in error


def test_exactly_once_batch_write_requires_a_sink_id() -> None:
    assert "requires the option sinkId" in problems(False, guarantee="exactly_once")
    assert read(False, guarantee="exactly_once", sinkId="july").sink_id == "july"
    assert "sinkId is for batch writes" in problems(guarantee="exactly_once", sinkId="july")


def test_everything_that_is_wrong_is_told_at_once() -> None:
    error = problems(guarantee="maybe", topics="t", **{"kafka.linger.ms": "soon"})
    assert all(part in error for part in ("guarantee must be", "did you mean topic?", "linger.ms"))


def test_sink_requires_bootstrap_servers() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap.servers"):
        read_sink_options({"topic": "t"}, is_streaming=True)


def test_missing_markers_is_fail_or_write() -> None:
    assert read().missing_markers is MissingMarkers.FAIL
    assert read(missingMarkers="write").missing_markers is MissingMarkers.WRITE
    assert "missingMarkers must be fail or write, got 'skip'" in problems(missingMarkers="skip")
