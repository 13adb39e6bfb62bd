"""The checker of loads notices what it must."""

from __future__ import annotations

from tests.mixed.harness.load import Difference, compare

ACKNOWLEDGED = [b"value %d" % number for number in range(5)]


def test_equal_values_have_no_difference() -> None:
    assert compare(ACKNOWLEDGED, ACKNOWLEDGED) == Difference(0, 0, 0, 0)


def test_lost_value_is_counted() -> None:
    assert compare(ACKNOWLEDGED, ACKNOWLEDGED[:2] + ACKNOWLEDGED[3:]) == Difference(1, 0, 0, 0)


def test_doubled_value_is_counted() -> None:
    assert compare(ACKNOWLEDGED, [*ACKNOWLEDGED, ACKNOWLEDGED[4]]) == Difference(0, 1, 0, 0)


def test_unacknowledged_value_is_counted() -> None:
    assert compare(ACKNOWLEDGED, [*ACKNOWLEDGED, b"value 5"]) == Difference(0, 0, 1, 0)


def test_swapped_values_are_counted() -> None:
    swapped = [ACKNOWLEDGED[1], ACKNOWLEDGED[0], *ACKNOWLEDGED[2:]]
    assert compare(ACKNOWLEDGED, swapped) == Difference(0, 0, 0, 2)
