"""Options of metrics. ``metrics()`` of a client gives all of them, whatever is set here."""

from __future__ import annotations

from odradek.config.types import LOW, boolean, choice, declared, int32, int64, words

METRICS_NUM_SAMPLES = int32("metrics.num.samples", 2, LOW, "Samples kept for a rate.", at_least=1, inert=True)

METRICS_SAMPLE_WINDOW_MS = int64(
    "metrics.sample.window.ms", 30_000, LOW, "Time that a sample covers.", at_least=0, inert=True
)

METRICS_RECORDING_LEVEL = choice(
    "metrics.recording.level",
    "INFO",
    LOW,
    "How detailed metrics are.",
    among=("INFO", "DEBUG", "TRACE"),
    inert=True,
)

METRIC_REPORTERS = words(
    "metric.reporters", (), LOW, "Java classes that are told of metrics; none is loaded.", inert=True
)

AUTO_INCLUDE_JMX_REPORTER = boolean(
    "auto.include.jmx.reporter", True, LOW, "Whether metrics are shown by JMX, which Java has.", inert=True
)

ENABLE_METRICS_PUSH = boolean(
    "enable.metrics.push",
    True,
    LOW,
    "Whether a broker that asks for metrics of its clients is sent them. Never done here.",
    inert=True,
)

METRICS_SETTINGS = declared(globals())
