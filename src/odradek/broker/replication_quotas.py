"""Replication quotas of this broker, from dynamic settings of brokers and topics.

``leader.replication.throttled.rate`` and ``follower.replication.throttled.rate`` are settings of brokers.
``leader.replication.throttled.replicas`` and ``follower.replication.throttled.replicas`` are settings of
topics: a list of ``partition:broker``, or ``*`` for all replicas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.config import broker as settings
from odradek.config import topic as topic_settings
from odradek.config.broker.throttles import (
    FOLLOWER_REPLICATION_THROTTLED_RATE,
    LEADER_REPLICATION_THROTTLED_RATE,
)
from odradek.config.definition import Settings
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.ports.clock import Clock
from odradek.replication.quotas.replication_quota_manager import ReplicationQuotaManager

ALL_REPLICAS = "*"


class ReplicationQuotas:
    """The quotas of both roles."""

    def __init__(self, broker_id: int, config: DynamicBrokerConfig, clock: Clock) -> None:
        self._broker_id = broker_id
        self._config = config
        sample_count = config.broker[settings.REPLICATION_QUOTA_WINDOW_NUM]
        window_ms = 1000 * config.broker[settings.REPLICATION_QUOTA_WINDOW_SIZE_SECONDS]
        self.leader = ReplicationQuotaManager(clock, sample_count, window_ms)
        self.follower = ReplicationQuotaManager(clock, sample_count, window_ms)
        self.update_rates(config.broker)

    def update_rates(self, _: Settings) -> None:
        """Apply the rates after a change of the broker's settings."""
        throttles = self._config.throttles
        self.leader.bytes_per_second_max = throttles[LEADER_REPLICATION_THROTTLED_RATE]
        self.follower.bytes_per_second_max = throttles[FOLLOWER_REPLICATION_THROTTLED_RATE]

    def update_topic(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Apply the throttled replicas of a topic after a change of its settings."""
        values = self._config.topic_settings(overrides)
        by_leader = values[topic_settings.LEADER_REPLICATION_THROTTLED_REPLICAS]
        by_follower = values[topic_settings.FOLLOWER_REPLICATION_THROTTLED_REPLICAS]
        self.leader.mark_throttled(topic, throttled_partitions(by_leader, self._broker_id))
        self.follower.mark_throttled(topic, throttled_partitions(by_follower, self._broker_id))

    def replace_topics(self, overrides: Mapping[str, Mapping[str, str]]) -> None:
        """Apply the throttled replicas of all topics."""
        for quota in (self.leader, self.follower):
            quota.replace_throttled({})
        for topic, configs in overrides.items():
            self.update_topic(topic, configs)


def throttled_partitions(replicas: Sequence[str], broker_id: int) -> frozenset[int] | None:
    """Return the partitions whose replica on this broker is in the list; None for all partitions."""
    if ALL_REPLICAS in replicas:
        return None
    pairs = (replica.split(":") for replica in replicas if replica)
    return frozenset(int(partition) for partition, broker in pairs if int(broker) == broker_id)
