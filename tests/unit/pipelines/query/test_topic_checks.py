"""Errors for missing topics of a pipeline."""

from __future__ import annotations

from tests.unit.pipelines.pipeline_spec import spec_of

from odradek.pipelines.query.topic_checks import missing_sink_topics, missing_source_topics, written_topics

DEAD = '[dead_letter]\ntopic = "dead"'
TOPIC = 'type = "topic"\ntopic = "out"'


def test_written_topics() -> None:
    assert written_topics(spec_of()) == {}
    assert written_topics(spec_of(sink=TOPIC)) == {"[sink] topic": "out"}


def test_existing_topics_give_no_error() -> None:
    assert missing_sink_topics(spec_of(sink=TOPIC), ["in", "out"]) is None
    assert missing_sink_topics(spec_of(), []) is None


def test_missing_source_topics_are_reported_with_advice() -> None:
    assert missing_source_topics(spec_of(), ["t"]) is None
    error = missing_source_topics(spec_of('brokers = "b:1"\ntopics = ["t", "u", "v"]'), ["u"])
    assert error == (
        "topics t and v ([source] topics) do not exist on b:1: create them with odradek topics create t v "
        "-b b:1, or correct the names"
    )
    assigned = missing_source_topics(spec_of('brokers = "b:1"\nassign = { t = [0] }'), [])
    assert assigned is not None
    assert assigned.startswith("topic t ([source] assign) does not exist on b:1: create it with")
    table = spec_of('type = "table"\npath = "lake"')
    assert missing_source_topics(table, []) is None
    assert missing_source_topics(spec_of('brokers = "b:1"\npattern = "t.*"'), []) is None


def test_missing_sink_topics_are_reported_with_key_and_advice() -> None:
    error = missing_sink_topics(spec_of(sink=TOPIC), ["in"])
    assert error is not None
    assert error.startswith("topic out ([sink] topic) does not exist on 127.0.0.1:9092")
    assert "odradek topics create out" in error
    source = 'brokers = "127.0.0.1:9092"\ntopics = ["t"]\nvalue = { format = "json", schema = "id bigint" }'
    both = missing_sink_topics(spec_of(source, TOPIC, DEAD), [])
    assert both is not None
    assert both.startswith("topic out ([sink] topic) and topic dead ([dead_letter] topic) do not exist")
