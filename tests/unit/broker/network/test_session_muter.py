"""Throttled sessions: no requests are read or started until the throttle time is over."""

from __future__ import annotations

import pytest

from odradek.broker.network.memory_pool import RequestMemoryPool
from odradek.broker.network.session_muter import SessionMuter
from odradek.timers.timing_wheel import TimingWheel


class Muter(SessionMuter):
    """Muter whose time is advanced by the test."""

    def __init__(self) -> None:
        self.wheel = TimingWheel(0)
        self.now = 0
        self.armed: list[int] = []
        super().__init__(lambda: self.now, self.wheel, self.armed.append)

    def advance(self, now_ms: int) -> None:
        self.now = now_ms
        self.wheel.advance(now_ms)


@pytest.fixture
def muter():
    return Muter()


def test_muted_session_reads_and_starts_nothing_until_the_time_is_over(harness, muter, make_frame):
    harness.receive(make_frame(1))
    muter.mute(harness.session, 500)
    assert muter.armed == [500]
    assert harness.connection.paused
    harness.receive(make_frame(2) + make_frame(3))  # had arrived before
    harness.run_deferred()
    assert harness.correlation_ids == [1]
    muter.advance(499)
    harness.run_deferred()
    assert harness.correlation_ids == [1]
    muter.advance(500)
    harness.run_deferred()
    assert harness.correlation_ids == [1, 2, 3]


def test_responses_are_sent_while_muted(harness, muter, make_frame):
    harness.receive(make_frame(1))
    muter.mute(harness.session, 500)
    harness.respond(1, b"done")
    assert harness.connection.responses == [(1, b"done")]
    assert harness.connection.paused
    muter.advance(500)
    harness.run_deferred()
    assert not harness.connection.paused


def test_request_that_mutes_its_session_is_the_last_of_the_backlog(harness, muter, make_frame):
    harness.on_start = lambda request, session: muter.mute(session, 100)
    harness.receive(b"".join(make_frame(number) for number in range(3)))
    harness.run_deferred()
    assert harness.correlation_ids == [0]
    muter.advance(100)
    harness.run_deferred()
    assert harness.correlation_ids == [0, 1]


def test_last_of_several_times_counts(harness, muter):
    muter.mute(harness.session, 500)
    muter.mute(harness.session, 100)
    muter.mute(harness.session, 900)
    muter.mute(harness.session, 400)
    muter.advance(899)
    assert harness.connection.paused
    muter.advance(900)
    assert not harness.connection.paused
    assert len(muter.wheel) == 0


def test_closed_session_leaves_no_timer(harness, muter):
    muter.mute(harness.session, 500)
    harness.session.connection_lost("reset")
    assert len(muter.wheel) == 0
    muter.advance(500)


def test_muted_session_does_not_start_again_after_a_stop(harness, muter, make_frame):
    muter.mute(harness.session, 100)
    harness.session.stop_reading()
    harness.receive(make_frame(1))
    muter.advance(100)
    harness.run_deferred()
    assert harness.correlation_ids == []
    assert harness.connection.paused


def test_session_that_is_held_and_muted_waits_for_both(harness, muter, make_frame):
    harness.session.hold()
    muter.mute(harness.session, 100)
    harness.receive(make_frame(1))
    muter.advance(100)
    harness.run_deferred()
    assert harness.correlation_ids == []
    harness.session.release()
    harness.run_deferred()
    assert harness.correlation_ids == [1]


def test_muted_session_has_no_priority_for_memory(new_harness, muter, make_frame):
    memory = RequestMemoryPool(100)
    muted = new_harness(memory=memory)
    memory.used += 200
    muted.receive(make_frame(1)[:10])
    assert memory.may_read(muted.session), "it is the first that waits"
    muter.mute(muted.session, 100_000)
    memory.close_stalled_session(0)
    memory.close_stalled_session(60_000)
    assert not muted.connection.closed


def test_held_session_reads_again_once_released(harness, muter, make_frame):
    muter.hold(harness.session, 100)
    assert not harness.connection.paused, "the connection is not attached yet"
    harness.receive(make_frame(1))
    assert harness.connection.paused
    muter.advance(100)
    harness.run_deferred()
    assert harness.correlation_ids == [1]
    assert not harness.connection.paused
