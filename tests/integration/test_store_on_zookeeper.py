"""The users of the store on a real ZooKeeper, and what their znodes look like to another client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from tests.support.zookeeper import TICK_MS, ZooKeeperWorld, new_chroot, zookeeper_world

from odradek.config import broker
from odradek.config.definition import parse_settings
from odradek.model.ids import TopicPartition
from odradek.store.broker_registration import (
    BrokerIdTaken,
    create_or_get_cluster_id,
    create_top_level_paths,
    read_brokers,
    register_broker,
)
from odradek.store.configs import change_config, read_config, watch_config_changes
from odradek.store.controller_election import (
    ControllerMoved,
    elect,
    fenced_multi,
    read_controller,
)
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import (
    BrokerRegistration,
    LeaderIsrAndControllerEpoch,
    RegisteredEndpoint,
    ReplicaAssignment,
    TopicAssignment,
)
from odradek.store.partition_states import (
    VersionedLeaderAndIsr,
    create_partition_states,
    read_partition_states,
    write_partition_states,
)
from odradek.store.port import NodeExists, SessionExpired, SetDataOp, Store, Unavailable, WatchedEventType
from odradek.store.topics import create_topic, read_topics, remove_topic
from odradek.store.zookeeper.ensemble import ZooKeeperEnsemble, open_zookeeper
from odradek.store.zookeeper.errors import AccessDenied
from odradek.system.entropy import SystemEntropy
from odradek.system.local_zookeeper import LocalZooKeeper, free_port
from odradek.testing.contracts.store_fixture import RecordingWatcher

CERTIFICATES = Path(__file__).parents[1] / "support" / "certificates"
REGISTRATION = BrokerRegistration((RegisteredEndpoint("PLAINTEXT", "PLAINTEXT", "h", 9092),), 5)
STATE = LeaderIsrAndControllerEpoch(1, 0, (1, 2), 1)
PARTITIONS = 5000


class RawNodes:
    """Znodes below a chroot, read with kazoo alone."""

    def __init__(self, server: LocalZooKeeper, chroot: str, **options: Any) -> None:
        self._client = KazooClient(f"127.0.0.1:{server.port}{chroot}", **options)

    async def __aenter__(self) -> KazooClient:
        await asyncio.to_thread(self._client.start)
        return self._client

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._client.stop)
        self._client.close()


def run(server: LocalZooKeeper, scenario: Callable[[ZooKeeperWorld], Awaitable[None]]) -> None:
    async def main() -> None:
        async with zookeeper_world(server) as world:
            await scenario(world)

    asyncio.run(main())


def settings_for(connect: str, **values: str) -> Any:
    raw = {"zookeeper.connect": connect, **{name.replace("_", "."): value for name, value in values.items()}}
    return parse_settings(broker.BY_NAME, raw)


def test_broker_is_registered_by_an_ephemeral_node(zookeeper: LocalZooKeeper) -> None:
    async def scenario(world: ZooKeeperWorld) -> None:
        first, second = await world.connect(), await world.connect()
        await create_top_level_paths(first)
        cluster_id = await create_or_get_cluster_id(first, SystemEntropy())
        assert await create_or_get_cluster_id(second, SystemEntropy()) == cluster_id
        epoch = await register_broker(first, 1, REGISTRATION)
        assert await register_broker(first, 1, REGISTRATION) == epoch
        with pytest.raises(BrokerIdTaken):
            await register_broker(second, 1, REGISTRATION)
        await register_broker(second, 2, REGISTRATION)
        assert list(await read_brokers(second)) == [1, 2]
        async with RawNodes(zookeeper, world.chroot) as raw:
            data, stat = await asyncio.to_thread(raw.get, "/brokers/ids/1")
            assert json.loads(data)["endpoints"] == ["PLAINTEXT://h:9092"]
            assert (stat.ephemeralOwner, stat.czxid) == (first.session_id, epoch)
            data, _ = await asyncio.to_thread(raw.get, "/cluster/id")
            assert json.loads(data)["id"] == cluster_id
            await world.expire(first)
            assert await asyncio.to_thread(raw.get_children, "/brokers/ids") == ["2"]
        assert await register_broker(second, 1, REGISTRATION) > epoch

    run(zookeeper, scenario)


def test_controller_moves_when_its_session_expires(zookeeper: LocalZooKeeper) -> None:
    async def scenario(world: ZooKeeperWorld) -> None:
        first, second = await world.connect(), await world.connect()
        fences = await asyncio.gather(elect(first, 1, 5), elect(second, 2, 5))
        assert sum(fence is not None for fence in fences) == 1
        (winner, old_id), (loser, new_id) = ((first, 1), (second, 2))
        if fences[0] is None:
            (winner, old_id), (loser, new_id) = (loser, new_id), (winner, old_id)
        fence = fences[old_id - 1]
        assert fence is not None
        watch = RecordingWatcher()
        await loser.watch_exists("/controller", watch)
        controller = await read_controller(loser)
        assert controller is not None
        assert controller.broker_id == old_id
        await world.expire(winner)
        assert (await watch.next()).kind is WatchedEventType.DELETED
        new_fence = await elect(loser, new_id, 6)
        assert new_fence is not None
        assert new_fence.controller_epoch == fence.controller_epoch + 1
        with pytest.raises(SessionExpired):
            await fenced_multi(winner, fence, [SetDataOp("/controller_epoch", b"99")])
        with pytest.raises(ControllerMoved):
            await fenced_multi(loser, fence, [SetDataOp("/controller_epoch", b"99")])
        async with RawNodes(zookeeper, world.chroot) as raw:
            data, stat = await asyncio.to_thread(raw.get, "/controller")
            assert (json.loads(data)["brokerid"], stat.ephemeralOwner) == (new_id, loser.session_id)
            data, stat = await asyncio.to_thread(raw.get, "/controller_epoch")
            assert (data, stat.version) == (b"%d" % new_fence.controller_epoch, new_fence.epoch_version)

    run(zookeeper, scenario)


def test_election_with_a_lost_response_is_recognised(zookeeper: LocalZooKeeper) -> None:
    async def scenario(world: ZooKeeperWorld) -> None:
        store, other = await world.connect(), await world.connect()
        await other.create(znode_paths.CONTROLLER_EPOCH, b"7")
        watch = RecordingWatcher()
        await other.watch_exists(znode_paths.CONTROLLER, watch)
        election = asyncio.create_task(elect_until_lost(world, store))
        assert (await watch.next()).kind is WatchedEventType.CREATED
        await world.disconnect(store)
        with pytest.raises(Unavailable):
            await election
        await world.reconnect(store)
        fence = await elect(store, 1, 5)
        assert fence is not None
        assert fence.controller_epoch == 8
        controller = await read_controller(other)
        assert controller is not None
        assert controller.broker_id == 1
        assert await elect(other, 2, 5) is None

    async def elect_until_lost(world: ZooKeeperWorld, store: Store) -> None:
        original = store.multi

        async def multi(ops: Any) -> Any:
            await world.hold_responses(store)
            return await original(ops)

        store.multi = multi  # type: ignore[method-assign]
        try:
            await elect(store, 1, 5)
        finally:
            store.multi = original  # type: ignore[method-assign]

    run(zookeeper, scenario)


def test_topics_and_configs_are_kafkas_znodes(zookeeper: LocalZooKeeper) -> None:
    async def scenario(world: ZooKeeperWorld) -> None:
        store, other = await world.connect(), await world.connect()
        await create_top_level_paths(store)
        watch = RecordingWatcher()
        assert await read_topics(other, watcher=watch) == {}
        assignment = TopicAssignment(None, {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2, 1))})
        await create_topic(store, "orders", assignment, {"retention.ms": "5"})
        assert (await watch.next()).path == "/brokers/topics"
        assert (await read_topics(other))["orders"].assignment.partitions == assignment.partitions
        with pytest.raises(NodeExists):
            await create_topic(other, "orders", assignment, {})
        assert await watch_config_changes(other, watch) == []
        await change_config(store, "topics", "orders", {"retention.ms": "6"})
        assert (await watch.next()).path == "/config/changes"
        (change,) = await watch_config_changes(other)
        assert change.entity_path == "topics/orders"
        assert await read_config(other, "topics", "orders") == {"retention.ms": "6"}
        async with RawNodes(zookeeper, world.chroot) as raw:
            data, _ = await asyncio.to_thread(raw.get, "/brokers/topics/orders")
            assert json.loads(data)["partitions"] == {"0": [1, 2], "1": [2, 1]}
            data, _ = await asyncio.to_thread(raw.get, "/config/topics/orders")
            assert json.loads(data) == {"version": 1, "config": {"retention.ms": "6"}}
            data, _ = await asyncio.to_thread(raw.get, "/config/changes/config_change_0000000000")
            assert json.loads(data) == {"version": 2, "entity_path": "topics/orders"}
        await remove_topic(store, "orders")
        assert await read_topics(other) == {}
        assert await read_config(other, "topics", "orders") == {}

    run(zookeeper, scenario)


@pytest.mark.timeout(300)
def test_thousands_of_partition_states_are_written_in_windows(zookeeper: LocalZooKeeper) -> None:
    async def scenario(world: ZooKeeperWorld) -> None:
        store = await world.connect()
        await create_top_level_paths(store)
        fence = await elect(store, 1, 5)
        assert fence is not None
        for number in range(5):
            await store.ensure_path(znode_paths.topic(f"t{number}"))
        partitions = [TopicPartition(f"t{number % 5}", number // 5) for number in range(PARTITIONS)]
        created = await create_partition_states(store, dict.fromkeys(partitions, STATE), fence)
        assert set(created.values()) == {0}
        shrunk = LeaderIsrAndControllerEpoch(1, 1, (1,), fence.controller_epoch)
        states = {partition: VersionedLeaderAndIsr(shrunk, 0) for partition in partitions}
        states[partitions[77]] = VersionedLeaderAndIsr(shrunk, 4)
        written = await write_partition_states(store, states, fence)
        assert [p for p, outcome in written.items() if outcome != 1] == [partitions[77]]
        stored = await read_partition_states(store, partitions)
        assert [p for p, state in stored.items() if state != VersionedLeaderAndIsr(shrunk, 1)] == [
            partitions[77]
        ]
        async with RawNodes(zookeeper, world.chroot) as raw:
            for topic in range(5):
                names = await asyncio.to_thread(raw.get_children, f"/brokers/topics/t{topic}/partitions")
                assert len(names) == PARTITIONS // 5
            data, stat = await asyncio.to_thread(raw.get, "/brokers/topics/t3/partitions/999/state")
            state = json.loads(data)
            assert (state["leader"], state["leader_epoch"], state["isr"], stat.version) == (1, 1, [1], 1)
        other = await world.connect()
        await store.delete(znode_paths.CONTROLLER)
        assert await elect(other, 2, 5) is not None
        fenced = await write_partition_states(store, dict(list(states.items())[:50]), fence)
        assert {type(outcome) for outcome in fenced.values()} == {ControllerMoved}

    run(zookeeper, scenario)


def test_unreachable_zookeeper_is_one_line_with_its_address() -> None:
    async def message(connect: str) -> str:
        ensemble = open_zookeeper(settings_for(connect, zookeeper_connection_timeout_ms="600"))
        with pytest.raises(Unavailable) as raised:
            await ensemble.connect()
        return str(raised.value)

    port = free_port()
    text = asyncio.run(message(f"127.0.0.1:{port}/kafka"))
    assert text == (
        f"store is unavailable: 127.0.0.1:{port}: no session with ZooKeeper within "
        "zookeeper.connection.timeout.ms=600: Connection refused. Start ZooKeeper there, or correct "
        "zookeeper.connect"
    )
    text = asyncio.run(message("no-such-host.invalid:2181"))
    assert "no-such-host.invalid:2181" in text
    assert "Cannot resolve" in text
    assert "\n" not in text


def test_acls_keep_other_clients_from_writing(zookeeper: LocalZooKeeper) -> None:
    chroot = new_chroot()
    connect = f"127.0.0.1:{zookeeper.port}{chroot}"

    async def main() -> None:
        owner = open_zookeeper(
            settings_for(
                connect, zookeeper_set_acl="true", odradek_zookeeper_digest_credentials="kafka:secret"
            )
        )
        stranger = open_zookeeper(settings_for(connect))
        store = await owner.connect()
        await create_top_level_paths(store)
        await change_config(store, "users", "alice", {"SCRAM-SHA-512": "hash"})
        other = await stranger.connect()
        assert await read_brokers(other) == {}
        with pytest.raises(AccessDenied, match="/brokers/ids/1"):
            await register_broker(other, 1, REGISTRATION)
        with pytest.raises(AccessDenied):
            await read_config(other, "users", "alice")
        with pytest.raises(AccessDenied):
            await other.multi([SetDataOp("/brokers/ids", b"1")])
        await other.create("/consumers/old")
        second = await owner.connect()
        assert await read_config(second, "users", "alice") == {"SCRAM-SHA-512": "hash"}
        async with RawNodes(zookeeper, chroot) as raw:
            acls, _ = await asyncio.to_thread(raw.get_acls, "/brokers/ids")
            assert [(acl.id.scheme, acl.id.id.split(":")[0], acl.perms) for acl in acls] == [
                ("digest", "kafka", 31),
                ("world", "anyone", 1),
            ]
            with pytest.raises(NoAuthError):
                await asyncio.to_thread(raw.get, "/config/users/alice")
        await owner.close()
        await stranger.close()

    asyncio.run(main())


def test_session_over_tls(tmp_path: Path) -> None:
    secure_port = free_port()
    properties = {
        "secureClientPort": str(secure_port),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(CERTIFICATES / "server.pem"),
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": str(CERTIFICATES / "authority.pem"),
        "ssl.trustStore.type": "PEM",
    }
    tls = {
        "zookeeper_ssl_client_enable": "true",
        "zookeeper_ssl_enabled_protocols": "TLSv1.3,TLSv1.2",
        "zookeeper_ssl_keystore_location": str(CERTIFICATES / "client-encrypted.pem"),
        "zookeeper_ssl_keystore_password": "secret",
        "zookeeper_ssl_truststore_location": str(CERTIFICATES / "authority.pem"),
    }
    connect = f"127.0.0.1:{secure_port}/kafka"

    async def main(server: LocalZooKeeper) -> None:
        ensemble = open_zookeeper(settings_for(connect, zookeeper_set_acl="true", **tls))
        store = await ensemble.connect()
        await store.create("/a", b"x" * 500_000)
        assert len((await store.get("/a"))[0]) == 500_000
        async with RawNodes(server, "/kafka") as raw:
            acls, _ = await asyncio.to_thread(raw.get_acls, "/a")
            assert acls[0].id == ("x509", "CN=client")
        await ensemble.close()
        distrusting = {**tls, "zookeeper_connection_timeout_ms": "1000"}
        del distrusting["zookeeper_ssl_truststore_location"]
        with pytest.raises(Unavailable, match=f"127.0.0.1:{secure_port}.*certificate verify failed"):
            await open_zookeeper(settings_for(connect, **distrusting)).connect()

    with LocalZooKeeper(tmp_path, {}, tick_ms=TICK_MS, is_durable=False, properties=properties) as server:
        asyncio.run(main(server))


def test_closed_ensemble_has_closed_its_sessions(zookeeper: LocalZooKeeper) -> None:
    async def main() -> None:
        ensemble = open_zookeeper(settings_for(f"127.0.0.1:{zookeeper.port}{new_chroot()}"))
        assert isinstance(ensemble, ZooKeeperEnsemble)
        stores = [await ensemble.connect() for _ in range(2)]
        await ensemble.close()
        for store in stores:
            with pytest.raises(SessionExpired):
                await store.exists("/")
        store = await ensemble.connect()
        assert await store.exists("/") is not None
        await ensemble.close()

    asyncio.run(main())
