"""Settings of logs (from topic settings) and of the log cleaner (from broker settings)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from odradek.config import broker, derived, topic
from odradek.config.definition import AnySetting, Settings
from odradek.model.protocol_enums import Compression, TimestampType
from odradek.records.append_rules import AppendRules
from odradek.records.compression import DECOMPRESSED_BYTES_MAX

_DAY_MS: Final = 86_400_000
_LONG_MAX: Final = 2**63 - 1
_INT_MAX: Final = 2**31 - 1
_WINDOW_BYTES_MIN: Final = 64 << 10


CACHED_MAX: Final = 1_000
"""Configs that are kept. Most topics of a broker have the same one."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Topic settings by name, with Kafka's defaults; the last field is a broker setting."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _LONG_MAX
    flush_ms: int = _LONG_MAX
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1_048_588
    message_downconversion_enable: bool = True
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = _LONG_MAX
    message_timestamp_after_max_ms: int = _LONG_MAX
    retention_bytes: int = -1
    retention_ms: int = 7 * _DAY_MS
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 << 20
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * _DAY_MS
    delete_retention_ms: int = _DAY_MS
    max_compaction_lag_ms: int = _LONG_MAX
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX

    @classmethod
    @lru_cache(CACHED_MAX)
    def of(cls, settings: Settings, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> LogConfig:
        """Build from the settings of a topic. Logs with the same settings share one object."""
        values = {field: settings[setting] for field, setting in _SETTINGS.items()}
        values["message_timestamp_before_max_ms"] = derived.topic_timestamp_before_max_ms(settings)
        values["message_timestamp_after_max_ms"] = derived.topic_timestamp_after_max_ms(settings)
        return cls(**values, decompressed_bytes_max=decompressed_bytes_max)

    @property
    def deletes_by_time(self) -> bool:
        """True if segments are deleted by age."""
        return "delete" in self.cleanup_policy and self.retention_ms >= 0

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @lru_cache(CACHED_MAX)  # noqa: B019 - a config is a value
    def append_rules(self) -> AppendRules:
        """Return the rules that a leader validates produced batches against."""
        codec = derived.CODECS.get(self.compression_type)
        levels = {
            Compression.GZIP: self.compression_gzip_level,
            Compression.LZ4: self.compression_lz4_level,
            Compression.ZSTD: self.compression_zstd_level,
        }
        append_time = self.message_timestamp_type == TimestampType.LOG_APPEND_TIME.label
        return AppendRules(
            timestamp_type=TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME,
            timestamp_before_max_ms=self.message_timestamp_before_max_ms,
            timestamp_after_max_ms=self.message_timestamp_after_max_ms,
            compression=codec,
            compression_level=None if codec is None else levels.get(codec),
            message_bytes_max=self.max_message_bytes,
            compacted=self.is_compacted,
            decompressed_bytes_max=self.decompressed_bytes_max,
        )


_SETTINGS: Final[dict[str, AnySetting]] = {
    field: setting
    for setting in topic.TOPIC
    if (field := setting.name.replace(".", "_")) in LogConfig.__slots__
}
"""Topic setting of each field."""


@dataclass(frozen=True, slots=True)
class CleanerConfig:
    """Settings of the log cleaner, with Kafka's defaults."""

    is_enabled: bool = True
    threads: int = 1
    """Concurrent cleanings; 0 disables the cleaner."""
    backoff_ms: int = 15_000
    bytes_per_second: float = float("inf")
    """Limit on bytes read and written by all cleanings together."""
    map_bytes_all: int = 128 << 20
    load_factor: float = 0.9
    buffer_bytes_all: int = 512 << 10

    @classmethod
    def of(cls, settings: Settings) -> CleanerConfig:
        return cls(
            settings[broker.LOG_CLEANER_ENABLE],
            settings[broker.LOG_CLEANER_THREADS],
            settings[broker.LOG_CLEANER_BACKOFF_MS],
            settings[broker.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND],
            settings[broker.LOG_CLEANER_DEDUPE_BUFFER_SIZE],
            settings[broker.LOG_CLEANER_IO_BUFFER_LOAD_FACTOR],
            settings[broker.LOG_CLEANER_IO_BUFFER_SIZE],
        )

    @property
    def map_bytes(self) -> int:
        """Memory for the offset map of one cleaning."""
        return min(self.map_bytes_all // max(self.threads, 1), _INT_MAX)

    @property
    def window_bytes(self) -> int:
        """Read buffer of one cleaning; the write buffer has the same size."""
        return max(self.buffer_bytes_all // max(self.threads, 1) // 2, _WINDOW_BYTES_MIN)
