"""Backpressure on sends, and its end while the broker accepts nothing."""

from __future__ import annotations

from odradek.client.producer.accumulator.backpressure import Backpressure

MIB = 1 << 20


def test_high_watermark_depends_on_batch_size_and_memory() -> None:
    assert Backpressure(32 * MIB, 16_384).high_bytes == MIB
    assert Backpressure(32 * MIB, MIB).high_bytes == 4 * MIB
    assert Backpressure(MIB, MIB).high_bytes == MIB // 2


def test_waiters_are_woken_when_half_of_the_backlog_is_sent() -> None:
    backpressure = Backpressure(32 * MIB, 16_384)
    woken: list[str] = []
    assert not backpressure.is_exceeded(MIB)
    assert backpressure.is_exceeded(MIB + 1)
    backpressure.add_waiter(lambda: woken.append("first"))
    backpressure.add_waiter(lambda: woken.append("second"))
    backpressure.on_drained(MIB // 2 + 1)
    assert woken == []
    backpressure.on_drained(MIB // 2)
    assert woken == ["first", "second"]
    backpressure.on_drained(0)
    assert woken == ["first", "second"], "no waiter is woken twice"


def test_no_backpressure_while_the_broker_accepts_nothing() -> None:
    backpressure = Backpressure(32 * MIB, 16_384)

    def wake() -> None:
        raise AssertionError("a waiter that timed out is not woken")

    backpressure.add_waiter(wake)
    backpressure.on_stall(wake)
    assert not backpressure.is_exceeded(30 * MIB)
    backpressure.on_drained(30 * MIB)
    assert backpressure.is_exceeded(30 * MIB)


def test_waiter_woken_at_the_last_moment_does_not_count_as_stalled() -> None:
    backpressure = Backpressure(32 * MIB, 16_384)
    woken: list[int] = []

    def wake() -> None:
        woken.append(1)

    backpressure.add_waiter(wake)
    backpressure.on_drained(0)
    backpressure.on_stall(wake)
    assert woken == [1]
    assert backpressure.is_exceeded(2 * MIB)
