"""Network client: connections opened, reopened and closed."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.client_errors import AuthenticationFailed, ConnectionFailed, TimedOut
from odradek.model.errors import ErrorCode
from odradek.net.backoff import exponential_backoff_ms
from odradek.net.broker_connection import handshake_error
from odradek.net.connection_state import ConnectionSettings
from odradek.testing.entropy import SeededEntropy
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def test_connection_is_opened_once_on_first_use(run_scenario):
    async def scenario(harness):
        await asyncio.sleep(1)
        assert harness.scripted.connected_ms == []
        await asyncio.gather(*(harness.pool.ready(1, 1000) for _ in range(10)))
        assert len(harness.scripted.connected_ms) == 1

    run_scenario(scenario)


def test_reconnect_backoff_grows_with_each_failure(run_scenario):
    async def scenario(harness):
        failed_ms = []
        for _ in range(8):
            with pytest.raises(ConnectionFailed):
                await harness.pool.ready(1, 60_000)
            failed_ms.append(harness.clock.monotonic_ms())
        rests = [later - earlier for earlier, later in itertools.pairwise(failed_ms)]
        for rest, plain in zip(rests, [50, 100, 200, 400, 800, 1000, 1000], strict=True):
            assert 0.8 * plain <= rest <= 1.2 * plain + 1
        await harness.scripted.listen()
        await harness.pool.ready(1, 60_000)
        assert harness.pool.node_status(1).failures == 0

    run_scenario(scenario, is_listening=False)


def test_restarted_broker_is_reconnected(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        harness.scripted.crash()
        await asyncio.sleep(0.01)
        assert not harness.pool.is_ready(1)
        with pytest.raises(ConnectionFailed):
            await harness.pool.ready(1, 1000)
        await harness.scripted.listen()
        await harness.pool.ready(1, 1000)
        await harness.pool.send(1, ListGroupsRequest())

    run_scenario(scenario)


def test_rejected_api_versions_backs_off(run_scenario):
    async def scenario(harness):
        harness.scripted.respond = lambda header, request: b"\xff\xff\xff\xff"
        while harness.clock.monotonic_ms() < 10_000:
            with pytest.raises(ConnectionFailed):
                await harness.pool.ready(1, 60_000)
        assert len(harness.scripted.connected_ms) < 20

    run_scenario(scenario)


def test_ready_times_out(run_scenario):
    async def scenario(harness):
        harness.network.partition("client", "broker")
        with pytest.raises(TimedOut, match=r"not ready within 300 ms \(broker 1 "):
            await harness.pool.ready(1, 300)
        harness.network.heal()

    run_scenario(scenario)


def test_connection_setup_timeout_grows_with_each_failure(run_scenario):
    async def scenario(harness):
        harness.network.partition("client", "broker")
        took = []
        for _ in range(4):
            began_ms = harness.clock.monotonic_ms()
            with pytest.raises(ConnectionFailed, match="connection setup timed out after"):
                await harness.pool.ready(1, 600_000)
            took.append(harness.clock.monotonic_ms() - began_ms)
        for item, plain_ms in zip(took, [10_000, 20_000, 30_000, 30_000], strict=True):
            assert 0.8 * plain_ms <= item <= 1.2 * plain_ms + 500

    run_scenario(scenario)


def test_handshake_runs_before_any_request(run_scenario):
    async def scenario(harness):
        seen = []

        async def authenticate(connection, host):
            response = await connection.send_in_version(SaslHandshakeRequest("PLAIN"), 1, 1000)
            if response.error_code:
                raise handshake_error(ErrorCode(response.error_code), "SaslHandshake", connection.name)
            seen.append((connection.name, host))
            return 0

        def respond(header, request):
            if header.api_key == 17:
                return harness.reply(header, SaslHandshakeResponse(0 if request.mechanism == "PLAIN" else 33))
            return harness.scripted.default_response(header, request)

        harness.scripted.respond = respond
        pool = harness.make_pool(SimpleNamespace(authenticate=authenticate))
        pool.put_node(1, "broker", 9092)
        await pool.ready(1, 1000)
        assert [request.api_key for request in harness.scripted.requests] == [18, 17]
        assert seen == [("1 (broker:9092)", "broker")]
        await pool.close()

    run_scenario(scenario)


def test_authentication_failure_reaches_all_waiting_requests(run_scenario):
    async def scenario(harness):
        async def authenticate(connection, host):
            raise handshake_error(ErrorCode.SASL_AUTHENTICATION_FAILED, "SaslAuthenticate", connection.name)

        pool = harness.make_pool(SimpleNamespace(authenticate=authenticate))
        pool.put_node(1, "broker", 9092)
        waiting = [pool.ready(1, 1000) for _ in range(2)]
        for outcome in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(outcome, AuthenticationFailed)
            assert not outcome.retriable
        await asyncio.sleep(0.1)
        assert harness.scripted.connections == []
        await pool.close()

    run_scenario(scenario)


def test_idle_connection_is_closed(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        for _ in range(4):
            await asyncio.sleep(0.9)
            await harness.pool.send(1, ListGroupsRequest())
        assert len(harness.scripted.connections) == 1
        await asyncio.sleep(1.5)
        assert harness.scripted.connections == []
        await harness.pool.ready(1, 10)

    run_scenario(scenario, ConnectionSettings(idle_max_ms=1000))


def test_connection_with_in_flight_requests_is_not_idle(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        harness.scripted.respond = lambda header, request: None
        response = harness.pool.send(1, ListGroupsRequest(), 20_000)
        await asyncio.sleep(10)
        assert not response.done()

    run_scenario(scenario, ConnectionSettings(idle_max_ms=1000))


def test_idle_connections_are_kept_with_a_negative_limit(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        await asyncio.sleep(100_000)
        assert harness.pool.is_ready(1)

    run_scenario(scenario, ConnectionSettings(idle_max_ms=-1))


def test_moved_broker_is_reconnected_at_its_new_address(run_scenario):
    async def scenario(harness):
        for _ in range(6):
            with pytest.raises(ConnectionFailed):
                await harness.pool.ready(1, 10_000)
        moved_ms = harness.clock.monotonic_ms()
        await harness.scripted.listen("elsewhere", 9093)
        harness.pool.put_node(1, "elsewhere", 9093)
        await harness.pool.ready(1, 10_000)
        assert harness.clock.monotonic_ms() == moved_ms
        assert harness.pool.name(1) == "1 (elsewhere:9093)"

    run_scenario(scenario, is_listening=False)


def test_removed_node_fails_waiting_requests(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        harness.scripted.respond = lambda header, request: None
        response = harness.pool.send(1, ListGroupsRequest())
        waiting = asyncio.create_task(harness.pool.ready(1, 1000))
        await asyncio.sleep(0.1)
        harness.pool.remove_node(1)
        for failing in (response, waiting):
            with pytest.raises(ConnectionFailed, match="removed from the cluster"):
                await failing
        with pytest.raises(ConnectionFailed, match="the cluster has no broker 1"):
            await harness.pool.ready(1, 1000)

    run_scenario(scenario, ConnectionSettings(in_flight_max=1))


@given(st.integers(0, 10_000), st.integers(0, 100_000), st.integers(0, 200), st.integers(0, 1000))
def test_backoff_doubles_up_to_its_limit_with_jitter(first_ms, max_ms, failures, seed):
    rest_ms = exponential_backoff_ms(first_ms, max_ms, failures, SeededEntropy(seed))
    plain_ms = min(first_ms * 2**failures, max(first_ms, max_ms))
    assert 0.8 * plain_ms - 1 <= rest_ms <= 1.2 * plain_ms + 1
