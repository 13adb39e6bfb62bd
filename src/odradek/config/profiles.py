"""Named sets of values that differ from Kafka's defaults.

``SERVE`` is the configuration of a broker started without a configuration file: one broker that accepts
connections from its own machine only. Variables and arguments override it; a configuration file replaces it.

``local_cluster`` is the configuration of each broker of ``odradek cluster``, by the number of brokers.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odradek.config import broker
from odradek.config.definition import AnySetting


class ProfileSetting(NamedTuple):
    """A setting of a profile, and the reason for its value."""

    setting: AnySetting
    value: str
    reason: str


SERVE: Final = (
    ProfileSetting(broker.BROKER_ID, "0", "There is one broker, so no id has to be generated."),
    ProfileSetting(
        broker.LISTENERS,
        "PLAINTEXT://127.0.0.1:9092",
        "Without authentication only this machine may connect; clients may resolve localhost to ::1.",
    ),
    ProfileSetting(
        broker.LOG_DIRS, "./odradek-data", "Kafka's default is in a directory that may be emptied on restart."
    ),
    ProfileSetting(broker.OFFSETS_TOPIC_REPLICATION_FACTOR, "1", "One broker cannot hold three replicas."),
    ProfileSetting(
        broker.TRANSACTION_STATE_LOG_REPLICATION_FACTOR, "1", "One broker cannot hold three replicas."
    ),
    ProfileSetting(broker.TRANSACTION_STATE_LOG_MIN_ISR, "1", "One broker cannot have two replicas in sync."),
    ProfileSetting(
        broker.GROUP_INITIAL_REBALANCE_DELAY_MS,
        "0",
        "Waiting for more members helps large groups; in development it only adds three seconds.",
    ),
)


REPLICAS_MAX: Final = 3
"""Replicas of a partition in a local cluster: any two of three brokers hold every record."""


def local_cluster(brokers: int) -> tuple[ProfileSetting, ...]:
    """Return the profile of a local cluster with this many brokers."""
    replicas = min(REPLICAS_MAX, brokers)
    # With two replicas, a minimum of two would refuse acks=all as soon as either broker is down.
    in_sync_min = max(1, replicas - 1)
    factor = "A replica on each broker, on three at most: any one of three brokers may fail."
    minimum = "Writes with acks=all go on while one of three brokers is down, and need two copies."
    return (
        ProfileSetting(broker.DEFAULT_REPLICATION_FACTOR, str(replicas), factor),
        ProfileSetting(broker.MIN_INSYNC_REPLICAS, str(in_sync_min), minimum),
        ProfileSetting(broker.OFFSETS_TOPIC_REPLICATION_FACTOR, str(replicas), factor),
        ProfileSetting(broker.TRANSACTION_STATE_LOG_REPLICATION_FACTOR, str(replicas), factor),
        ProfileSetting(broker.TRANSACTION_STATE_LOG_MIN_ISR, str(in_sync_min), minimum),
        ProfileSetting(
            broker.ZOOKEEPER_SESSION_TIMEOUT_MS,
            "6000",
            "A killed broker is noticed after 6 seconds; on one machine no network can be slow.",
        ),
        ProfileSetting(
            broker.CONTROLLED_SHUTDOWN_RETRY_BACKOFF_MS,
            "500",
            "The last broker to stop has nobody to hand its partitions to; it should not wait 15 seconds.",
        ),
        ProfileSetting(
            broker.GROUP_INITIAL_REBALANCE_DELAY_MS,
            "0",
            "Waiting for more members helps large groups; in development it only adds three seconds.",
        ),
        ProfileSetting(
            broker.ODRADEK_LOG_LEVEL, "info", "`odradek cluster logs` shows elections and restarts."
        ),
    )


def values(profile: tuple[ProfileSetting, ...]) -> dict[str, str]:
    return {entry.setting.name: entry.value for entry in profile}
