"""Contract tests of ``BrokerRequests``, to be subclassed once per network.

Fixture ``run_on_network`` runs a coroutine function on an event loop with a network whose hosts reach each
other as ``HOST``. ``make_requests`` makes the implementation under test, for broker 1.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from odradek.cluster.metadata_cache import BrokerEndpoint, BrokerMetadata, MetadataCache, MetadataUpdate
from odradek.model.client_errors import ClientError, ConnectionFailed, TimedOut, UnsupportedVersion
from odradek.net.broker_requests import BrokerRequests
from odradek.ports.network import Network
from odradek.testing.contracts.network_contract import HOST, RunOnNetwork, until
from odradek.testing.scripted_broker import ScriptedBroker
from odradek.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from odradek.wire.messages.metadata import MetadataRequest

LISTENER: Final = "INTERNAL"
LOCAL_ID: Final = 1
TIMEOUT_MS: Final = 20_000
_LIST_GROUPS: Final = 16


class ClosableRequests(BrokerRequests, Protocol):
    async def close(self) -> None: ...


class ScriptedPeer(ScriptedBroker):
    """A broker that answers ListGroups with its name, in versions 0 to 4."""

    def __init__(self, network: Network, name: str) -> None:
        super().__init__(network)
        self.is_silent = False
        response = ListGroupsResponse(groups=[ListedGroup(name)])
        self.responses[_LIST_GROUPS] = lambda _: None if self.is_silent else response
        self.offered[_LIST_GROUPS] = range(5)


class ClusterFixture:
    """Broker 1, whose requests are tested, and scripted peers in its metadata cache."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.metadata_cache = MetadataCache()
        self.peers: list[ScriptedPeer] = []
        self.local_calls: list[tuple[Any, int | None]] = []

    async def add_peer(self, broker_id: int, name: str = "peer") -> ScriptedPeer:
        """Start a scripted broker, and give its address to broker 1."""
        peer = ScriptedPeer(self.network, name)
        self.peers.append(peer)
        self.set_endpoint(broker_id, await peer.listen(HOST))
        return peer

    def set_endpoint(self, broker_id: int, port: int, listener: str = LISTENER) -> None:
        broker = BrokerMetadata(broker_id, {listener: BrokerEndpoint(HOST, port)})
        self.metadata_cache.apply(MetadataUpdate(brokers={broker_id: broker}))

    def remove(self, broker_id: int) -> None:
        self.metadata_cache.apply(MetadataUpdate(brokers={broker_id: None}))

    def set_controller(self, broker_id: int) -> None:
        self.metadata_cache.apply(MetadataUpdate(controller_id=broker_id))

    async def call_local(self, request: Any, *, version_max: int | None) -> Any:
        self.local_calls.append((request, version_max))
        return ListGroupsResponse(groups=[ListedGroup("local")])


@contextmanager
def _raises(error: type[ClientError], text: str = "") -> Iterator[None]:
    caught: ClientError | None = None
    try:
        yield
    except error as raised:
        caught = raised
    assert caught is not None, f"{error.__name__} was not raised"
    assert text in str(caught), f"{caught} does not contain {text!r}"


def _name_in(response: Any) -> str:
    return str(response.groups[0].group_id)


class BrokerRequestsContract(abc.ABC):
    """Behaviour of ``BrokerRequests`` that senders rely on."""

    @abc.abstractmethod
    def make_requests(self, fixture: ClusterFixture) -> ClosableRequests:
        """Return the requests of broker ``LOCAL_ID`` over ``LISTENER``."""

    def _run(self, run_on_network: RunOnNetwork, scenario: Any) -> None:
        async def main(network: Network) -> None:
            fixture = ClusterFixture(network)
            requests = self.make_requests(fixture)
            try:
                await scenario(fixture, requests)
            finally:
                await requests.close()
                for peer in fixture.peers:
                    peer.close()

        run_on_network(main)

    def test_request_reaches_the_broker(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(fixture: ClusterFixture, requests: ClosableRequests) -> None:
            await fixture.add_peer(2, "two")
            await fixture.add_peer(3, "three")
            names = [
                _name_in(await requests.send(broker_id, ListGroupsRequest(), TIMEOUT_MS))
                for broker_id in (3, 2)
            ]
            assert names == ["three", "two"]

        self._run(run_on_network, scenario)

    def test_latest_common_version_up_to_the_limit_is_used(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(fixture: ClusterFixture, requests: ClosableRequests) -> None:
            peer = await fixture.add_peer(2)
            await requests.send(2, ListGroupsRequest(), TIMEOUT_MS)
            await requests.send(2, ListGroupsRequest(), TIMEOUT_MS, version_max=2)
            assert [request.version for request in peer.received] == [4, 2]
            with _raises(UnsupportedVersion):
                await requests.send(2, MetadataRequest(), TIMEOUT_MS)

        self._run(run_on_network, scenario)

    def test_unreachable_broker_fails(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(fixture: ClusterFixture, requests: ClosableRequests) -> None:
            with _raises(ConnectionFailed, "not alive"):
                await requests.send(2, ListGroupsRequest(), TIMEOUT_MS)
            peer = await fixture.add_peer(2)
            port = fixture.metadata_cache.brokers[2].endpoints[LISTENER].port
            fixture.set_endpoint(2, port, "OTHER")
            with _raises(ConnectionFailed, f"no listener {LISTENER}"):
                await requests.send(2, ListGroupsRequest(), TIMEOUT_MS)
            peer.close()
            fixture.set_endpoint(2, port)
            with _raises(ConnectionFailed):
                await requests.send(2, ListGroupsRequest(), TIMEOUT_MS)

        self._run(run_on_network, scenario)

    def test_missing_response_times_out(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(fixture: ClusterFixture, requests: ClosableRequests) -> None:
            peer = await fixture.add_peer(2)
            peer.is_silent = True
            with _raises(TimedOut):
                await requests.send(2, ListGroupsRequest(), 100)
            peer.is_silent = False
            assert _name_in(await requests.send(2, ListGroupsRequest(), TIMEOUT_MS)) == "peer"

        self._run(run_on_network, scenario)

    def test_broker_is_found_at_its_new_address(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(fixture: ClusterFixture, requests: ClosableRequests) -> None:
            peer = await fixture.add_peer(2, "before")
            await requests.send(2, ListGroupsRequest(), TIMEOUT_MS)
            peer.close()
            await until(lambda: not peer.connections)
            await fixture.add_peer(2, "after")
            name = None
            while name is None:
                try:
                    name = _name_in(await requests.send(2, ListGroupsRequest(), TIMEOUT_MS))
                except ConnectionFailed:
                    await asyncio.sleep(0.01)  # the loss of the old connection may be seen late
            assert name == "after"

        self._run(run_on_network, scenario)

    def test_broker_that_left_the_cluster_is_not_reached(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(fixture: ClusterFixture, requests: ClosableRequests) -> None:
            peer = await fixture.add_peer(2)
            await requests.send(2, ListGroupsRequest(), TIMEOUT_MS)
            fixture.remove(2)
            with _raises(ConnectionFailed, "not alive"):
                await requests.send(2, ListGroupsRequest(), TIMEOUT_MS)
            await until(lambda: not peer.connections)

        self._run(run_on_network, scenario)

    def test_controller_is_the_one_in_the_metadata_cache(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(fixture: ClusterFixture, requests: ClosableRequests) -> None:
            await fixture.add_peer(2, "two")
            await fixture.add_peer(3, "three")
            with _raises(ConnectionFailed, "controller"):
                await requests.send_to_controller(ListGroupsRequest(), TIMEOUT_MS)
            for broker_id, name in ((2, "two"), (3, "three"), (LOCAL_ID, "local")):
                fixture.set_controller(broker_id)
                assert _name_in(await requests.send_to_controller(ListGroupsRequest(), TIMEOUT_MS)) == name

        self._run(run_on_network, scenario)

    def test_local_broker_gets_the_request_object(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(fixture: ClusterFixture, requests: ClosableRequests) -> None:
            first, second = ListGroupsRequest(), ListGroupsRequest()
            assert _name_in(await requests.send(LOCAL_ID, first, TIMEOUT_MS, version_max=3)) == "local"
            channel = requests.open_channel(LOCAL_ID, "local-channel")
            assert _name_in(await channel.send(second, TIMEOUT_MS)) == "local"
            assert [(id(request), version) for request, version in fixture.local_calls] == [
                (id(first), 3),
                (id(second), None),
            ]
            await channel.close()
            with _raises(ConnectionFailed):
                await channel.send(second, TIMEOUT_MS)

        self._run(run_on_network, scenario)

    def test_channel_has_a_connection_of_its_own(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(fixture: ClusterFixture, requests: ClosableRequests) -> None:
            peer = await fixture.add_peer(2)
            channel = requests.open_channel(2, "fetcher-0")
            await requests.send(2, ListGroupsRequest(), TIMEOUT_MS)
            await channel.send(ListGroupsRequest(), TIMEOUT_MS)
            assert len(peer.connections) == 2
            assert [request.client_id for request in peer.received] == ["broker-1", "fetcher-0"]
            peer.is_silent = True
            waiting = asyncio.ensure_future(channel.send(ListGroupsRequest(), TIMEOUT_MS))
            await until(lambda: len(peer.received) == 3)
            await channel.close()
            with _raises(ConnectionFailed):
                await waiting
            with _raises(ConnectionFailed):
                await channel.send(ListGroupsRequest(), TIMEOUT_MS)
            peer.is_silent = False
            await requests.send(2, ListGroupsRequest(), TIMEOUT_MS)

        self._run(run_on_network, scenario)

    def test_channels_to_the_same_broker_share_nothing(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(fixture: ClusterFixture, requests: ClosableRequests) -> None:
            peer = await fixture.add_peer(2)
            channels = [requests.open_channel(2, f"fetcher-{number}") for number in range(2)]
            for channel in channels:
                await channel.send(ListGroupsRequest(), TIMEOUT_MS)
            assert len(peer.connections) == 2
            fixture.remove(2)
            with _raises(ConnectionFailed, "not alive"):
                await channels[0].send(ListGroupsRequest(), TIMEOUT_MS)
            await until(lambda: len(peer.connections) == 1)

        self._run(run_on_network, scenario)

    def test_channel_connects_again_after_a_failure(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(fixture: ClusterFixture, requests: ClosableRequests) -> None:
            peer = await fixture.add_peer(2)
            channel = requests.open_channel(2, "fetcher-0")
            await channel.send(ListGroupsRequest(), TIMEOUT_MS)
            peer.is_silent = True
            waiting = asyncio.ensure_future(channel.send(ListGroupsRequest(), TIMEOUT_MS))
            await until(lambda: len(peer.received) == 2)
            peer.drop_connections()
            with _raises(ConnectionFailed):
                await waiting
            peer.is_silent = False
            assert _name_in(await channel.send(ListGroupsRequest(), TIMEOUT_MS)) == "peer"
            await channel.close()

        self._run(run_on_network, scenario)

    def test_close_fails_requests_in_flight(self, run_on_network: RunOnNetwork) -> None:
        async def scenario(fixture: ClusterFixture, requests: ClosableRequests) -> None:
            peer = await fixture.add_peer(2)
            peer.is_silent = True
            channel = requests.open_channel(2, "fetcher-0")
            waiting = [
                asyncio.ensure_future(requests.send(2, ListGroupsRequest(), TIMEOUT_MS)),
                asyncio.ensure_future(channel.send(ListGroupsRequest(), TIMEOUT_MS)),
            ]
            await until(lambda: len(peer.received) == 2)
            await requests.close()
            for request in waiting:
                with _raises(ConnectionFailed):
                    await request
            await until(lambda: not peer.connections)

        self._run(run_on_network, scenario)
