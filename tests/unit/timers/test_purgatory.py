"""Delayed operations: completed exactly once, by condition or by deadline."""

from collections.abc import Callable, Hashable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.timers.purgatory import DelayedOperation, DelayedOperationPurgatory
from odradek.timers.timing_wheel import TimingWheel


class Wait(DelayedOperation):
    """Completes once ``ready`` is set; counts its callbacks."""

    __slots__ = ("completions", "expirations", "ready", "then", "tries")

    def __init__(self, then: Callable[[], object] = list) -> None:
        super().__init__()
        self.ready = False
        self.then = then
        self.tries = self.completions = self.expirations = 0

    def try_complete(self) -> bool:
        self.tries += 1
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.completions += 1
        self.then()

    def on_expiration(self) -> None:
        assert self.completions == 1
        self.expirations += 1


@pytest.fixture
def wheel() -> TimingWheel:
    return TimingWheel(0)


@pytest.fixture
def purgatory(wheel: TimingWheel) -> DelayedOperationPurgatory:
    return DelayedOperationPurgatory("test", wheel, purge_interval=10)


def test_operation_completed_at_once_is_not_watched(
    wheel: TimingWheel, purgatory: DelayedOperationPurgatory
) -> None:
    wait = Wait()
    wait.ready = True
    assert purgatory.try_complete_else_watch(wait, ["a"], 100)
    assert (wait.completions, purgatory.watched, purgatory.delayed, len(wheel)) == (1, 0, 0, 0)


def test_check_completes_ready_operations(wheel: TimingWheel, purgatory: DelayedOperationPurgatory) -> None:
    ready, other = Wait(), Wait()
    assert not purgatory.try_complete_else_watch(ready, ["a"], 100)
    assert not purgatory.try_complete_else_watch(other, ["a"], 100)
    assert purgatory.check_and_complete("a") == 0
    ready.ready = True
    assert purgatory.check_and_complete("b") == 0
    assert purgatory.check_and_complete("a") == 1
    assert (ready.completions, other.completions) == (1, 0)
    assert (purgatory.watched, purgatory.delayed, len(wheel)) == (1, 1, 1)
    wheel.advance(99)
    assert other.completions == 0
    wheel.advance(100)
    assert (ready.expirations, other.completions, other.expirations) == (0, 1, 1)


def test_operation_with_several_keys_completes_once(
    wheel: TimingWheel, purgatory: DelayedOperationPurgatory
) -> None:
    wait = Wait()
    purgatory.try_complete_else_watch(wait, ["a", "b", "c"], 100)
    assert (purgatory.watched, purgatory.delayed) == (3, 1)
    wait.ready = True
    assert purgatory.check_and_complete("b") == 1
    assert (purgatory.watched, purgatory.delayed) == (2, 0)
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.check_and_complete("c") == 0
    wheel.advance(1000)
    assert (wait.completions, wait.expirations, purgatory.watched) == (1, 0, 0)


def test_force_complete_completes_once_and_cancels_the_timer(
    wheel: TimingWheel, purgatory: DelayedOperationPurgatory
) -> None:
    wait = Wait()
    purgatory.try_complete_else_watch(wait, ["a"], 100)
    assert wait.force_complete()
    assert not wait.force_complete()
    assert len(wheel) == 0
    assert wheel.advance(1000) == 0
    assert (wait.completions, wait.expirations) == (1, 0)


def test_operation_completed_while_its_timer_fires_is_not_counted_as_expired() -> None:
    wait = Wait()
    wait.force_complete()
    wait.fire()
    assert (wait.completions, wait.expirations) == (1, 0)


def test_operation_without_keys_completes_at_its_deadline(
    wheel: TimingWheel, purgatory: DelayedOperationPurgatory
) -> None:
    wait = Wait()
    purgatory.try_complete_else_watch(wait, (), 5)
    assert (purgatory.watched, purgatory.delayed) == (0, 1)
    wheel.advance(5)
    assert (wait.expirations, purgatory.delayed) == (1, 0)


def test_past_deadline_expires_at_the_next_advance(
    purgatory: DelayedOperationPurgatory, wheel: TimingWheel
) -> None:
    wheel.advance(50)
    wait = Wait()
    purgatory.try_complete_else_watch(wait, ["a"], 20)
    assert wait.completions == 0
    wheel.advance(50)
    assert wait.expirations == 1


def test_expired_operations_are_purged_when_they_outnumber_the_interval(
    wheel: TimingWheel, purgatory: DelayedOperationPurgatory
) -> None:
    for _ in range(11):
        purgatory.try_complete_else_watch(Wait(), ["a"], 5)
    wheel.advance(5)
    assert (purgatory.watched, purgatory.delayed) == (11, 0)
    purgatory.try_complete_else_watch(Wait(), ["b"], 10)
    assert (purgatory.watched, purgatory.delayed) == (1, 1)


def test_purge_waits_until_completed_outnumber_waiting(
    wheel: TimingWheel, purgatory: DelayedOperationPurgatory
) -> None:
    for _ in range(50):
        purgatory.try_complete_else_watch(Wait(), ["a"], 1000)
    for _ in range(49):
        purgatory.try_complete_else_watch(Wait(), ["b"], 5)
    wheel.advance(5)
    purgatory.try_complete_else_watch(Wait(), ["c"], 1000)
    assert purgatory.watched == 100
    for _ in range(3):
        purgatory.try_complete_else_watch(Wait(), ["c"], 20)
    wheel.advance(20)
    purgatory.try_complete_else_watch(Wait(), ["c"], 1000)
    assert purgatory.watched == purgatory.delayed == 52


def test_on_complete_may_check_the_same_key(purgatory: DelayedOperationPurgatory) -> None:
    first = Wait()

    def complete_first() -> None:
        first.ready = True
        purgatory.check_and_complete("a")

    second = Wait(then=complete_first)
    purgatory.try_complete_else_watch(first, ["a"], 100)
    purgatory.try_complete_else_watch(second, ["a"], 100)
    second.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert (first.completions, second.completions) == (1, 1)
    assert (purgatory.watched, purgatory.delayed) == (0, 0)


def test_on_complete_may_watch_another_operation_under_the_same_key(
    purgatory: DelayedOperationPurgatory,
) -> None:
    later = Wait()
    first = Wait(then=lambda: purgatory.try_complete_else_watch(later, ["a"], 200))
    purgatory.try_complete_else_watch(first, ["a"], 100)
    first.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert later.tries == 1
    later.ready = True
    assert purgatory.check_and_complete("a") == 1


def test_try_complete_that_raises_keeps_the_others_waiting(purgatory: DelayedOperationPurgatory) -> None:
    class Broken(Wait):
        __slots__ = ()

        def try_complete(self) -> bool:
            self.tries += 1
            if self.tries > 1:
                raise RuntimeError("broken try")
            return False

    other, broken = Wait(), Broken()
    purgatory.try_complete_else_watch(broken, ["a"], 100)
    purgatory.try_complete_else_watch(other, ["a"], 100)
    with pytest.raises(RuntimeError, match="broken try"):
        purgatory.check_and_complete("a")
    broken.force_complete()
    other.ready = True
    assert purgatory.check_and_complete("a") == 1


def test_on_expiration_is_optional() -> None:
    class Plain(DelayedOperation):
        __slots__ = ()

        def try_complete(self) -> bool:
            return False

        def on_complete(self) -> None:
            pass

    wheel = TimingWheel(0)
    plain = Plain()
    DelayedOperationPurgatory("plain", wheel).try_complete_else_watch(plain, ["a"], 3)
    wheel.advance(3)
    assert plain.completed


keys = st.lists(st.integers(0, 4), unique=True, max_size=4)


@given(
    st.integers(0, 20),
    st.lists(
        st.one_of(
            st.tuples(st.just("watch"), keys, st.integers(1, 60)),
            st.tuples(st.just("ready"), st.integers(0, 200), st.none()),
            st.tuples(st.just("force"), st.integers(0, 200), st.none()),
            st.tuples(st.just("check"), st.integers(0, 4), st.none()),
            st.tuples(st.just("advance"), st.integers(0, 40), st.none()),
        ),
        max_size=80,
    ),
)
def test_random_operations_complete_exactly_once(
    purge_interval: int, steps: list[tuple[str, Any, Any]]
) -> None:
    wheel = TimingWheel(0)
    purgatory = DelayedOperationPurgatory("law", wheel, purge_interval)
    waits: list[tuple[Wait, list[Hashable], int]] = []
    for what, first, second in steps:
        if what == "watch":
            wait = Wait()
            waits.append((wait, first, wheel.now_ms + second))
            purgatory.try_complete_else_watch(wait, first, wheel.now_ms + second)
        elif what == "advance":
            wheel.advance(wheel.now_ms + first)
        elif what == "check":
            purgatory.check_and_complete(first)
            assert all(not wait.ready or wait.completed for wait, under, _ in waits if first in under)
        elif waits:
            wait = waits[first % len(waits)][0]
            if what == "ready":
                wait.ready = True
            else:
                had_ended = wait.completed
                assert wait.force_complete() != had_ended
        alive = [entry for entry in waits if not entry[0].completed]
        assert purgatory.delayed == len(wheel) == len(alive)
        assert purgatory.watched == sum(len(ops) for ops in purgatory._watchers.values())
        assert purgatory.watched - purgatory._completed == sum(len(under) for _, under, _ in alive)
        assert all(deadline > wheel.now_ms for _, _, deadline in alive)
    wheel.advance(wheel.now_ms + 100)
    purgatory.purge()
    assert all(wait.completions == 1 for wait, _, _ in waits)
    assert purgatory.watched == purgatory.delayed == len(wheel) == 0
