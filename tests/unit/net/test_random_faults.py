"""Whatever happens to a line, every request ends: answered in order, or with a reason."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.model.client_errors import ClientError
from odradek.net.connection_state import ConnectionSettings
from odradek.wire.messages.list_groups import ListGroupsRequest

ASKING = ["ask", "ask", "ask", "tell", "cancel"]
TROUBLE = ["reset", "hold", "release", "mute", "leave", "come", "garbage"]
days = st.lists(
    st.tuples(st.sampled_from(ASKING + TROUBLE), st.sampled_from([0, 0, 10, 500, 3000])), max_size=30
)


class Day:
    """What was asked, in order, and what became of it."""

    def __init__(self, scene):
        self.scene = scene
        self.begun = []
        self.ended = []

    async def ask(self, *, expects_response):
        try:
            await self.scene.peers.ready(1, 300)
        except ClientError:
            return
        answer = self.scene.peers.begin(1, ListGroupsRequest(), 2000, expects_response=expects_response)
        self.begun.append(answer)
        if expects_response:
            answer.add_done_callback(self.ended.append)

    def line(self, trouble):
        for one in [one for one in self.scene.network.connections if one.host == "client"]:
            getattr(one, trouble)()

    async def play(self, event):
        actor = self.scene.actor
        if event in {"ask", "tell"}:
            await self.ask(expects_response=event == "ask")
        elif event == "cancel":
            for answer in self.begun[-1:]:
                answer.cancel()
        elif event in {"leave", "come"}:
            actor.leave()
            if event == "come":
                await actor.listen()
        elif event == "garbage":
            for one in actor.lines:
                one.connection.send([b"\x00\x00\x00\x05junk!"])
        else:
            self.line(event)


@given(days)
def test_every_request_ends_and_answers_come_in_order(play, events):
    async def scenario(scene):
        day = Day(scene)
        for event, wait_ms in events:
            await day.play(event)
            await scene.clock.sleep_ms(wait_ms)
        day.line("release")
        await scene.clock.sleep_ms(5000)
        assert all(answer.done() for answer in day.begun)
        failed = [one.exception() for one in day.begun if not one.cancelled() and one.exception() is not None]
        assert all(isinstance(one, ClientError) for one in failed)
        answered = [one for one in day.ended if not one.cancelled() and one.exception() is None]
        assert answered == [one for one in day.begun if one in answered]
        # Afterwards all is as if nothing had happened.
        await day.play("come")
        await scene.clock.sleep_ms(2000)
        await scene.peers.ready(1, 5000)
        assert (await scene.peers.begin(1, ListGroupsRequest())).groups == []

    play(scenario, ConnectionSettings(in_flight_max=3, request_timeout_ms=2000))
