"""When heartbeats are due, when a session is over, and when an application has not polled for too long."""

from __future__ import annotations

from odradek.client.consumer.group.heartbeat import Heartbeats


def begun() -> Heartbeats:
    heartbeats = Heartbeats(interval_ms=3000, session_timeout_ms=10_000, poll_interval_max_ms=60_000)
    heartbeats.restart(0)
    heartbeats.polled(0)
    return heartbeats


def test_a_heartbeat_is_due_an_interval_after_the_one_before() -> None:
    heartbeats = begun()
    assert heartbeats.wait_ms(1000) == 2000
    assert heartbeats.wait_ms(5000) == 0
    heartbeats.sent(5000)
    assert heartbeats.wait_ms(5000) == 3000


def test_a_heartbeat_that_failed_is_made_again_soon() -> None:
    heartbeats = begun()
    heartbeats.sent(3000)
    heartbeats.failed(3500, rest_ms=100)
    assert heartbeats.wait_ms(3500) == 100


def test_a_session_lasts_from_one_answer_to_the_next() -> None:
    heartbeats = begun()
    heartbeats.sent(9000)
    assert heartbeats.patience_ms(9000) == 1000
    assert heartbeats.is_session_over(10_000)
    heartbeats.answered(10_000)
    assert not heartbeats.is_session_over(19_999)
    assert heartbeats.patience_ms(25_000) == 0


def test_heartbeats_say_nothing_of_the_application_and_polls_nothing_of_the_session() -> None:
    heartbeats = begun()
    heartbeats.answered(59_000)
    assert heartbeats.poll_wait_ms(59_000) == 1000
    assert heartbeats.is_poll_overdue(60_000)
    heartbeats.polled(60_000)
    assert not heartbeats.is_poll_overdue(60_000)
    assert heartbeats.is_session_over(69_000)
