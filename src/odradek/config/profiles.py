"""Named sets of values that differ from Kafka's defaults.

``SERVE`` is the configuration of a broker started without a configuration file: one broker that accepts
connections from its own machine only. Variables and arguments override it; a configuration file replaces it.
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


def values(profile: tuple[ProfileSetting, ...]) -> dict[str, str]:
    return {entry.setting.name: entry.value for entry in profile}
