"""What is said of topics that a pipeline shall write to and that are not there."""

from __future__ import annotations

from tests.unit.pipelines.pipeline_spec import spec_of

from odradek.pipelines.query.topic_checks import refusal, source_refusal, written_topics

DEAD = '[dead_letter]\ntopic = "dead"'
TOPIC = 'type = "topic"\ntopic = "out"'


def test_topics_of_the_sink_and_of_dead_letters_are_written_to() -> None:
    assert written_topics(spec_of()) == {}
    assert written_topics(spec_of(sink=TOPIC)) == {"[sink] topic": "out"}


def test_topics_that_are_there_are_not_spoken_of() -> None:
    assert refusal(spec_of(sink=TOPIC), ["in", "out"]) is None
    assert refusal(spec_of(), []) is None


def test_a_source_topic_that_is_missing_is_named_with_what_to_do() -> None:
    assert source_refusal(spec_of(), ["t"]) is None
    words = source_refusal(spec_of('brokers = "b:1"\ntopics = ["t", "u", "v"]'), ["u"])
    assert words == (
        "topics t and v ([source] topics) do not exist on b:1: create them with odradek topics create t v "
        "-b b:1, or correct the names"
    )
    assigned = source_refusal(spec_of('brokers = "b:1"\nassign = { t = [0] }'), [])
    assert assigned is not None
    assert assigned.startswith("topic t ([source] assign) does not exist on b:1: create it with")
    table = spec_of('type = "table"\npath = "lake"')
    assert source_refusal(table, []) is None
    assert source_refusal(spec_of('brokers = "b:1"\npattern = "t.*"'), []) is None


def test_each_topic_that_is_missing_is_named_with_its_key_and_what_to_do() -> None:
    words = refusal(spec_of(sink=TOPIC), ["in"])
    assert words is not None
    assert words.startswith("topic out ([sink] topic) does not exist on 127.0.0.1:9092")
    assert "odradek topics create out" in words
    source = 'brokers = "127.0.0.1:9092"\ntopics = ["t"]\nvalue = { format = "json", schema = "id bigint" }'
    both = refusal(spec_of(source, TOPIC, DEAD), [])
    assert both is not None
    assert both.startswith("topic out ([sink] topic) and topic dead ([dead_letter] topic) do not exist")
