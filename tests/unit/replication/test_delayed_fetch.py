"""Fetches that wait."""

from odradek.replication.delayed_fetch import DelayedFetch
from odradek.timers.purgatory import DelayedOperationPurgatory
from odradek.timers.timing_wheel import TimingWheel


def test_it_ends_when_there_is_enough_and_only_once():
    have, ends = [0], []
    purgatory = DelayedOperationPurgatory("fetch", wheel := TimingWheel(0))
    operation = DelayedFetch(lambda: have[0] >= 10, lambda: ends.append(have[0]))
    assert not purgatory.try_complete_else_watch(operation, ["one", "other"], 500)
    for more in (4, 5):
        have[0] += more
        assert purgatory.check_and_complete("one") == 0
    have[0] += 1
    assert purgatory.check_and_complete("other") == 1
    assert purgatory.check_and_complete("one") == 0
    wheel.advance(1000)
    assert ends == [10]


def test_it_is_not_watched_if_there_is_enough_at_once():
    ends = []
    purgatory = DelayedOperationPurgatory("fetch", TimingWheel(0))
    assert purgatory.try_complete_else_watch(DelayedFetch(lambda: True, lambda: ends.append(1)), ["k"], 500)
    assert (ends, purgatory.watched) == ([1], 0)


def test_it_ends_with_what_is_there_when_its_time_is_up():
    ends = []
    purgatory = DelayedOperationPurgatory("fetch", wheel := TimingWheel(0))
    purgatory.try_complete_else_watch(DelayedFetch(lambda: False, lambda: ends.append(1)), ["k"], 500)
    wheel.advance(499)
    assert ends == []
    wheel.advance(500)
    assert ends == [1]
    assert purgatory.delayed == 0
