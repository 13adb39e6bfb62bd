"""Settings of logs and of the log cleaner."""

import dataclasses

from odradek.config import broker, topic
from odradek.config.definition import Settings
from odradek.log.log_config import CleanerConfig, LogConfig
from odradek.model.protocol_enums import Compression, TimestampType


def test_defaults_equal_those_of_the_settings() -> None:
    defaults = Settings({setting: setting.default for setting in topic.TOPIC})
    assert LogConfig.of(defaults) == LogConfig()


def test_every_field_except_the_broker_setting_is_a_topic_setting() -> None:
    names = {setting.name.replace(".", "_") for setting in topic.TOPIC}
    assert {field.name for field in dataclasses.fields(LogConfig)} - names == {"decompressed_bytes_max"}


def test_deprecated_timestamp_limit_applies_if_the_newer_ones_are_not_set() -> None:
    values = {setting: setting.default for setting in topic.TOPIC}
    values[topic.MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS] = 5000
    config = LogConfig.of(Settings(values))
    assert (config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms) == (5000, 5000)


def test_decompression_limit_of_the_broker_applies() -> None:
    values = {setting: setting.default for setting in topic.TOPIC}
    assert LogConfig.of(Settings(values), 4711).append_rules().decompressed_bytes_max == 4711


def test_values_are_taken_from_the_settings() -> None:
    values = {setting: setting.default for setting in topic.TOPIC}
    values[topic.SEGMENT_BYTES] = 4711
    values[topic.CLEANUP_POLICY] = ("compact", "delete")
    config = LogConfig.of(Settings(values))
    assert config.segment_bytes == 4711
    assert config.is_compacted


def test_append_rules_follow_the_settings() -> None:
    rules = LogConfig().append_rules()
    assert (rules.timestamp_type, rules.compression, rules.compression_level) == (
        TimestampType.CREATE_TIME,
        None,
        None,
    )
    rules = LogConfig(
        message_timestamp_type="LogAppendTime",
        compression_type="zstd",
        compression_zstd_level=7,
        max_message_bytes=99,
        cleanup_policy=("compact",),
    ).append_rules()
    assert rules.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (rules.compression, rules.compression_level) == (Compression.ZSTD, 7)
    assert (rules.message_bytes_max, rules.compacted) == (99, True)
    assert LogConfig(compression_type="uncompressed").append_rules().compression is Compression.NONE
    assert LogConfig(compression_type="snappy").append_rules().compression_level is None


def test_cleaner_memory_is_divided_by_threads() -> None:
    for threads, share in ((0, 1), (1, 1), (3, 3)):
        config = CleanerConfig(threads=threads, map_bytes_all=9000, buffer_bytes_all=1 << 20)
        assert (config.map_bytes, config.window_bytes) == (9000 // share, (1 << 20) // share // 2)


def test_cleaner_config_is_taken_from_broker_settings() -> None:
    values = (False, 3, 7, 1000.0, 5000, 0.5, 600)
    names: tuple[str, ...] = (
        "ENABLE",
        "THREADS",
        "BACKOFF_MS",
        "IO_MAX_BYTES_PER_SECOND",
        "DEDUPE_BUFFER_SIZE",
    )
    names += ("IO_BUFFER_LOAD_FACTOR", "IO_BUFFER_SIZE")
    settings = [getattr(broker, f"LOG_CLEANER_{name}") for name in names]
    assert CleanerConfig.of(Settings(dict(zip(settings, values, strict=True)))) == CleanerConfig(*values)
