"""Options of metrics. ``metrics()`` of a client returns all metrics, whatever is set here."""

from __future__ import annotations

from odradek.config.types import LOW, boolean, choice, declared, int32, int64, string_list

METRICS_NUM_SAMPLES = int32(
    "metrics.num.samples", 2, LOW, "Number of samples of a rate.", at_least=1, inert=True
)

METRICS_SAMPLE_WINDOW_MS = int64(
    "metrics.sample.window.ms", 30_000, LOW, "Length of a sample.", at_least=0, inert=True
)

METRICS_RECORDING_LEVEL = choice(
    "metrics.recording.level",
    "INFO",
    LOW,
    "Recording level of metrics.",
    among=("INFO", "DEBUG", "TRACE"),
    inert=True,
)

METRIC_REPORTERS = string_list(
    "metric.reporters", (), LOW, "Java metrics reporter classes; none are loaded.", inert=True
)

AUTO_INCLUDE_JMX_REPORTER = boolean(
    "auto.include.jmx.reporter",
    True,
    LOW,
    "Whether metrics are reported to JMX, which exists only in Java.",
    inert=True,
)

ENABLE_METRICS_PUSH = boolean(
    "enable.metrics.push",
    True,
    LOW,
    "Whether metrics are pushed to brokers that request them. Not supported.",
    inert=True,
)

METRICS_SETTINGS = declared(globals())
