"""acks and min.insync.replicas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.errors import BrokerError, ErrorCode
from odradek.replication.acks import (
    check_before_append,
    effective_min_isr,
    error_after_append,
    is_valid_required_acks,
)


@pytest.mark.parametrize(("acks", "valid"), [(-1, True), (0, True), (1, True), (2, False), (-2, False)])
def test_valid_required_acks(acks: int, valid: bool) -> None:
    assert is_valid_required_acks(acks) is valid


@given(st.integers(1, 9), st.integers(1, 9))
def test_min_isr_is_capped_at_replication_factor(min_isr: int, replicas: int) -> None:
    assert effective_min_isr(min_isr, replicas) == min(min_isr, replicas)


@pytest.mark.parametrize(
    ("isr", "replicas", "min_isr"), [(1, 1, 1), (2, 3, 2), (3, 3, 2), (1, 1, 5), (2, 2, 3)]
)
def test_append_allowed_with_enough_in_sync_replicas(isr: int, replicas: int, min_isr: int) -> None:
    check_before_append(-1, isr, replicas, min_isr)


@pytest.mark.parametrize(("isr", "replicas", "min_isr"), [(1, 3, 2), (2, 3, 3), (1, 2, 9)])
def test_append_below_min_isr_fails_only_with_acks_all(isr: int, replicas: int, min_isr: int) -> None:
    for acks in (0, 1):
        check_before_append(acks, isr, replicas, min_isr)
    with pytest.raises(BrokerError) as raised:
        check_before_append(-1, isr, replicas, min_isr)
    assert raised.value.code is ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize(
    ("required", "watermark", "isr", "error"),
    [
        (10, 9, 3, None),
        (10, 9, 1, None),
        (10, 10, 2, ErrorCode.NONE),
        (10, 11, 3, ErrorCode.NONE),
        (10, 10, 1, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    ],
)
def test_error_after_append_with_acks_all(
    required: int, watermark: int, isr: int, error: ErrorCode | None
) -> None:
    assert error_after_append(required, watermark, isr, 3, 2) is error


def test_single_replica_satisfies_larger_min_isr() -> None:
    assert error_after_append(5, 5, 1, 1, 2) is ErrorCode.NONE
