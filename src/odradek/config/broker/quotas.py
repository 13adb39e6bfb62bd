"""Settings of quotas and metrics."""

from __future__ import annotations

from odradek.config.broker.unavailable_reasons import NO_CLASSES
from odradek.config.types import (
    CLUSTER_WIDE,
    LOW,
    MIB,
    boolean,
    class_name,
    declared,
    int32,
    int64,
    string,
    string_list,
)

QUOTA_WINDOW_NUM = int32("quota.window.num", 11, LOW, "Number of samples of a client quota.", at_least=1)

QUOTA_WINDOW_SIZE_SECONDS = int32(
    "quota.window.size.seconds", 1, LOW, "Length of a sample of a client quota.", at_least=1
)

REPLICATION_QUOTA_WINDOW_NUM = int32(
    "replication.quota.window.num",
    11,
    LOW,
    "Number of samples of a replication quota.",
    at_least=1,
)

REPLICATION_QUOTA_WINDOW_SIZE_SECONDS = int32(
    "replication.quota.window.size.seconds",
    1,
    LOW,
    "Length of a sample of a replication quota.",
    at_least=1,
)

ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_NUM = int32(
    "alter.log.dirs.replication.quota.window.num",
    11,
    LOW,
    "Number of samples of a quota on moves between log directories.",
    at_least=1,
    inert=True,
)

ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_SIZE_SECONDS = int32(
    "alter.log.dirs.replication.quota.window.size.seconds",
    1,
    LOW,
    "Length of a sample of a quota on moves between log directories.",
    at_least=1,
    inert=True,
)

CONTROLLER_QUOTA_WINDOW_NUM = int32(
    "controller.quota.window.num",
    11,
    LOW,
    "Number of samples of a quota on topic and partition changes.",
    at_least=1,
)

CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS = int32(
    "controller.quota.window.size.seconds",
    1,
    LOW,
    "Length of a sample of a quota on topic and partition changes.",
    at_least=1,
)

CLIENT_QUOTA_CALLBACK_CLASS = class_name(
    "client.quota.callback.class",
    None,
    LOW,
    "Class that computes quotas. Classes are not loaded from configuration: the built-in quotas are used.",
    unavailable=NO_CLASSES,
)

METRICS_NUM_SAMPLES = int32(
    "metrics.num.samples", 2, LOW, "Number of samples of the JVM metrics library.", at_least=1, inert=True
)

METRICS_SAMPLE_WINDOW_MS = int64(
    "metrics.sample.window.ms",
    30_000,
    LOW,
    "Sample length of the JVM metrics library.",
    at_least=1,
    inert=True,
)

METRIC_REPORTERS = string_list(
    "metric.reporters",
    (),
    LOW,
    "Reporter classes of the JVM metrics library.",
    dynamic=CLUSTER_WIDE,
    inert=True,
)

METRICS_RECORDING_LEVEL = string(
    "metrics.recording.level", "INFO", LOW, "Recording level of the JVM metrics library.", inert=True
)

AUTO_INCLUDE_JMX_REPORTER = boolean(
    "auto.include.jmx.reporter",
    True,
    LOW,
    "Whether metrics are reported to JMX, which Odradek does not have.",
    inert=True,
)

KAFKA_METRICS_REPORTERS = string_list(
    "kafka.metrics.reporters", (), LOW, "Reporter classes of the older JVM metrics library.", inert=True
)

KAFKA_METRICS_POLLING_INTERVAL_SECS = int32(
    "kafka.metrics.polling.interval.secs",
    10,
    LOW,
    "Polling interval of the older JVM metrics reporters.",
    at_least=1,
    inert=True,
)

TELEMETRY_MAX_BYTES = int32(
    "telemetry.max.bytes",
    MIB,
    LOW,
    "Maximum size of pushed client metrics, a KRaft-only feature.",
    at_least=1,
    inert=True,
)

QUOTAS_SETTINGS = declared(globals())
