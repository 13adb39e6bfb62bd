"""Quotas and the measuring of rates."""

from __future__ import annotations

from odradek.config.broker.unavailable_reasons import NO_QUOTAS
from odradek.config.types import (
    CLUSTER_WIDE,
    LOW,
    MIB,
    boolean,
    class_name,
    declared,
    int32,
    int64,
    text,
    words,
)

QUOTA_WINDOW_NUM = int32(
    "quota.window.num", 11, LOW, "Samples kept to measure a client's rate.", at_least=1, inert=True
)

QUOTA_WINDOW_SIZE_SECONDS = int32(
    "quota.window.size.seconds", 1, LOW, "Length of one such sample.", at_least=1, inert=True
)

REPLICATION_QUOTA_WINDOW_NUM = int32(
    "replication.quota.window.num",
    11,
    LOW,
    "Samples kept to measure throttled replication.",
    at_least=1,
    inert=True,
)

REPLICATION_QUOTA_WINDOW_SIZE_SECONDS = int32(
    "replication.quota.window.size.seconds", 1, LOW, "Length of one such sample.", at_least=1, inert=True
)

ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_NUM = int32(
    "alter.log.dirs.replication.quota.window.num",
    11,
    LOW,
    "Samples kept to measure moves between directories.",
    at_least=1,
    inert=True,
)

ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_SIZE_SECONDS = int32(
    "alter.log.dirs.replication.quota.window.size.seconds",
    1,
    LOW,
    "Length of one such sample.",
    at_least=1,
    inert=True,
)

CONTROLLER_QUOTA_WINDOW_NUM = int32(
    "controller.quota.window.num",
    11,
    LOW,
    "Samples kept to measure topic and partition changes.",
    at_least=1,
    inert=True,
)

CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS = int32(
    "controller.quota.window.size.seconds", 1, LOW, "Length of one such sample.", at_least=1, inert=True
)

CLIENT_QUOTA_CALLBACK_CLASS = class_name(
    "client.quota.callback.class",
    None,
    LOW,
    "Class that decides quotas. Classes are not loaded from configuration.",
    refused=NO_QUOTAS,
)

METRICS_NUM_SAMPLES = int32(
    "metrics.num.samples", 2, LOW, "Samples of the JVM metrics library.", at_least=1, inert=True
)

METRICS_SAMPLE_WINDOW_MS = int64(
    "metrics.sample.window.ms",
    30_000,
    LOW,
    "Sample length of the JVM metrics library.",
    at_least=1,
    inert=True,
)

METRIC_REPORTERS = words(
    "metric.reporters",
    (),
    LOW,
    "Reporter classes of the JVM metrics library.",
    dynamic=CLUSTER_WIDE,
    inert=True,
)

METRICS_RECORDING_LEVEL = text(
    "metrics.recording.level", "INFO", LOW, "Which sensors of the JVM metrics library record.", inert=True
)

AUTO_INCLUDE_JMX_REPORTER = boolean(
    "auto.include.jmx.reporter", True, LOW, "Whether metrics go to JMX, which is not here.", inert=True
)

KAFKA_METRICS_REPORTERS = words(
    "kafka.metrics.reporters", (), LOW, "Reporter classes of the older JVM metrics library.", inert=True
)

KAFKA_METRICS_POLLING_INTERVAL_SECS = int32(
    "kafka.metrics.polling.interval.secs", 10, LOW, "How often those reporters poll.", at_least=1, inert=True
)

TELEMETRY_MAX_BYTES = int32(
    "telemetry.max.bytes",
    MIB,
    LOW,
    "Largest push of client metrics, a KRaft-only feature.",
    at_least=1,
    inert=True,
)

QUOTAS_SETTINGS = declared(globals())
