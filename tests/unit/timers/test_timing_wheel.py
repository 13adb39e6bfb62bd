"""Timing wheel: all timers fire, once, in order, never early."""

import gc
import weakref
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.timers.timing_wheel import Timer, TimingWheel


class Diary:
    """Records the fired timers, and the wheel's time at that moment."""

    def __init__(self, wheel: TimingWheel) -> None:
        self.wheel = wheel
        self.fired: list[int] = []
        self.entries: list[tuple[int, int]] = []

    def timer(self, deadline_ms: int) -> Timer:
        return self.wheel.add(deadline_ms, lambda: self.note(deadline_ms))

    def note(self, deadline_ms: int) -> None:
        self.fired.append(deadline_ms)
        self.entries.append((deadline_ms, self.wheel.now_ms))


def run_out(wheel: TimingWheel) -> int:
    """Advance from one wake-up to the next until none is left; return the number of steps."""
    steps = 0
    while (when := wheel.next_deadline_ms()) is not None:
        wheel.advance(when)
        steps += 1
        assert steps < 10_000
    return steps


deadlines = st.one_of(
    st.integers(0, 50), st.integers(0, 1000), st.integers(0, 200_000), st.integers(0, 10**9)
)


@given(st.lists(deadlines, max_size=60), st.integers(0, 10**6))
def test_all_fire_once_in_order_and_exactly_at_their_deadline(delays: list[int], start_ms: int) -> None:
    wheel = TimingWheel(start_ms)
    diary = Diary(wheel)
    for delay in delays:
        diary.timer(start_ms + delay)
    assert len(wheel) == len(delays)
    run_out(wheel)
    assert diary.fired == sorted(start_ms + delay for delay in delays)
    assert all(deadline == now for deadline, now in diary.entries)
    assert len(wheel) == 0


@given(
    st.integers(1, 7),
    st.integers(2, 8),
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(-5, 400)),
            st.tuples(st.just("add"), st.integers(0, 100_000)),
            st.tuples(st.just("cancel"), st.integers(0, 100)),
            st.tuples(st.just("advance"), st.integers(-3, 300)),
            st.tuples(st.just("advance"), st.integers(0, 50_000)),
        ),
        max_size=80,
    ),
)
def test_random_operations_agree_with_a_list(tick_ms: int, size: int, steps: list[tuple[str, int]]) -> None:
    start_ms = 1000
    wheel = TimingWheel(start_ms, tick_ms, size)
    fired: list[int] = []
    timers: list[Timer] = []
    due: dict[int, int] = {}
    now_ms = start_ms
    for what, amount in steps:
        if what == "add":
            number = len(timers)
            timers.append(wheel.add(now_ms + amount, partial(fired.append, number)))
            due[number] = -(-(now_ms + amount) // tick_ms) * tick_ms
        elif what == "cancel" and timers:
            number = amount % len(timers)
            assert timers[number].cancel() == (number in due)
            due.pop(number, None)
        elif what == "advance":
            now_ms = max(now_ms, now_ms + amount)
            fired.clear()
            count = wheel.advance(now_ms)
            expected = [number for number, deadline in due.items() if deadline <= now_ms]
            assert sorted(fired) == expected
            assert count == len(expected)
            for number in expected:
                del due[number]
        assert len(wheel) == len(due)
        next_ms = wheel.next_deadline_ms()
        assert (next_ms is None) == (not due)
        if next_ms is not None:
            assert next_ms <= max(now_ms, min(due.values()))


@given(st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 3000)), max_size=60))
def test_timers_fire_in_order_for_any_advance_steps(plan: list[tuple[int, int]]) -> None:
    wheel = TimingWheel(0)
    diary = Diary(wheel)
    for delay, step in plan:
        diary.timer(wheel.now_ms + delay)
        before = len(diary.fired)
        wheel.advance(wheel.now_ms + step)
        batch = diary.fired[before:]
        assert batch == sorted(batch)
    run_out(wheel)
    assert diary.fired == sorted(diary.fired)
    assert len(diary.fired) == len(plan)
    assert all(deadline <= now for deadline, now in diary.entries)


def test_nothing_fires_a_millisecond_early() -> None:
    wheel = TimingWheel(0)
    diary = Diary(wheel)
    diary.timer(445)
    assert wheel.advance(444) == 0
    assert diary.fired == []
    assert wheel.advance(445) == 1
    assert diary.fired == [445]


def test_distant_deadline_moves_down_through_the_levels() -> None:
    wheel = TimingWheel(0)
    diary = Diary(wheel)
    diary.timer(445)
    stops = []
    while (when := wheel.next_deadline_ms()) is not None:
        stops.append(when)
        wheel.advance(when)
    assert stops == [400, 440, 445]
    assert diary.entries == [(445, 445)]


def test_deadlines_are_rounded_up_to_the_tick() -> None:
    wheel = TimingWheel(0, tick_ms=10)
    diary = Diary(wheel)
    timer = diary.timer(13)
    assert timer.deadline_ms == 20
    assert wheel.advance(19) == 0
    assert wheel.advance(20) == 1


def test_overdue_timer_fires_at_the_next_advance() -> None:
    wheel = TimingWheel(100)
    diary = Diary(wheel)
    diary.timer(40)
    diary.timer(100)
    assert diary.fired == []
    assert wheel.next_deadline_ms() == 100
    assert wheel.advance(100) == 2
    assert diary.fired == [40, 100]
    assert wheel.next_deadline_ms() is None


def test_cancel_after_firing_returns_false() -> None:
    wheel = TimingWheel(0)
    diary = Diary(wheel)
    cancelled, fired = diary.timer(5), diary.timer(5)
    assert cancelled.cancel()
    assert not cancelled.cancel()
    assert len(wheel) == 1
    wheel.advance(10)
    assert not fired.cancel()
    assert diary.fired == [5]


def test_cancel_before_adding_returns_false() -> None:
    assert not Timer().cancel()


def test_bucket_emptied_by_cancel_causes_no_wakeup() -> None:
    wheel = TimingWheel(0)
    wheel.add(7, list).cancel()
    wheel.add(700, list).cancel()
    later = wheel.add(9, list)
    assert wheel.next_deadline_ms() == 9
    later.cancel()
    assert wheel.next_deadline_ms() is None
    assert wheel.advance(1000) == 0


def test_bucket_is_on_the_heap_once() -> None:
    wheel = TimingWheel(0)
    for _ in range(1000):
        wheel.add(5000, list).cancel()
    assert len(wheel._buckets_due) == 1


def test_action_may_add_and_cancel_timers() -> None:
    wheel = TimingWheel(0)
    diary = Diary(wheel)
    doomed = diary.timer(10)

    def act() -> None:
        doomed.cancel()
        diary.timer(11)
        diary.timer(30)

    wheel.add(9, act)
    assert wheel.advance(20) == 2
    assert diary.entries == [(11, 11)]
    wheel.advance(30)
    assert diary.fired == [11, 30]


def test_action_that_keeps_adding_overdue_timers_does_not_block_advance() -> None:
    wheel = TimingWheel(0)

    def again() -> None:
        wheel.add(0, again)

    wheel.add(5, again)
    assert wheel.advance(5) == 1
    assert wheel.advance(5) == 1
    assert len(wheel) == 1


def test_timers_left_after_an_exception_fire_at_the_next_advance() -> None:
    wheel = TimingWheel(0)
    diary = Diary(wheel)

    def fail() -> None:
        raise RuntimeError("broken action")

    wheel.add(400, fail)
    diary.timer(400)
    diary.timer(403)
    for _ in range(2):
        diary.timer(450)
    with pytest.raises(RuntimeError, match="broken action"):
        wheel.advance(500)
    assert len(wheel) == 4
    assert wheel.next_deadline_ms() == 400
    wheel.advance(500)
    assert diary.fired == [400, 403, 450, 450]
    assert len(wheel) == 0


def test_advance_to_the_past_does_nothing() -> None:
    wheel = TimingWheel(0)
    diary = Diary(wheel)
    diary.timer(50)
    wheel.advance(40)
    assert wheel.advance(10) == 0
    assert wheel.now_ms == 40
    wheel.advance(50)
    assert diary.fired == [50]


def test_timer_can_be_scheduled_again_after_firing() -> None:
    wheel = TimingWheel(0)
    fired: list[int] = []
    timer = Timer(lambda: fired.append(wheel.now_ms))
    for deadline_ms in (3, 500, 90_000):
        wheel.schedule(timer, deadline_ms)
        wheel.advance(deadline_ms)
    assert fired == [3, 500, 90_000]


def test_finished_timers_are_freed_without_garbage_collection() -> None:
    class Seen(Timer):
        __slots__ = ("__weakref__",)

    wheel = TimingWheel(0)
    gc.disable()
    try:
        cancelled, fired = Seen(), Seen()
        wheel.schedule(cancelled, 10)
        wheel.schedule(fired, 10)
        watch = [weakref.ref(cancelled), weakref.ref(fired)]
        cancelled.cancel()
        wheel.advance(10)
        del cancelled, fired
        assert [ref() for ref in watch] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize(("start_ms", "tick_ms", "size"), [(-1, 1, 20), (0, 0, 20), (0, 1, 1)])
def test_invalid_wheel_parameters_are_rejected(start_ms: int, tick_ms: int, size: int) -> None:
    with pytest.raises(ValueError, match="tick_ms >= 1"):
        TimingWheel(start_ms, tick_ms, size)
