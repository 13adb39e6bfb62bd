"""One connection: how it begins, what is said on it, and the many ways in which it ends."""

from __future__ import annotations

import asyncio

import pytest

from odradek.model.client_errors import ClientClosed, ConnectionFailed, TimedOut, UnsupportedVersion
from odradek.net.api_versions import RequestBuilder
from odradek.net.connection_state import ConnectionSettings
from odradek.wire.messages.fetch import FetchRequest
from odradek.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

LIST_GROUPS, API_VERSIONS = 16, 18


def test_a_broker_is_greeted_before_anything_is_asked(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        await scene.peers.begin(1, ListGroupsRequest())
        asked = [(one.api_key, one.api_version, one.client_id) for one in scene.actor.asked]
        assert asked == [(API_VERSIONS, 3, "tester"), (LIST_GROUPS, 4, "tester")]

    play(scenario)


def test_a_broker_that_does_not_know_the_greeting_is_greeted_in_version_0(play):
    async def scenario(scene):
        scene.actor.offer = {16: (0, 1), 18: (0, 1)}
        await scene.peers.ready(1, 1000)
        await scene.peers.begin(1, ListGroupsRequest())
        asked = [(one.api_key, one.api_version) for one in scene.actor.asked]
        assert asked == [(API_VERSIONS, 3), (API_VERSIONS, 0), (LIST_GROUPS, 1)]

    play(scenario)


def test_a_version_may_be_bounded(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        await scene.peers.begin(1, ListGroupsRequest(), version_max=2)
        built = []
        await scene.peers.begin(
            1, RequestBuilder(ListGroupsRequest, lambda v: built.append(v) or ListGroupsRequest())
        )
        assert [one.api_version for one in scene.actor.asked] == [3, 2, 4]
        assert built == [4]

    play(scenario)


def test_what_no_common_version_has_is_refused_with_a_name(play):
    async def scenario(scene):
        scene.actor.offer = {16: (90, 95), 18: (0, 3)}
        await scene.peers.ready(1, 1000)
        with pytest.raises(UnsupportedVersion, match=r"ListGroups.* 90 to 95.* 0 to 5.*actor:9092"):
            scene.peers.begin(1, ListGroupsRequest())
        with pytest.raises(UnsupportedVersion, match="does not offer Fetch"):
            scene.peers.begin(1, FetchRequest())

    play(scenario)


def test_a_field_that_the_version_cannot_carry_is_refused(play):
    async def scenario(scene):
        scene.actor.offer = {16: (0, 2), 18: (0, 3)}
        await scene.peers.ready(1, 1000)
        with pytest.raises(UnsupportedVersion, match="states_filter"):
            scene.peers.begin(1, ListGroupsRequest(states_filter=["Empty"]))
        assert scene.peers.node_status(1).in_flight == 0

    play(scenario)


def test_a_broker_that_is_not_there_is_named(play):
    async def scenario(scene):
        with pytest.raises(
            ConnectionFailed, match=r"Connection refused \(broker 1 \(actor:9092\)\)"
        ) as caught:
            await scene.peers.ready(1, 1000)
        assert caught.value.retriable

    play(scenario, is_there=False)


def test_a_slow_dial_is_given_up(play):
    async def scenario(scene):
        scene.network.part("client", "actor")
        with pytest.raises(ConnectionFailed, match="no connection within"):
            await scene.peers.ready(1, 60_000)
        assert 8000 <= scene.clock.monotonic_ms() <= 12_000

    play(scenario)


def test_a_greeting_that_is_not_answered_is_given_up(play):
    async def scenario(scene):
        scene.actor.answer = lambda header, request: None
        with pytest.raises(TimedOut, match="no answer to ApiVersions within 30000 ms"):
            await scene.peers.ready(1, 60_000)

    play(scenario)


@pytest.mark.parametrize("is_kept_open", [True, False])
def test_a_listener_with_tls_is_told_at_once_from_a_broker(play, is_kept_open):
    async def scenario(scene):
        def alert(header, request):
            if not is_kept_open:
                asyncio.get_running_loop().call_later(0.001, scene.actor.leave)
            return b"\x15\x03\x03\x00\x02\x02\x46"

        scene.actor.answer = alert
        with pytest.raises(ConnectionFailed, match=r"not the protocol.* TLS"):
            await scene.peers.ready(1, 60_000)
        assert scene.clock.monotonic_ms() < 1000

    play(scenario)


def test_a_connection_that_ends_as_soon_as_it_is_greeted_is_made_again(play):
    async def scenario(scene):
        scene.actor.answer = lambda header, request: scene.actor.politely(header, request) + b"\xff" * 4
        with pytest.raises(ConnectionFailed, match="not the protocol"):
            await scene.peers.ready(1, 1000)
        assert not scene.peers.is_ready(1)
        scene.actor.answer = scene.actor.politely
        await scene.peers.ready(1, 1000)
        await scene.peers.begin(1, ListGroupsRequest())

    play(scenario)


def test_who_waits_in_vain_is_told_why_the_last_attempt_failed(play):
    async def scenario(scene):
        with pytest.raises(ConnectionFailed):
            await scene.peers.ready(1, 1000)
        with pytest.raises(TimedOut, match=r"not ready for a request within 10 ms: .*Connection refused"):
            await scene.peers.ready(1, 10)

    play(scenario, is_there=False)


def test_what_is_under_way_when_a_connection_breaks_fails_naming_the_broker(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        scene.actor.answer = lambda header, request: None
        answers = [scene.peers.begin(1, ListGroupsRequest()) for _ in range(3)]
        await asyncio.sleep(0.1)
        for line in scene.network.connections.copy():
            line.reset()
        for answer in answers:
            with pytest.raises(
                ConnectionFailed, match=r"Connection reset by peer \(broker 1 \(actor:9092\)\)"
            ):
                await answer
        assert scene.peers.begin(1, ListGroupsRequest()) is None

    play(scenario)


def test_an_overdue_answer_ends_the_connection(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        scene.actor.answer = lambda header, request: None
        patient = scene.peers.begin(1, ListGroupsRequest(), 60_000)
        hasty = scene.peers.begin(1, ListGroupsRequest(), 500)
        await asyncio.sleep(0.1)
        with pytest.raises(TimedOut, match=r"no answer to ListGroups within 5\d\d ms \(broker 1"):
            await hasty
        with pytest.raises(ConnectionFailed, match="no answer to ListGroups"):
            await patient
        assert 500 <= scene.clock.monotonic_ms() < 600

    play(scenario)


def test_answers_in_time_keep_the_connection(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        for _ in range(5):
            await scene.peers.begin(1, ListGroupsRequest(), 500)
            await asyncio.sleep(0.3)
        await asyncio.sleep(60)
        assert scene.peers.is_ready(1)
        assert len(scene.actor.dialled_ms) == 1

    play(scenario)


def test_a_later_request_has_its_own_time(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        await scene.peers.begin(1, ListGroupsRequest(), 500)
        await asyncio.sleep(0.3)
        scene.actor.answer = lambda header, request: None
        with pytest.raises(TimedOut):
            await scene.peers.begin(1, ListGroupsRequest(), 2000)
        assert 2300 <= scene.clock.monotonic_ms() <= 2310

    play(scenario)


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
def test_garbage_ends_the_connection_and_fails_what_was_asked(play, garbage):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        scene.actor.answer = lambda header, request: garbage
        with pytest.raises(ConnectionFailed, match="is not the protocol"):
            await scene.peers.begin(1, ListGroupsRequest())
        assert not scene.peers.is_ready(1)

    play(scenario)


def test_an_answer_that_nobody_asked_for_ends_the_connection(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        scene.actor.lines[0].connection.send([b"\x00\x00\x00\x04\x00\x00\x00\x05"])
        await asyncio.sleep(0.1)
        assert not scene.peers.is_ready(1)

    play(scenario)


def test_what_came_whole_before_garbage_is_given(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        scene.actor.answer = lambda header, request: scene.reply(header, ListGroupsResponse()) + b"\xff" * 4
        answer = scene.peers.begin(1, ListGroupsRequest())
        assert (await answer).groups == []
        assert not scene.peers.is_ready(1)

    play(scenario)


def test_an_answer_that_nobody_waits_for_any_more_is_passed_over(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        given_up = scene.peers.begin(1, ListGroupsRequest())
        given_up.cancel()
        kept = scene.peers.begin(1, ListGroupsRequest())
        assert (await kept).groups == []

    play(scenario)


def test_a_request_without_an_answer_is_over_when_it_was_sent(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        scene.actor.answer = lambda header, request: None
        assert await scene.peers.begin(1, ListGroupsRequest(), expects_response=False) is None
        assert scene.peers.node_status(1).in_flight == 0

    play(scenario)


def test_a_request_without_an_answer_is_not_over_while_it_has_not_left(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        scene.actor.answer = lambda header, request: None
        line = next(one for one in scene.network.connections if one.host == "client")
        line.hold()
        stuck = [scene.peers.begin(1, ListGroupsRequest(), expects_response=False) for _ in range(5)]
        await asyncio.sleep(1)
        assert not any(one.done() for one in stuck)
        assert scene.peers.begin(1, ListGroupsRequest(), expects_response=False) is None
        line.release()
        await asyncio.gather(*stuck)
        assert scene.peers.is_ready(1)

    play(scenario)


@pytest.mark.parametrize("is_taken", [True, False])
def test_closing_lets_requests_without_an_answer_leave_if_they_do_soon(play, is_taken):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        scene.actor.answer = lambda header, request: None
        line = next(one for one in scene.network.connections if one.host == "client")
        line.hold()
        stuck = scene.peers.begin(1, ListGroupsRequest(), expects_response=False)
        closing = asyncio.create_task(scene.peers.close())
        await asyncio.sleep(0.5)
        assert not closing.done()
        if is_taken:
            line.release()
            assert await stuck is None
        else:
            with pytest.raises(ClientClosed):
                await stuck
        await closing
        assert [one.api_key for one in scene.actor.asked] == [API_VERSIONS, LIST_GROUPS][: 1 + is_taken]
        assert scene.clock.monotonic_ms() <= 1000

    play(scenario)


def test_a_closed_client_fails_what_is_under_way(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        scene.actor.answer = lambda header, request: None
        answer = scene.peers.begin(1, ListGroupsRequest())
        await scene.peers.close()
        with pytest.raises(ClientClosed):
            await answer
        with pytest.raises(ClientClosed):
            scene.peers.begin(1, ListGroupsRequest())
        with pytest.raises(ClientClosed):
            await scene.peers.ready(1, 1000)

    play(scenario)


def test_closing_in_the_midst_of_a_dial_leaves_nothing(play):
    async def scenario(scene):
        scene.network.part("client", "actor")
        waiting = asyncio.create_task(scene.peers.ready(1, 60_000))
        await asyncio.sleep(1)
        await scene.peers.close()
        with pytest.raises(ClientClosed):
            await waiting

    play(scenario)


def test_a_throttled_client_leaves_the_broker_alone(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        scene.actor.answer = lambda header, request: scene.reply(
            header, ListGroupsResponse(throttle_time_ms=700)
        )
        await scene.peers.begin(1, ListGroupsRequest())
        assert scene.peers.begin(1, ListGroupsRequest()) is None
        await scene.peers.ready(1, 5000)
        assert 700 <= scene.clock.monotonic_ms() <= 710
        assert scene.peers.begin(1, ListGroupsRequest()) is not None

    play(scenario)


def test_an_old_broker_throttles_by_itself(play):
    async def scenario(scene):
        scene.actor.offer = {16: (0, 1), 18: (0, 3)}
        await scene.peers.ready(1, 1000)
        scene.actor.answer = lambda header, request: scene.reply(
            header, ListGroupsResponse(throttle_time_ms=700)
        )
        await scene.peers.begin(1, ListGroupsRequest())
        assert scene.peers.is_ready(1)

    play(scenario)


def test_a_full_connection_is_waited_for(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        held = []

        def hold(header, request):
            held.append(header)

        scene.actor.answer = hold
        answers = [scene.peers.begin(1, ListGroupsRequest()) for _ in range(2)]
        assert scene.peers.begin(1, ListGroupsRequest()) is None
        waiting = asyncio.create_task(scene.peers.ready(1, 5000))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        scene.actor.lines[0].connection.send([scene.reply(held[0], ListGroupsResponse())])
        await waiting
        assert answers[0].done()
        assert not answers[1].done()

    play(scenario, ConnectionSettings(in_flight_max=2))
