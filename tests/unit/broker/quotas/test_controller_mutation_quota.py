"""Quota of controller mutations: the cases of Kafka's ``ControllerMutationQuotaManagerTest``."""

from __future__ import annotations

import pytest

from odradek.broker.quotas.client_sensors import INACTIVE_MS_MAX
from odradek.broker.quotas.controller_mutation_quota import (
    UNBOUNDED,
    BucketQuota,
    ControllerMutationQuotaManager,
)
from odradek.broker.quotas.quota_entities import DEFAULT, QuotaEntity
from odradek.broker.quotas.throttle_time import THROTTLE_MS_MAX, token_throttle_time_ms
from odradek.broker.quotas.token_bucket import TokenBucket
from odradek.model.errors import BrokerError, ErrorCode

USER, CLIENT_ID = "ANONYMOUS", "test-client"
ENTITY = QuotaEntity(USER, CLIENT_ID)


class Time:
    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms


def make_quota(time: Time, *, is_strict: bool) -> BucketQuota:
    return BucketQuota(TokenBucket(10, 1000), 10, time.now_ms, is_strict=is_strict)


def test_strict_quota_rejects_changes_while_the_bucket_is_overdrawn() -> None:
    time = Time()
    quota = make_quota(time, is_strict=True)
    quota.record(90)  # leaves 10 of 100
    assert quota.throttle_time_ms() == 0
    quota.record(90)  # leaves -80: accepted, because the bucket was not empty
    assert quota.throttle_time_ms() == 0
    with pytest.raises(BrokerError) as error:
        quota.record(90)
    assert error.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert quota.throttle_time_ms() == 8000
    time.ms += 5000
    assert quota.throttle_time_ms() == 3000


def test_permissive_quota_accepts_changes_and_throttles() -> None:
    time = Time()
    quota = make_quota(time, is_strict=False)
    throttle_times = []
    for _ in range(3):
        quota.record(90)
        throttle_times.append(quota.throttle_time_ms())
    assert throttle_times == [0, 8000, 17_000]
    time.ms += 5000
    assert quota.throttle_time_ms() == 12_000


@pytest.mark.parametrize(
    ("tokens", "rate", "throttle_ms"),
    [(0, 10, 0), (-5, 10, 500), (-10, 10, 1000), (-1, 0, THROTTLE_MS_MAX), (-1e12, 1, THROTTLE_MS_MAX)],
)
def test_throttle_time_is_that_of_refilling(tokens: float, rate: float, throttle_ms: int) -> None:
    assert token_throttle_time_ms(tokens, rate) == throttle_ms


def test_client_that_waits_as_told_is_accepted() -> None:
    """The sequence of Kafka's ``testControllerMutationQuotaViolation``."""
    time = Time()
    manager = ControllerMutationQuotaManager(10, 1000, time.now_ms)
    manager.update_quota(ENTITY, 10)

    def record(permits: int) -> int:
        quota = manager.quota_for(USER, CLIENT_ID, is_strict=True)
        try:
            quota.record(permits)
        except BrokerError:
            return quota.throttle_time_ms()
        return 0

    for _ in range(10):
        assert record(10) == 0
        time.ms += 1000
    assert record(110) == 0
    assert record(110) == 1000
    time.ms += 1000
    assert record(110) == 0


def test_clients_without_a_quota_have_no_bucket() -> None:
    time = Time()
    manager = ControllerMutationQuotaManager(10, 1000, time.now_ms)
    assert manager.quota_for(USER, CLIENT_ID, is_strict=True) is UNBOUNDED
    manager.update_quota(ENTITY, 10)
    assert manager.quota_for("other", CLIENT_ID, is_strict=True) is UNBOUNDED
    assert manager.sensor_count == 0
    UNBOUNDED.record(10**9)
    assert UNBOUNDED.throttle_time_ms() == 0
    manager.update_quota(ENTITY, None)
    assert not manager.is_enabled


def test_requests_of_a_client_share_a_bucket_that_expires() -> None:
    time = Time()
    manager = ControllerMutationQuotaManager(10, 1000, time.now_ms)
    manager.update_quota(QuotaEntity(DEFAULT, None), 1)
    manager.quota_for(USER, "a", is_strict=False).record(11)
    quota = manager.quota_for(USER, "b", is_strict=False)
    quota.record(0)
    assert quota.throttle_time_ms() == 1000
    manager.expire_sensors(INACTIVE_MS_MAX + 1)
    assert manager.sensor_count == 0
