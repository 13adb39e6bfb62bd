"""What of a driver's words reaches the terminal."""

from __future__ import annotations

import pytest

from odradek.pipelines.run.driver_output import user_message


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", None),
        ("WARNING: Using incubator modules: jdk.incubator.vector", None),
        ("client.connection_lost broker=1", None),
        ("\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)", None),
        (
            'Exception in thread "main" org.apache.spark.SparkException: Master must be yarn or local',
            "Master must be yarn or local",
        ),
        ("a word of the user's", "a word of the user's"),
        ("Traceback (most recent call last):", "Traceback (most recent call last):"),
        (
            'spark.option_without_effect reason="kafka.foo is not known to the client and has no effect"',
            "kafka.foo is not known to the client and has no effect",
        ),
        ("spark.option_ignored option=kafka.foo reason=unknown", "kafka.foo has no effect: unknown"),
        (
            'spark.records_lost reason="t-0: \\"a\\" = 1 is gone" range="t-0 [0, 5)"',
            'records are lost: t-0: "a" = 1 is gone',
        ),
        ('spark.offset_fetch_retried reason="no \\u00f6" attempts_left=2', "no answer, trying again: no ö"),
        ("spark.records_lost because=why", "spark.records_lost because=why"),
    ],
)
def test_words_of_people_and_what_matters_of_events_are_shown(line: str, words: str | None) -> None:
    assert user_message(line) == words
