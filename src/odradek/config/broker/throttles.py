"""Replication throttles: broker settings that can only be set at run time.

They cannot be in a configuration file, and are only described if they are set.
"""

from __future__ import annotations

from odradek.config.definition import by_name
from odradek.config.types import CLUSTER_WIDE, LONG_MAX, MEDIUM, declared, int64

LEADER_REPLICATION_THROTTLED_RATE = int64(
    "leader.replication.throttled.rate",
    LONG_MAX,
    MEDIUM,
    "Maximum bytes per second this broker sends to throttled followers.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

FOLLOWER_REPLICATION_THROTTLED_RATE = int64(
    "follower.replication.throttled.rate",
    LONG_MAX,
    MEDIUM,
    "Maximum bytes per second this broker fetches for throttled replicas.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND = int64(
    "replica.alter.log.dirs.io.max.bytes.per.second",
    LONG_MAX,
    MEDIUM,
    "Maximum bytes per second for moving replicas between log directories.",
    at_least=0,
    dynamic=CLUSTER_WIDE,
)

THROTTLES = declared(globals())
THROTTLES_BY_NAME = by_name(THROTTLES)
