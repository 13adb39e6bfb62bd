"""Who sends faster than records leave waits, and nobody waits for a broker that takes nothing."""

from __future__ import annotations

from odradek.client.producer.accumulator.backpressure import Backpressure

MIB = 1 << 20


def test_the_bound_follows_batches_and_memory() -> None:
    assert Backpressure(32 * MIB, 16_384).high_bytes == MIB
    assert Backpressure(32 * MIB, MIB).high_bytes == 4 * MIB
    assert Backpressure(MIB, MIB).high_bytes == MIB // 2


def test_all_go_on_once_half_has_left() -> None:
    pace = Backpressure(32 * MIB, 16_384)
    woken: list[str] = []
    assert not pace.is_too_fast(MIB)
    assert pace.is_too_fast(MIB + 1)
    pace.wait(lambda: woken.append("one"))
    pace.wait(lambda: woken.append("other"))
    pace.left(MIB // 2 + 1)
    assert woken == []
    pace.left(MIB // 2)
    assert woken == ["one", "other"]
    pace.left(0)
    assert woken == ["one", "other"], "nobody is woken twice"


def test_nobody_waits_while_nothing_leaves() -> None:
    pace = Backpressure(32 * MIB, 16_384)

    def wake() -> None:
        raise AssertionError("who gave up is not woken")

    pace.wait(wake)
    pace.gave_up(wake)
    assert not pace.is_too_fast(30 * MIB)
    pace.left(30 * MIB)
    assert pace.is_too_fast(30 * MIB)


def test_who_was_woken_in_the_last_moment_has_not_given_up() -> None:
    pace = Backpressure(32 * MIB, 16_384)
    woken: list[int] = []

    def wake() -> None:
        woken.append(1)

    pace.wait(wake)
    pace.left(0)
    pace.gave_up(wake)
    assert woken == [1]
    assert pace.is_too_fast(2 * MIB)
