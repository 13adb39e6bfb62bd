"""Settings of replication quotas."""

from __future__ import annotations

import pytest

from odradek.broker.replication_quotas import ReplicationQuotas, throttled_partitions
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.model.ids import TopicPartition
from odradek.replication.quotas.replication_quota_manager import UNBOUNDED

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
LEADER, FOLLOWER = "leader.replication.throttled", "follower.replication.throttled"


class ManualClock:
    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms


def make_quotas(**settings: str) -> tuple[ReplicationQuotas, DynamicBrokerConfig, ManualClock]:
    clock = ManualClock()
    config = DynamicBrokerConfig({name.replace("_", "."): value for name, value in settings.items()})
    quotas = ReplicationQuotas(1, config, clock)  # type: ignore[arg-type]
    config.observers.append(quotas.update_rates)
    return quotas, config, clock


@pytest.mark.parametrize(
    ("replicas", "partitions"),
    [
        ((), frozenset()),
        (("*",), None),
        (("0:1", "1:2", "5:1"), frozenset({0, 5})),
        (("0:2",), frozenset()),
        (("10:11", "11:1"), frozenset({11})),
    ],
)
def test_only_replicas_of_this_broker_are_throttled(
    replicas: tuple[str, ...], partitions: frozenset[int] | None
) -> None:
    assert throttled_partitions(replicas, 1) == partitions


def test_rates_are_those_of_the_broker_or_of_the_cluster() -> None:
    quotas, config, _ = make_quotas()
    assert (quotas.leader.bytes_per_second_max, quotas.follower.bytes_per_second_max) == (
        UNBOUNDED,
        UNBOUNDED,
    )
    config.set_cluster_overrides({f"{LEADER}.rate": "10", f"{FOLLOWER}.rate": "20"})
    config.set_broker_overrides({f"{FOLLOWER}.rate": "30"})
    assert (quotas.leader.bytes_per_second_max, quotas.follower.bytes_per_second_max) == (10, 30)
    config.set_cluster_overrides({})
    config.set_broker_overrides({})
    assert (quotas.leader.bytes_per_second_max, quotas.follower.bytes_per_second_max) == (
        UNBOUNDED,
        UNBOUNDED,
    )


def test_roles_have_lists_of_their_own() -> None:
    quotas, _, _ = make_quotas()
    quotas.replace_topics({"orders": {f"{LEADER}.replicas": "0:1,1:2", f"{FOLLOWER}.replicas": "1:1"}})
    assert [quotas.leader.is_throttled(each) for each in (A, B)] == [True, False]
    assert [quotas.follower.is_throttled(each) for each in (A, B)] == [False, True]
    quotas.update_topic("orders", {f"{FOLLOWER}.replicas": "*"})
    assert [quotas.leader.is_throttled(each) for each in (A, B)] == [False, False]
    assert [quotas.follower.is_throttled(each) for each in (A, B)] == [True, True]
    quotas.replace_topics({})
    assert not quotas.leader.is_active
    assert not quotas.follower.is_active


def test_length_of_samples_is_configured() -> None:
    quotas, _, clock = make_quotas(
        replication_quota_window_num="2", replication_quota_window_size_seconds="5"
    )
    quotas.leader.bytes_per_second_max = 1
    quotas.leader.record(1000)
    clock.now_ms = 9_999
    assert quotas.leader.is_exceeded
    clock.now_ms = 10_000
    assert not quotas.leader.is_exceeded
