"""What is said of topics that a pipeline shall write to and that are not there."""

from __future__ import annotations

from tests.unit.pipelines.pipeline_spec import spec_of

from odradek.pipelines.sink_topics import refusal, written_topics

DEAD = '[dead_letter]\ntopic = "dead"'
TOPIC = 'type = "topic"\ntopic = "out"'


def test_topics_of_the_sink_and_of_dead_letters_are_written_to() -> None:
    assert written_topics(spec_of()) == {}
    assert written_topics(spec_of(sink=TOPIC)) == {"[sink] topic": "out"}


def test_topics_that_are_there_are_not_spoken_of() -> None:
    assert refusal(spec_of(sink=TOPIC), ["in", "out"]) is None
    assert refusal(spec_of(), []) is None


def test_each_topic_that_is_missing_is_named_with_its_key_and_what_to_do() -> None:
    words = refusal(spec_of(sink=TOPIC), ["in"])
    assert words is not None
    assert words.startswith("topic out ([sink] topic) does not exist on 127.0.0.1:9092")
    assert "odradek topics create out" in words
    source = 'brokers = "127.0.0.1:9092"\ntopics = ["t"]\nvalue = { format = "json", schema = "id bigint" }'
    both = refusal(spec_of(source, TOPIC, DEAD), [])
    assert both is not None
    assert both.startswith("topic out ([sink] topic) and topic dead ([dead_letter] topic) do not exist")
