"""Filter of a driver's stderr."""

from __future__ import annotations

import pytest

from odradek.pipelines.run.driver_output import user_message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", None),
        ("WARNING: Using incubator modules: jdk.incubator.vector", None),
        ("client.connection_lost broker=1", None),
        ("\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)", None),
        (
            'Exception in thread "main" org.apache.spark.SparkException: Master must be yarn or local',
            "Master must be yarn or local",
        ),
        ("output of user code", "output of user code"),
        ("Traceback (most recent call last):", "Traceback (most recent call last):"),
        (
            'spark.option_without_effect reason="kafka.foo is unknown to the client and has no effect"',
            "kafka.foo is unknown to the client and has no effect",
        ),
        ("spark.option_ignored option=kafka.foo reason=unknown", "kafka.foo has no effect: unknown"),
        (
            'spark.records_lost reason="t-0: \\"a\\" = 1 is gone" range="t-0 [0, 5)"',
            'records are lost: t-0: "a" = 1 is gone',
        ),
        ('spark.offset_fetch_retried reason="no \\u00f6" attempts_left=2', "request failed, retrying: no ö"),
        ("spark.records_lost because=why", "spark.records_lost because=why"),
    ],
)
def test_user_message_filters_noise_and_formats_events(line: str, message: str | None) -> None:
    assert user_message(line) == message
