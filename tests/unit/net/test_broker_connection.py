"""One broker connection: setup, requests, and the many ways it closes."""

from __future__ import annotations

import asyncio

import pytest

from odradek.model.client_errors import ClientClosed, ConnectionFailed, TimedOut, UnsupportedVersion
from odradek.net.api_versions import RequestBuilder
from odradek.net.connection_state import ConnectionSettings
from odradek.wire.messages.fetch import FetchRequest
from odradek.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

LIST_GROUPS, API_VERSIONS = 16, 18


def test_api_versions_is_sent_before_other_requests(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        await harness.pool.send(1, ListGroupsRequest())
        requests = [
            (request.api_key, request.api_version, request.client_id) for request in harness.scripted.requests
        ]
        assert requests == [(API_VERSIONS, 3, "tester"), (LIST_GROUPS, 4, "tester")]

    run_scenario(scenario)


def test_api_versions_falls_back_to_version_0(run_scenario):
    async def scenario(harness):
        harness.scripted.offered_versions = {16: (0, 1), 18: (0, 1)}
        await harness.pool.ready(1, 1000)
        await harness.pool.send(1, ListGroupsRequest())
        requests = [(request.api_key, request.api_version) for request in harness.scripted.requests]
        assert requests == [(API_VERSIONS, 3), (API_VERSIONS, 0), (LIST_GROUPS, 1)]

    run_scenario(scenario)


def test_version_max_limits_the_version(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        await harness.pool.send(1, ListGroupsRequest(), version_max=2)
        built: list[int] = []

        def build(version: int) -> ListGroupsRequest:
            built.append(version)
            return ListGroupsRequest()

        await harness.pool.send(1, RequestBuilder(ListGroupsRequest, build))
        assert [request.api_version for request in harness.scripted.requests] == [3, 2, 4]
        assert built == [4]

    run_scenario(scenario)


def test_no_common_version_raises_unsupported_version(run_scenario):
    async def scenario(harness):
        harness.scripted.offered_versions = {16: (90, 95), 18: (0, 3)}
        await harness.pool.ready(1, 1000)
        with pytest.raises(UnsupportedVersion, match=r"ListGroups.* 90 to 95.* 0 to 5.*broker:9092"):
            harness.pool.send(1, ListGroupsRequest())
        with pytest.raises(UnsupportedVersion, match="does not support Fetch"):
            harness.pool.send(1, FetchRequest())

    run_scenario(scenario)


def test_field_unknown_to_the_version_raises_unsupported_version(run_scenario):
    async def scenario(harness):
        harness.scripted.offered_versions = {16: (0, 2), 18: (0, 3)}
        await harness.pool.ready(1, 1000)
        with pytest.raises(UnsupportedVersion, match="states_filter"):
            harness.pool.send(1, ListGroupsRequest(states_filter=["Empty"]))
        assert harness.pool.node_status(1).in_flight == 0

    run_scenario(scenario)


def test_connection_failure_names_the_broker(run_scenario):
    async def scenario(harness):
        with pytest.raises(
            ConnectionFailed, match=r"Connection refused \(broker 1 \(broker:9092\)\)"
        ) as caught:
            await harness.pool.ready(1, 1000)
        assert caught.value.retriable

    run_scenario(scenario, is_listening=False)


def test_connection_setup_times_out(run_scenario):
    async def scenario(harness):
        harness.network.partition("client", "broker")
        with pytest.raises(ConnectionFailed, match="connection setup timed out after"):
            await harness.pool.ready(1, 60_000)
        assert 8000 <= harness.clock.monotonic_ms() <= 12_000

    run_scenario(scenario)


def test_unanswered_api_versions_times_out(run_scenario):
    async def scenario(harness):
        harness.scripted.respond = lambda header, request: None
        with pytest.raises(TimedOut, match="no response to ApiVersions within 30000 ms"):
            await harness.pool.ready(1, 60_000)

    run_scenario(scenario)


@pytest.mark.parametrize("is_kept_open", [True, False])
def test_tls_listener_is_detected_at_once(run_scenario, is_kept_open):
    async def scenario(harness):
        def alert(header, request):
            if not is_kept_open:
                asyncio.get_running_loop().call_later(0.001, harness.scripted.crash)
            return b"\x15\x03\x03\x00\x02\x02\x46"

        harness.scripted.respond = alert
        with pytest.raises(ConnectionFailed, match=r"invalid response.* TLS"):
            await harness.pool.ready(1, 60_000)
        assert harness.clock.monotonic_ms() < 1000

    run_scenario(scenario)


def test_connection_closed_after_api_versions_is_reopened(run_scenario):
    async def scenario(harness):
        harness.scripted.respond = lambda header, request: (
            harness.scripted.default_response(header, request) + b"\xff" * 4
        )
        with pytest.raises(ConnectionFailed, match="invalid response"):
            await harness.pool.ready(1, 1000)
        assert not harness.pool.is_ready(1)
        harness.scripted.respond = harness.scripted.default_response
        await harness.pool.ready(1, 1000)
        await harness.pool.send(1, ListGroupsRequest())

    run_scenario(scenario)


def test_timeout_includes_the_last_connection_error(run_scenario):
    async def scenario(harness):
        with pytest.raises(ConnectionFailed):
            await harness.pool.ready(1, 1000)
        with pytest.raises(TimedOut, match=r"not ready within 10 ms: .*Connection refused"):
            await harness.pool.ready(1, 10)

    run_scenario(scenario, is_listening=False)


def test_in_flight_requests_fail_with_the_broker_name_on_disconnect(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        harness.scripted.respond = lambda header, request: None
        responses = [harness.pool.send(1, ListGroupsRequest()) for _ in range(3)]
        await asyncio.sleep(0.1)
        for server_connection in harness.network.connections.copy():
            server_connection.reset()
        for response in responses:
            with pytest.raises(
                ConnectionFailed, match=r"Connection reset by peer \(broker 1 \(broker:9092\)\)"
            ):
                await response
        assert harness.pool.send(1, ListGroupsRequest()) is None

    run_scenario(scenario)


def test_request_timeout_closes_the_connection(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        harness.scripted.respond = lambda header, request: None
        patient = harness.pool.send(1, ListGroupsRequest(), 60_000)
        hasty = harness.pool.send(1, ListGroupsRequest(), 500)
        await asyncio.sleep(0.1)
        with pytest.raises(TimedOut, match=r"no response to ListGroups within 5\d\d ms \(broker 1"):
            await hasty
        with pytest.raises(ConnectionFailed, match="ListGroups timed out"):
            await patient
        assert 500 <= harness.clock.monotonic_ms() < 600

    run_scenario(scenario)


def test_responses_in_time_keep_the_connection(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        for _ in range(5):
            await harness.pool.send(1, ListGroupsRequest(), 500)
            await asyncio.sleep(0.3)
        await asyncio.sleep(60)
        assert harness.pool.is_ready(1)
        assert len(harness.scripted.connected_ms) == 1

    run_scenario(scenario)


def test_each_request_has_its_own_timeout(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        await harness.pool.send(1, ListGroupsRequest(), 500)
        await asyncio.sleep(0.3)
        harness.scripted.respond = lambda header, request: None
        with pytest.raises(TimedOut):
            await harness.pool.send(1, ListGroupsRequest(), 2000)
        assert 2300 <= harness.clock.monotonic_ms() <= 2310

    run_scenario(scenario)


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02ab",
        b"\x00\x00\x00\x04\x00\x00\x00\x63",
        b"\x00\x00\x00\x08\x00\x00\x00\x01\xff\xff\xff\xff",
    ],
    ids=["another protocol", "negative size", "too short", "wrong id", "no message"],
)
def test_invalid_response_closes_the_connection_and_fails_requests(run_scenario, garbage):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        harness.scripted.respond = lambda header, request: garbage
        with pytest.raises(ConnectionFailed, match="invalid response"):
            await harness.pool.send(1, ListGroupsRequest())
        assert not harness.pool.is_ready(1)

    run_scenario(scenario)


def test_unexpected_response_closes_the_connection(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        harness.scripted.connections[0].connection.send([b"\x00\x00\x00\x04\x00\x00\x00\x05"])
        await asyncio.sleep(0.1)
        assert not harness.pool.is_ready(1)

    run_scenario(scenario)


def test_complete_responses_before_garbage_are_delivered(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        harness.scripted.respond = lambda header, request: (
            harness.reply(header, ListGroupsResponse()) + b"\xff" * 4
        )
        response = harness.pool.send(1, ListGroupsRequest())
        assert (await response).groups == []
        assert not harness.pool.is_ready(1)

    run_scenario(scenario)


def test_response_to_a_cancelled_request_is_dropped(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        given_up = harness.pool.send(1, ListGroupsRequest())
        given_up.cancel()
        kept = harness.pool.send(1, ListGroupsRequest())
        assert (await kept).groups == []

    run_scenario(scenario)


def test_callback_of_a_prompt_response_runs_in_the_turn_that_received_it(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        waited = harness.pool.send(1, ListGroupsRequest())
        events: list[object] = []

        def on_response(done):
            events.append(done.result().groups)
            if len(events) == 1:  # a callback may send
                harness.pool.send(1, ListGroupsRequest(), prompt=True).add_done_callback(on_response)

        waited.add_done_callback(lambda _: events.append("future"))
        prompt = harness.pool.send(1, ListGroupsRequest(), prompt=True)
        prompt.add_done_callback(on_response)
        assert not prompt.done()
        while len(events) < 3:
            await asyncio.sleep(0.01)
        assert events == [[], "future", []]
        assert harness.pool.node_status(1).in_flight == 0

    run_scenario(scenario)


def test_prompt_response_reports_the_loss_of_the_connection(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        harness.scripted.respond = lambda header, request: None
        lost = harness.pool.send(1, ListGroupsRequest(), prompt=True)
        errors: list[BaseException] = []
        lost.add_done_callback(lambda done: errors.append(done.exception()))
        harness.pool.remove_node(1)
        assert not errors  # not in the middle of the call that closed it
        await asyncio.sleep(0)
        assert [type(error) for error in errors] == [ConnectionFailed]

    run_scenario(scenario)


def test_failing_callback_of_a_prompt_response_does_not_end_the_connection(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        reports: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))
        failing, good = (harness.pool.send(1, ListGroupsRequest(), prompt=True) for _ in range(2))
        results: list[object] = []
        failing.add_done_callback(lambda done: 1 // 0)
        good.add_done_callback(lambda done: results.append(done.result().groups))
        assert (await harness.pool.send(1, ListGroupsRequest())).groups == []
        assert results == [[]]
        assert [type(report["exception"]) for report in reports] == [ZeroDivisionError]
        assert harness.pool.is_ready(1)

    run_scenario(scenario)


def test_request_without_response_completes_once_sent(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        harness.scripted.respond = lambda header, request: None
        assert await harness.pool.send(1, ListGroupsRequest(), expects_response=False) is None
        assert harness.pool.node_status(1).in_flight == 0

    run_scenario(scenario)


def test_request_without_response_waits_until_sent(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        harness.scripted.respond = lambda header, request: None
        server_connection = next(
            connection for connection in harness.network.connections if connection.host == "client"
        )
        server_connection.hold()
        stuck = [harness.pool.send(1, ListGroupsRequest(), expects_response=False) for _ in range(5)]
        await asyncio.sleep(1)
        assert not any(item.done() for item in stuck)
        assert harness.pool.send(1, ListGroupsRequest(), expects_response=False) is None
        server_connection.release()
        await asyncio.gather(*stuck)
        assert harness.pool.is_ready(1)

    run_scenario(scenario)


@pytest.mark.parametrize("is_taken", [True, False])
def test_close_flushes_requests_without_response(run_scenario, is_taken):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        harness.scripted.respond = lambda header, request: None
        server_connection = next(
            connection for connection in harness.network.connections if connection.host == "client"
        )
        server_connection.hold()
        stuck = harness.pool.send(1, ListGroupsRequest(), expects_response=False)
        closing = asyncio.create_task(harness.pool.close())
        await asyncio.sleep(0.5)
        assert not closing.done()
        if is_taken:
            server_connection.release()
            assert await stuck is None
        else:
            with pytest.raises(ClientClosed):
                await stuck
        await closing
        assert [request.api_key for request in harness.scripted.requests] == [API_VERSIONS, LIST_GROUPS][
            : 1 + is_taken
        ]
        assert harness.clock.monotonic_ms() <= 1000

    run_scenario(scenario)


def test_close_fails_in_flight_requests(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        harness.scripted.respond = lambda header, request: None
        response = harness.pool.send(1, ListGroupsRequest())
        await harness.pool.close()
        with pytest.raises(ClientClosed):
            await response
        with pytest.raises(ClientClosed):
            harness.pool.send(1, ListGroupsRequest())
        with pytest.raises(ClientClosed):
            await harness.pool.ready(1, 1000)

    run_scenario(scenario)


def test_close_while_connecting_leaves_no_connection(run_scenario):
    async def scenario(harness):
        harness.network.partition("client", "broker")
        waiting = asyncio.create_task(harness.pool.ready(1, 60_000))
        await asyncio.sleep(1)
        await harness.pool.close()
        with pytest.raises(ClientClosed):
            await waiting

    run_scenario(scenario)


def test_throttled_client_waits_before_the_next_request(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        harness.scripted.respond = lambda header, request: harness.reply(
            header, ListGroupsResponse(throttle_time_ms=700)
        )
        await harness.pool.send(1, ListGroupsRequest())
        assert harness.pool.send(1, ListGroupsRequest()) is None
        await harness.pool.ready(1, 5000)
        assert 700 <= harness.clock.monotonic_ms() <= 710
        assert harness.pool.send(1, ListGroupsRequest()) is not None

    run_scenario(scenario)


def test_throttle_time_of_an_old_broker_is_not_waited_for(run_scenario):
    async def scenario(harness):
        harness.scripted.offered_versions = {16: (0, 1), 18: (0, 3)}
        await harness.pool.ready(1, 1000)
        harness.scripted.respond = lambda header, request: harness.reply(
            header, ListGroupsResponse(throttle_time_ms=700)
        )
        await harness.pool.send(1, ListGroupsRequest())
        assert harness.pool.is_ready(1)

    run_scenario(scenario)


def test_ready_waits_for_a_connection_at_its_in_flight_limit(run_scenario):
    async def scenario(harness):
        await harness.pool.ready(1, 1000)
        held = []

        def hold(header, request):
            held.append(header)

        harness.scripted.respond = hold
        responses = [harness.pool.send(1, ListGroupsRequest()) for _ in range(2)]
        assert harness.pool.send(1, ListGroupsRequest()) is None
        waiting = asyncio.create_task(harness.pool.ready(1, 5000))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        harness.scripted.connections[0].connection.send([harness.reply(held[0], ListGroupsResponse())])
        await waiting
        assert responses[0].done()
        assert not responses[1].done()

    run_scenario(scenario, ConnectionSettings(in_flight_max=2))
