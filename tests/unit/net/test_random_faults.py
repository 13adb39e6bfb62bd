"""Random connection faults: every request completes, in order or with an error."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.model.client_errors import ClientError
from odradek.net.connection_state import ConnectionSettings
from odradek.wire.messages.list_groups import ListGroupsRequest

REQUESTS = ["request", "request", "request", "request_without_response", "cancel"]
FAULTS = ["reset", "hold", "release", "mute", "crash", "restart", "garbage"]
runs = st.lists(
    st.tuples(st.sampled_from(REQUESTS + FAULTS), st.sampled_from([0, 0, 10, 500, 3000])), max_size=30
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

    def inject(self, fault):
        for connection in [c for c in self.harness.network.connections if c.host == "client"]:
            getattr(connection, fault)()

    async def apply(self, event):
        scripted = self.harness.scripted
        if event in {"request", "request_without_response"}:
            await self.send(expects_response=event == "request")
        elif event == "cancel":
            for response in self.started[-1:]:
                response.cancel()
        elif event in {"crash", "restart"}:
            scripted.crash()
            if event == "restart":
                await scripted.listen()
        elif event == "garbage":
            for connection in scripted.connections:
                connection.connection.send([b"\x00\x00\x00\x05junk!"])
        else:
            self.inject(event)


@given(runs)
def test_every_request_completes_and_responses_are_in_order(run_scenario, events):
    async def scenario(harness):
        run = FaultRun(harness)
        for event, wait_ms in events:
            await run.apply(event)
            await harness.clock.sleep_ms(wait_ms)
        run.inject("release")
        await harness.clock.sleep_ms(5000)
        assert all(response.done() for response in run.started)
        failed = [
            future.exception()
            for future in run.started
            if not future.cancelled() and future.exception() is not None
        ]
        assert all(isinstance(error, ClientError) for error in failed)
        succeeded = [
            future for future in run.completed if not future.cancelled() and future.exception() is None
        ]
        assert succeeded == [future for future in run.started if future in succeeded]
        # Afterwards the client works as before.
        await run.apply("restart")
        await harness.clock.sleep_ms(2000)
        await harness.pool.ready(1, 5000)
        assert (await harness.pool.send(1, ListGroupsRequest())).groups == []

    run_scenario(scenario, ConnectionSettings(in_flight_max=3, request_timeout_ms=2000))
