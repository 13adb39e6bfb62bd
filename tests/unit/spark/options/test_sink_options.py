"""Options of the sink: read as Spark hands them over, refused before anything is sent."""

from __future__ import annotations

import pickle

import pytest

from odradek.model.errors import ConfigError
from odradek.spark.options.sink_options import Guarantee, MissingMarkers, SinkOptions, read_sink_options

BROKERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def read(is_streaming: bool = True, **given: str) -> SinkOptions:
    return read_sink_options({**BROKERS, **given}, is_streaming=is_streaming)


def problems(is_streaming: bool = True, **given: str) -> str:
    with pytest.raises(ConfigError) as refused:
        read(is_streaming, **given)
    return str(refused.value)


def test_without_a_word_rows_are_written_at_least_once() -> None:
    options = read(topic="t")
    assert options.guarantee is Guarantee.AT_LEAST_ONCE
    assert options.topic == "t"
    assert "transaction.timeout.ms" not in options.producer_settings


def test_options_reach_the_task_as_they_were_read() -> None:
    options = read(topic="t", guarantee="exactly_once")
    assert pickle.loads(pickle.dumps(options)) == options


def test_names_are_known_in_any_case() -> None:
    options = read(markerTopic="m", transactionalidprefix="p", GUARANTEE="Exactly-Once")
    assert (options.marker_topic, options.transactional_id_prefix) == ("m", "p")
    assert options.guarantee is Guarantee.EXACTLY_ONCE


def test_options_of_the_client_lose_their_prefix_and_win_over_what_the_sink_would_choose() -> None:
    options = read(
        guarantee="exactly_once", **{"kafka.linger.ms": "7", "kafka.transaction.timeout.ms": "1000"}
    )
    assert options.producer_settings["linger.ms"] == "7"
    assert options.producer_settings["transaction.timeout.ms"] == "1000"


def test_a_transaction_may_take_ten_minutes_unless_it_is_told_otherwise() -> None:
    assert read(guarantee="exactly_once").producer_settings["transaction.timeout.ms"] == "600000"


def test_the_admin_client_is_given_only_what_it_knows() -> None:
    options = read(**{"kafka.linger.ms": "7", "kafka.request.timeout.ms": "5000"})
    assert options.admin_settings == {"bootstrap.servers": "127.0.0.1:9092", "request.timeout.ms": "5000"}


def test_what_is_no_option_of_our_client_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    options = read(**{"kafka.of.a.client.nobody.knows": "7"})
    assert "of.a.client.nobody.knows" not in options.producer_settings
    assert "kafka.of.a.client.nobody.knows" in caplog.text


def test_options_of_spark_itself_are_none_of_our_business() -> None:
    assert read(topic="t", checkpointLocation="/x", path="/y", queryName="q", includeHeaders="true")


@pytest.mark.parametrize(
    ("given", "right"), [("topics", "topic"), ("garantee", "guarantee"), ("markertopics", "markerTopic")]
)
def test_a_slip_of_the_pen_is_told_the_right_name(given: str, right: str) -> None:
    assert f"did you mean {right}?" in problems(**{given: "x"})


def test_an_option_of_the_client_without_its_prefix_is_told_it() -> None:
    assert "say kafka.linger.ms" in problems(**{"linger.ms": "5"})


def test_a_guarantee_nobody_gives_is_refused_with_those_there_are() -> None:
    assert "at_least_once or exactly_once, not 'at_most_once'" in problems(guarantee="at_most_once")


@pytest.mark.parametrize("name", ["key.serializer", "value.serializer", "transactional.id"])
def test_what_the_sink_decides_cannot_be_given(name: str) -> None:
    assert f"kafka.{name} cannot be given" in problems(**{f"kafka.{name}": "x"})


def test_exactly_once_needs_all_acknowledgements_and_idempotence() -> None:
    assert "needs kafka.acks=all" in problems(guarantee="exactly_once", **{"kafka.acks": "1"})
    words = problems(guarantee="exactly_once", **{"kafka.enable.idempotence": "false"})
    assert "needs kafka.enable.idempotence=true" in words


def test_a_batch_write_needs_an_identity_to_be_written_once_and_a_query_has_its_own() -> None:
    assert "needs the option sinkId" in problems(is_streaming=False, guarantee="exactly_once")
    assert read(is_streaming=False, guarantee="exactly_once", sinkId="july").sink_id == "july"
    assert "sinkId is for batch writes" in problems(guarantee="exactly_once", sinkId="july")


def test_everything_that_is_wrong_is_told_at_once() -> None:
    words = problems(guarantee="maybe", topics="t", **{"kafka.linger.ms": "soon"})
    assert all(part in words for part in ("guarantee is", "did you mean topic?", "linger.ms"))


def test_missing_brokers_are_missed_under_the_name_the_user_has_to_give() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap.servers"):
        read_sink_options({"topic": "t"}, is_streaming=True)


def test_what_is_done_without_markers_is_fail_or_write() -> None:
    assert read().missing_markers is MissingMarkers.FAIL
    assert read(missingMarkers="write").missing_markers is MissingMarkers.WRITE
    assert "missingMarkers must be fail or write, got 'skip'" in problems(missingMarkers="skip")
