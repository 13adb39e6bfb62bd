"""Values derived from several settings: the finer unit wins, a deprecated name is a fallback, -1 is no limit.

Functions of a broker's ``Settings`` come first, those of a topic's follow.
"""

from __future__ import annotations

from odradek.config import broker, topic
from odradek.config.definition import Settings
from odradek.config.endpoints import parse_limits, split_list
from odradek.config.types import HOUR_MS, LONG_MAX, MINUTE_MS
from odradek.model.protocol_enums import Compression
from odradek.model.secret import Secret

UNLIMITED = -1

SYNONYM_GROUPS = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
)
"""Names of the same setting, finest unit first. One set in a higher layer overrides all of a lower layer."""


def retention_ms(settings: Settings) -> int:
    """Return the retention time of segments, or UNLIMITED."""
    if (millis := settings[broker.LOG_RETENTION_MS]) is None:
        if (minutes := settings[broker.LOG_RETENTION_MINUTES]) is not None:
            millis = minutes * MINUTE_MS
        else:
            millis = settings[broker.LOG_RETENTION_HOURS] * HOUR_MS
    return UNLIMITED if millis < 0 else millis


def roll_ms(settings: Settings) -> int:
    millis = settings[broker.LOG_ROLL_MS]
    return settings[broker.LOG_ROLL_HOURS] * HOUR_MS if millis is None else millis


def roll_jitter_ms(settings: Settings) -> int:
    millis = settings[broker.LOG_ROLL_JITTER_MS]
    return settings[broker.LOG_ROLL_JITTER_HOURS] * HOUR_MS if millis is None else millis


def flush_ms(settings: Settings) -> int:
    millis = settings[broker.LOG_FLUSH_INTERVAL_MS]
    return settings[broker.LOG_FLUSH_SCHEDULER_INTERVAL_MS] if millis is None else millis


def timestamp_before_max_ms(settings: Settings) -> int:
    """Return the limit; the deprecated setting applies if the newer one has its default."""
    limit = settings[broker.LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS]
    return settings[broker.LOG_MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS] if limit == LONG_MAX else limit


def timestamp_after_max_ms(settings: Settings) -> int:
    limit = settings[broker.LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS]
    return settings[broker.LOG_MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS] if limit == LONG_MAX else limit


def delegation_token_secret(settings: Settings) -> Secret | None:
    """Return the secret that signs delegation tokens; None if they are disabled."""
    secret = settings[broker.DELEGATION_TOKEN_SECRET_KEY]
    if secret is None:
        secret = settings[broker.DELEGATION_TOKEN_MASTER_KEY]
    return secret if secret is not None and secret.reveal() else None


def log_dirs(settings: Settings) -> tuple[str, ...]:
    """Return the log directories as configured, in order; empty only if the settings are invalid."""
    dirs = settings[broker.LOG_DIRS]
    return tuple(split_list(settings[broker.LOG_DIR] if dirs is None else dirs))


def broker_id(settings: Settings) -> int:
    """Return the configured id, by either name, or -1 if it is to be generated."""
    configured = settings[broker.BROKER_ID]
    return settings[broker.NODE_ID] if configured == -1 else configured


def connection_limits(settings: Settings) -> dict[str, int]:
    """Return connection limits by address or host name; max.connections.per.ip applies to others."""
    return parse_limits(settings[broker.MAX_CONNECTIONS_PER_IP_OVERRIDES])


def zookeeper_connection_timeout_ms(settings: Settings) -> int:
    millis = settings[broker.ZOOKEEPER_CONNECTION_TIMEOUT_MS]
    return settings[broker.ZOOKEEPER_SESSION_TIMEOUT_MS] if millis is None else millis


def topic_timestamp_before_max_ms(settings: Settings) -> int:
    limit = settings[topic.MESSAGE_TIMESTAMP_BEFORE_MAX_MS]
    return settings[topic.MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS] if limit == LONG_MAX else limit


def topic_timestamp_after_max_ms(settings: Settings) -> int:
    limit = settings[topic.MESSAGE_TIMESTAMP_AFTER_MAX_MS]
    return settings[topic.MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS] if limit == LONG_MAX else limit


CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
