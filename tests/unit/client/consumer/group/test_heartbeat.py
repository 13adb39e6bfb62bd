"""Heartbeat, session and poll timers."""

from __future__ import annotations

from odradek.client.consumer.group.heartbeat import Heartbeat


def started() -> Heartbeat:
    heartbeat = Heartbeat(interval_ms=3000, session_timeout_ms=10_000, poll_interval_max_ms=60_000)
    heartbeat.restart(0)
    heartbeat.record_poll(0)
    return heartbeat


def test_heartbeat_is_due_after_interval() -> None:
    heartbeat = started()
    assert heartbeat.time_to_next_heartbeat_ms(1000) == 2000
    assert heartbeat.time_to_next_heartbeat_ms(5000) == 0
    heartbeat.record_sent(5000)
    assert heartbeat.time_to_next_heartbeat_ms(5000) == 3000


def test_failed_heartbeat_is_retried_after_backoff() -> None:
    heartbeat = started()
    heartbeat.record_sent(3000)
    heartbeat.record_failure(3500, backoff_ms=100)
    assert heartbeat.time_to_next_heartbeat_ms(3500) == 100


def test_session_is_extended_by_response() -> None:
    heartbeat = started()
    heartbeat.record_sent(9000)
    assert heartbeat.time_to_session_timeout_ms(9000) == 1000
    assert heartbeat.is_session_expired(10_000)
    heartbeat.record_response(10_000)
    assert not heartbeat.is_session_expired(19_999)
    assert heartbeat.time_to_session_timeout_ms(25_000) == 0


def test_poll_timeout_and_session_are_independent() -> None:
    heartbeat = started()
    heartbeat.record_response(59_000)
    assert heartbeat.time_to_poll_timeout_ms(59_000) == 1000
    assert heartbeat.is_poll_timeout_expired(60_000)
    heartbeat.record_poll(60_000)
    assert not heartbeat.is_poll_timeout_expired(60_000)
    assert heartbeat.is_session_expired(69_000)
