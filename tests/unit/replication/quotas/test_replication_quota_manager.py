"""Throttled replicas, and a quota that is exceeded for a while."""

from __future__ import annotations

import pytest

from odradek.model.ids import TopicPartition
from odradek.replication.quotas.replication_quota_manager import ReplicationQuotaManager

A, B, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("refunds", 0)


class ManualClock:
    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms


def make_quota(rate: int = 1000) -> tuple[ReplicationQuotaManager, ManualClock]:
    clock = ManualClock()
    quota = ReplicationQuotaManager(clock, 11, 1000)  # type: ignore[arg-type]
    quota.bytes_per_second_max = rate
    return quota, clock


@pytest.mark.parametrize(
    ("partitions", "throttled"),
    [(frozenset(), []), (frozenset({1}), [B]), (frozenset({0, 1}), [A, B]), (None, [A, B])],
)
def test_listed_partitions_are_throttled(partitions: frozenset[int] | None, throttled: list[object]) -> None:
    quota, _ = make_quota()
    quota.mark_throttled("orders", frozenset({7}))
    quota.mark_throttled("orders", partitions)
    assert [each for each in (A, B, OTHER) if quota.is_throttled(each)] == throttled
    assert quota.is_active is bool(throttled)
    quota.mark_throttled("orders", frozenset())
    assert not quota.is_active
    assert not quota.is_throttled(A)


def test_replaced_lists_leave_no_topic_behind() -> None:
    quota, _ = make_quota()
    quota.mark_throttled("orders", None)
    quota.replace_throttled({"refunds": frozenset({0})})
    assert [each for each in (A, B, OTHER) if quota.is_throttled(each)] == [OTHER]
    quota.replace_throttled({})
    assert not quota.is_active


def test_quota_is_exceeded_until_the_average_is_below_it() -> None:
    quota, clock = make_quota(rate=1000)
    assert not quota.is_exceeded
    quota.record(1000)
    assert not quota.is_exceeded, "exactly the quota"
    quota.record(2000)
    assert quota.is_exceeded
    clock.now_ms = 2999
    assert quota.is_exceeded
    clock.now_ms = 3000
    assert not quota.is_exceeded
    quota.bytes_per_second_max = 999
    assert quota.is_exceeded, "a lower quota applies at once"


def test_quota_of_zero_allows_nothing_once_something_was_sent() -> None:
    quota, clock = make_quota(rate=0)
    assert not quota.is_exceeded
    quota.record(1)
    clock.now_ms = 10_999
    assert quota.is_exceeded
    clock.now_ms = 11_000
    assert not quota.is_exceeded, "as in Kafka, once nothing was sent in all samples"
