"""Delayed fetch requests."""

from odradek.replication.delayed.delayed_fetch import DelayedFetch
from odradek.timers.purgatory import DelayedOperationPurgatory
from odradek.timers.timing_wheel import TimingWheel


def test_delayed_fetch_completes_once_when_enough_bytes_are_available():
    available, completions = [0], []
    purgatory = DelayedOperationPurgatory("fetch", wheel := TimingWheel(0))
    operation = DelayedFetch(lambda: available[0] >= 10, lambda: completions.append(available[0]))
    assert not purgatory.try_complete_else_watch(operation, ["one", "other"], 500)
    for added in (4, 5):
        available[0] += added
        assert purgatory.check_and_complete("one") == 0
    available[0] += 1
    assert purgatory.check_and_complete("other") == 1
    assert purgatory.check_and_complete("one") == 0
    wheel.advance(1000)
    assert completions == [10]


def test_satisfied_fetch_is_not_watched():
    completions = []
    purgatory = DelayedOperationPurgatory("fetch", TimingWheel(0))
    assert purgatory.try_complete_else_watch(
        DelayedFetch(lambda: True, lambda: completions.append(1)), ["k"], 500
    )
    assert (completions, purgatory.watched) == ([1], 0)


def test_delayed_fetch_completes_at_timeout():
    completions = []
    purgatory = DelayedOperationPurgatory("fetch", wheel := TimingWheel(0))
    purgatory.try_complete_else_watch(DelayedFetch(lambda: False, lambda: completions.append(1)), ["k"], 500)
    wheel.advance(499)
    assert completions == []
    wheel.advance(500)
    assert completions == [1]
    assert purgatory.delayed == 0
