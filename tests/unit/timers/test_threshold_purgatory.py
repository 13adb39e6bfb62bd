"""Delayed operations that wait for a value: tried once it reaches their threshold, and not before."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.timers.purgatory import DelayedOperation
from odradek.timers.threshold_purgatory import ThresholdPurgatory
from odradek.timers.timing_wheel import TimingWheel


class Wait(DelayedOperation):
    """Completes once the values under all its keys have reached its thresholds; counts its tries."""

    __slots__ = ("completions", "then", "thresholds", "tries", "values")

    def __init__(
        self, values: dict[str, int], thresholds: dict[str, int], then: Callable[[], object] = list
    ) -> None:
        super().__init__()
        self.values = values
        self.thresholds = thresholds
        self.then = then
        self.tries = self.completions = 0

    def try_complete(self) -> bool:
        self.tries += 1
        is_reached = all(self.values[key] >= threshold for key, threshold in self.thresholds.items())
        return is_reached and self.force_complete()

    def on_complete(self) -> None:
        self.completions += 1
        self.then()


class Scene:
    def __init__(self) -> None:
        self.wheel = TimingWheel(0)
        self.purgatory = ThresholdPurgatory("test", self.wheel, purge_interval=10)
        self.values = {"a": 0, "b": 0}

    def delay(self, then: Callable[[], object] = list, **thresholds: int) -> Wait:
        wait = Wait(self.values, thresholds, then)
        self.purgatory.delay(wait, thresholds, 1_000)
        return wait

    def reach(self, key: str, value: int) -> int:
        self.values[key] = value
        return self.purgatory.check_reached(key, value)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_only_reached_operations_are_tried(scene: Scene) -> None:
    waits = [scene.delay(a=threshold) for threshold in range(1, 101)]
    assert scene.reach("a", 3) == 3
    assert [wait.completions for wait in waits] == [1] * 3 + [0] * 97
    assert [wait.tries for wait in waits] == [2] * 3 + [1] * 97
    assert (scene.purgatory.watched, scene.purgatory.delayed, len(scene.wheel)) == (97, 97, 97)


def test_operation_that_came_late_is_found(scene: Scene) -> None:
    later = scene.delay(a=5)
    earlier = scene.delay(a=2)
    assert scene.reach("a", 2) == 1
    assert (earlier.completions, later.completions) == (1, 0)
    assert scene.reach("a", 5) == 1


def test_operation_that_is_reached_at_once_is_not_watched(scene: Scene) -> None:
    scene.values["a"] = 7
    assert scene.delay(a=7).completions == 1
    assert (scene.purgatory.watched, len(scene.wheel)) == (0, 0)


def test_operation_of_two_keys_waits_for_both(scene: Scene) -> None:
    both, single = scene.delay(a=1, b=2), scene.delay(a=2)
    assert scene.reach("a", 1) == 0
    assert scene.reach("b", 2) == 1
    assert both.completions == 1
    assert scene.reach("a", 2) == 1
    assert (single.completions, scene.purgatory.watched) == (1, 0)


def test_check_of_all_tries_operations_beyond_the_value(scene: Scene) -> None:
    wait = scene.delay(a=9)
    wait.thresholds = {}
    assert scene.purgatory.check_and_complete("a") == 1
    assert (wait.completions, scene.purgatory.watched) == (1, 0)


def test_expired_operations_are_purged(scene: Scene) -> None:
    expired = [scene.delay(a=threshold) for threshold in range(1, 21)]
    scene.wheel.advance(2_000)
    assert [wait.completions for wait in expired] == [1] * 20
    last = scene.delay(a=21)
    assert scene.purgatory.watched == 1
    assert scene.reach("a", 21) == 1
    assert last.completions == 1


def test_completion_may_delay_and_check_again(scene: Scene) -> None:
    added: list[Wait] = []

    def then() -> None:
        scene.purgatory.check_reached("a", scene.values["a"])
        added.append(scene.delay(a=4))

    scene.delay(then, a=1)
    second = scene.delay(a=2)
    scene.reach("a", 2)
    assert (second.completions, added[0].completions) == (1, 0)
    assert scene.reach("a", 4) == 1
    assert scene.purgatory.watched == 0


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("delay"), st.integers(0, 8), st.integers(0, 8)),
            st.tuples(st.just("reach"), st.sampled_from("ab"), st.integers(0, 8)),
            st.tuples(st.just("expire"), st.just(0), st.just(0)),
        ),
        max_size=60,
    )
)
def test_operations_complete_as_if_all_were_tried(steps: list[tuple[str, int | str, int]]) -> None:
    scene, waits = Scene(), []
    now_ms = 0
    for name, first, second in steps:
        if name == "delay":
            assert isinstance(first, int)
            waits.append(scene.delay(a=first, b=second))
        elif name == "reach":
            assert isinstance(first, str)
            scene.reach(first, max(second, scene.values[first]))
        else:
            now_ms += 2_000
            scene.wheel.advance(now_ms)
        for wait in waits:
            is_reached = all(scene.values[key] >= value for key, value in wait.thresholds.items())
            assert wait.completions == 1 or not is_reached
            assert wait.completions <= 1
    waiting = [wait for wait in waits if not wait.completions]
    assert scene.purgatory.delayed == len(waiting) == len(scene.wheel)
