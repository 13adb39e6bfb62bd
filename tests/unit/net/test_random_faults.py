"""Random connection faults: every request completes, in order or with an error."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.model.client_errors import ClientError
from odradek.net.connection_state import ConnectionSettings
from odradek.wire.messages.list_groups import ListGroupsRequest

ASKING = ["ask", "ask", "ask", "tell", "cancel"]
TROUBLE = ["reset", "hold", "release", "mute", "leave", "come", "garbage"]
runs = st.lists(
    st.tuples(st.sampled_from(ASKING + TROUBLE), st.sampled_from([0, 0, 10, 500, 3000])), max_size=30
)


class FaultRun:
    """Requests in order, and their results."""

    def __init__(self, harness):
        self.harness = harness
        self.started = []
        self.completed = []

    async def send(self, *, expects_response):
        try:
            await self.harness.pool.ready(1, 300)
        except ClientError:
            return
        response = self.harness.pool.send(1, ListGroupsRequest(), 2000, expects_response=expects_response)
        self.started.append(response)
        if expects_response:
            response.add_done_callback(self.completed.append)

    def server_connection(self, trouble):
        for item in [item for item in self.harness.network.connections if item.host == "client"]:
            getattr(item, trouble)()

    async def run_scenario(self, event):
        scripted = self.harness.scripted
        if event in {"ask", "tell"}:
            await self.send(expects_response=event == "ask")
        elif event == "cancel":
            for response in self.started[-1:]:
                response.cancel()
        elif event in {"leave", "come"}:
            scripted.crash()
            if event == "come":
                await scripted.listen()
        elif event == "garbage":
            for connection in scripted.connections:
                connection.connection.send([b"\x00\x00\x00\x05junk!"])
        else:
            self.server_connection(event)


@given(runs)
def test_every_request_completes_and_responses_are_in_order(run_scenario, events):
    async def scenario(harness):
        run = FaultRun(harness)
        for event, wait_ms in events:
            await run.run_scenario(event)
            await harness.clock.sleep_ms(wait_ms)
        run.server_connection("release")
        await harness.clock.sleep_ms(5000)
        assert all(response.done() for response in run.started)
        failed = [
            item.exception() for item in run.started if not item.cancelled() and item.exception() is not None
        ]
        assert all(isinstance(item, ClientError) for item in failed)
        succeeded = [item for item in run.completed if not item.cancelled() and item.exception() is None]
        assert succeeded == [item for item in run.started if item in succeeded]
        # Afterwards the client works as before.
        await run.run_scenario("come")
        await harness.clock.sleep_ms(2000)
        await harness.pool.ready(1, 5000)
        assert (await harness.pool.send(1, ListGroupsRequest())).groups == []

    run_scenario(scenario, ConnectionSettings(in_flight_max=3, request_timeout_ms=2000))
