"""A connection authenticates again before the session that the broker granted expires."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.model.client_errors import AuthenticationFailed, ClientError, ConnectionFailed
from odradek.model.errors import ErrorCode
from odradek.net.broker_connection import handshake_error
from odradek.wire.messages.list_groups import ListGroupsRequest

LIFETIME_MS = 10_000
DURATION_S = 2.0


class Handshake:
    """Grants sessions; each authentication after the first takes a while. Notes when they begin."""

    def __init__(self, *lifetimes_ms: int) -> None:
        self.began_s: list[float] = []
        self.hosts: list[str] = []
        self.failure: Exception | None = None
        self._lifetimes_ms = list(lifetimes_ms)

    async def authenticate(self, connection: object, host: str) -> int:
        self.began_s.append(asyncio.get_running_loop().time())
        self.hosts.append(host)
        if len(self.began_s) > 1:
            await asyncio.sleep(DURATION_S)
            if self.failure is not None:
                raise self.failure
        return self._lifetimes_ms.pop(0) if self._lifetimes_ms else 0


def opened(harness: Any, handshake: Handshake) -> Any:
    pool = harness.make_pool(handshake)
    pool.put_node(1, "broker", 9092)
    return pool


def test_sessions_are_renewed_at_85_to_95_percent_of_their_lifetime(run_scenario: Any) -> None:
    async def scenario(harness: Any) -> None:
        handshake = Handshake(LIFETIME_MS, LIFETIME_MS, LIFETIME_MS)
        pool = opened(harness, handshake)
        await pool.ready(1, 1000)
        await asyncio.sleep(60)
        first, second, third, fourth = handshake.began_s
        for began_s, renewed_s in (
            (first, second),
            (second + DURATION_S, third),
            (third + DURATION_S, fourth),
        ):
            assert 0.85 <= (renewed_s - began_s) * 1000 / LIFETIME_MS <= 0.95
        assert handshake.hosts == ["broker"] * 4
        assert len(harness.scripted.connections) == 1
        await pool.close()

    run_scenario(scenario)


def test_unlimited_session_is_not_renewed(run_scenario: Any) -> None:
    async def scenario(harness: Any) -> None:
        handshake = Handshake(0)
        pool = opened(harness, handshake)
        await pool.ready(1, 1000)
        await asyncio.sleep(100)
        assert len(handshake.began_s) == 1
        await pool.close()

    run_scenario(scenario)


def test_requests_wait_for_the_renewal(run_scenario: Any) -> None:
    async def scenario(harness: Any) -> None:
        handshake = Handshake(LIFETIME_MS)
        pool = opened(harness, handshake)
        await pool.ready(1, 1000)
        while len(handshake.began_s) < 2:
            await asyncio.sleep(0.1)
        assert pool.send(1, ListGroupsRequest(), 5000) is None
        await pool.ready(1, 5000)
        now_s = asyncio.get_running_loop().time()
        assert now_s >= handshake.began_s[1] + DURATION_S
        await pool.send(1, ListGroupsRequest(), 5000)
        assert len(harness.scripted.connections) == 1
        await pool.close()

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (
            handshake_error(ErrorCode.SASL_AUTHENTICATION_FAILED, "SaslAuthenticate", "1"),
            AuthenticationFailed,
        ),
        (ValueError("no token"), ConnectionFailed),
    ],
)
def test_failed_renewal_closes_the_connection(
    run_scenario: Any, failure: Exception, expected: type[ClientError]
) -> None:
    async def scenario(harness: Any) -> None:
        handshake = Handshake(LIFETIME_MS)
        handshake.failure = failure
        pool = opened(harness, handshake)
        await pool.ready(1, 1000)
        harness.scripted.respond = lambda header, request: None
        in_flight = pool.send(1, ListGroupsRequest(), 30_000)
        with pytest.raises(expected):
            await in_flight
        await asyncio.sleep(0.1)
        assert harness.scripted.connections == []
        await pool.close()

    run_scenario(scenario)


def test_closed_connection_is_not_renewed(run_scenario: Any) -> None:
    async def scenario(harness: Any) -> None:
        handshake = Handshake(LIFETIME_MS)
        pool = opened(harness, handshake)
        await pool.ready(1, 1000)
        harness.scripted.crash()
        await asyncio.sleep(100)
        assert len(handshake.began_s) == 1
        await pool.close()

    run_scenario(scenario)
