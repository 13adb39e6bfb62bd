"""Many connections: when they are made, made again, and ended."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.client_errors import AuthenticationFailed, ConnectionFailed, TimedOut
from odradek.model.errors import ErrorCode
from odradek.net.backoff import exponential_backoff_ms
from odradek.net.broker_connection import greeting_refusal
from odradek.net.connection_state import ConnectionSettings
from odradek.testing.entropy import SeededEntropy
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def test_a_connection_is_made_when_it_is_first_needed_and_once(play):
    async def scenario(scene):
        await asyncio.sleep(1)
        assert scene.actor.dialled_ms == []
        await asyncio.gather(*(scene.peers.ready(1, 1000) for _ in range(10)))
        assert len(scene.actor.dialled_ms) == 1

    play(scenario)


def test_attempts_are_further_apart_with_each_failure(play):
    async def scenario(scene):
        failed_ms = []
        for _ in range(8):
            with pytest.raises(ConnectionFailed):
                await scene.peers.ready(1, 60_000)
            failed_ms.append(scene.clock.monotonic_ms())
        rests = [later - earlier for earlier, later in itertools.pairwise(failed_ms)]
        for rest, plain in zip(rests, [50, 100, 200, 400, 800, 1000, 1000], strict=True):
            assert 0.8 * plain <= rest <= 1.2 * plain + 1
        await scene.actor.listen()
        await scene.peers.ready(1, 60_000)
        assert scene.peers.node_status(1).failures == 0

    play(scenario, is_there=False)


def test_a_broker_that_came_back_is_reached_again(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        scene.actor.leave()
        await asyncio.sleep(0.01)
        assert not scene.peers.is_ready(1)
        with pytest.raises(ConnectionFailed):
            await scene.peers.ready(1, 1000)
        await scene.actor.listen()
        await scene.peers.ready(1, 1000)
        await scene.peers.begin(1, ListGroupsRequest())

    play(scenario)


def test_a_broker_that_refuses_every_greeting_is_not_hammered(play):
    async def scenario(scene):
        scene.actor.answer = lambda header, request: b"\xff\xff\xff\xff"
        while scene.clock.monotonic_ms() < 10_000:
            with pytest.raises(ConnectionFailed):
                await scene.peers.ready(1, 60_000)
        assert len(scene.actor.dialled_ms) < 20

    play(scenario)


def test_waiting_for_a_broker_ends_with_the_time_given(play):
    async def scenario(scene):
        scene.network.part("client", "actor")
        with pytest.raises(TimedOut, match=r"not ready for a request within 300 ms \(broker 1 "):
            await scene.peers.ready(1, 300)
        scene.network.heal()

    play(scenario)


def test_attempts_may_take_longer_with_each_failure(play):
    async def scenario(scene):
        scene.network.part("client", "actor")
        took = []
        for _ in range(4):
            began_ms = scene.clock.monotonic_ms()
            with pytest.raises(ConnectionFailed, match="no connection within"):
                await scene.peers.ready(1, 600_000)
            took.append(scene.clock.monotonic_ms() - began_ms)
        for one, plain_ms in zip(took, [10_000, 20_000, 30_000, 30_000], strict=True):
            assert 0.8 * plain_ms <= one <= 1.2 * plain_ms + 500

    play(scenario)


def test_a_connection_proves_who_it_is_before_anything_else(play):
    async def scenario(scene):
        seen = []

        async def handshake(peer):
            answer = await peer.begin_in(SaslHandshakeRequest("PLAIN"), 1, 1000)
            if answer.error_code:
                raise greeting_refusal(ErrorCode(answer.error_code), "SaslHandshake", peer.name)
            seen.append(peer.name)

        def answer(header, request):
            if header.api_key == 17:
                return scene.reply(header, SaslHandshakeResponse(0 if request.mechanism == "PLAIN" else 33))
            return scene.actor.politely(header, request)

        scene.actor.answer = answer
        peers = scene.make_peers(handshake)
        peers.put(1, "actor", 9092)
        await peers.ready(1, 1000)
        assert [one.api_key for one in scene.actor.asked] == [17, 18]
        assert seen == ["1 (actor:9092)"]
        await peers.close()

    play(scenario)


def test_a_broker_that_does_not_know_us_says_so_to_all_who_wait(play):
    async def scenario(scene):
        async def handshake(peer):
            raise greeting_refusal(ErrorCode.SASL_AUTHENTICATION_FAILED, "SaslAuthenticate", peer.name)

        peers = scene.make_peers(handshake)
        peers.put(1, "actor", 9092)
        waiting = [peers.ready(1, 1000) for _ in range(2)]
        for outcome in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(outcome, AuthenticationFailed)
            assert not outcome.retriable
        await asyncio.sleep(0.1)
        assert scene.actor.lines == []
        await peers.close()

    play(scenario)


def test_a_connection_that_is_not_used_is_ended(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        for _ in range(4):
            await asyncio.sleep(0.9)
            await scene.peers.begin(1, ListGroupsRequest())
        assert len(scene.actor.lines) == 1
        await asyncio.sleep(1.5)
        assert scene.actor.lines == []
        await scene.peers.ready(1, 0.01)

    play(scenario, ConnectionSettings(idle_max_ms=1000))


def test_a_connection_with_something_under_way_is_not_idle(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        scene.actor.answer = lambda header, request: None
        answer = scene.peers.begin(1, ListGroupsRequest(), 20_000)
        await asyncio.sleep(10)
        assert not answer.done()

    play(scenario, ConnectionSettings(idle_max_ms=1000))


def test_unused_connections_may_be_kept_for_ever(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        await asyncio.sleep(100_000)
        assert scene.peers.is_ready(1)

    play(scenario, ConnectionSettings(idle_max_ms=-1))


def test_a_broker_that_moved_is_looked_for_at_its_new_address(play):
    async def scenario(scene):
        for _ in range(6):
            with pytest.raises(ConnectionFailed):
                await scene.peers.ready(1, 10_000)
        moved_ms = scene.clock.monotonic_ms()
        await scene.actor.listen("elsewhere", 9093)
        scene.peers.put(1, "elsewhere", 9093)
        await scene.peers.ready(1, 10_000)
        assert scene.clock.monotonic_ms() == moved_ms
        assert scene.peers.name(1) == "1 (elsewhere:9093)"

    play(scenario, is_there=False)


def test_a_dropped_place_fails_what_waits_for_it(play):
    async def scenario(scene):
        await scene.peers.ready(1, 1000)
        scene.actor.answer = lambda header, request: None
        answer = scene.peers.begin(1, ListGroupsRequest())
        waiting = asyncio.create_task(scene.peers.ready(1, 1000))
        await asyncio.sleep(0.1)
        scene.peers.drop(1)
        for failing in (answer, waiting):
            with pytest.raises(ConnectionFailed, match="no longer part of the cluster"):
                await failing
        with pytest.raises(ConnectionFailed, match="there is no broker 1"):
            await scene.peers.ready(1, 1000)

    play(scenario, ConnectionSettings(in_flight_max=1))


@given(st.integers(0, 10_000), st.integers(0, 100_000), st.integers(0, 200), st.integers(0, 1000))
def test_a_rest_doubles_up_to_its_bound_and_varies_by_a_fifth(first_ms, max_ms, failures, seed):
    rest_ms = exponential_backoff_ms(first_ms, max_ms, failures, SeededEntropy(seed))
    plain_ms = min(first_ms * 2**failures, max(first_ms, max_ms))
    assert 0.8 * plain_ms - 1 <= rest_ms <= 1.2 * plain_ms + 1
