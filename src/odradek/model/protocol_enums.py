"""Enums of the protocol: acks, isolation, timestamp types, compression, resources, configs, elections."""

import enum
from typing import Final

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1


class IsolationLevel(enum.IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class TimestampType(enum.IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def label(self) -> str:
        """Name in settings."""
        return "LogAppendTime" if self else "CreateTime"


class Compression(enum.IntEnum):
    """Codec ids in the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class ResourceType(enum.IntEnum):
    """Resource types of the config APIs."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32

    @classmethod
    def _missing_(cls, value: object) -> "ResourceType":
        return cls.UNKNOWN


class ConfigSource(enum.IntEnum):
    """Source of a config value in DescribeConfigs."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6


class ConfigType(enum.IntEnum):
    """Type of a config in DescribeConfigs v3+."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class AlterOp(enum.IntEnum):
    """Operations of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ElectionType(enum.IntEnum):
    """Leader elections on request (ElectLeaders)."""

    PREFERRED = 0
    """The first replica, if it is in the ISR and does not lead."""
    UNCLEAN = 1
    """Any live replica of a partition without a leader; acknowledged records may be lost."""
