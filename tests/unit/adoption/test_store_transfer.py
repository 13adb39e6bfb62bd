"""Adoption and release of a broker's files and stores, with a crash at every write.

Both ends are embedded stores; one stands for ZooKeeper. A small window makes many writes of few nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.support.crash_points import Crashed, CrashingEnsemble, CrashingFiles, CrashPoint

from odradek.adoption import store_transfer
from odradek.adoption.store_transfer import TransferEnvironment
from odradek.broker.start_checks import check_identity
from odradek.log.directory.directory_lock import DirectoryInUse, lock_directory
from odradek.model.errors import StorageError
from odradek.model.ids import TopicPartition
from odradek.store import meta_properties
from odradek.store.broker_registration import BrokerIdRules, create_top_level_paths, generate_broker_id
from odradek.store.configs import change_config
from odradek.store.controller_election import elect
from odradek.store.embedded.ensemble import EmbeddedEnsemble
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import (
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicAssignment,
    decode_partition_state,
    decode_producer_id_block,
    decode_topic,
    encode_cluster_id,
)
from odradek.store.partition_states import create_partition_states
from odradek.store.port import Store
from odradek.store.producer_id_manager import allocate_block
from odradek.store.topics import create_topic
from odradek.store.transfer import transfer, transfer_plan
from odradek.store.transfer.stored_nodes import read_nodes
from odradek.store.transfer.transfer_mark import (
    TRANSFER,
    TransferIncomplete,
    TransferKind,
    check_unmarked,
    read_mark,
)
from odradek.store.transfer.transfer_plan import TransferRefused
from odradek.system.clock import SystemClock
from odradek.system.files import RealFileSystem

T = TypeVar("T")
CLUSTER_ID = "Zm9vYmFyYmF6cXV4MTIzNA"
TOPIC_IDS = {"letters": bytes(range(16)), "diary": bytes(range(1, 17))}
STORE = "odradek-store.sqlite"
WINDOW_OPS = 3


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_plan, "WINDOW_OPS_MAX", WINDOW_OPS)
    monkeypatch.setattr(transfer, "WINDOW_OPS_MAX", WINDOW_OPS)


class Home:
    """A stopped broker 0 with two log directories, and a store in place of ZooKeeper."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log_dirs = [str(root / "data-1"), str(root / "data-2")]
        self.zookeeper = str(root / "zookeeper.sqlite")
        self.clock = SystemClock()

    def create(self) -> Home:
        for log_dir in self.log_dirs:
            Path(log_dir).mkdir(parents=True)
        meta_properties.write_all(RealFileSystem(), self.log_dirs, 0, CLUSTER_ID, 0)
        self.on_store(self.embedded, fill)
        return self

    @property
    def embedded(self) -> str:
        return f"{self.log_dirs[0]}/{STORE}"

    def environment(self, crash: CrashPoint) -> TransferEnvironment:
        def open_store(path: str) -> CrashingEnsemble:
            return CrashingEnsemble(EmbeddedEnsemble(path, self.clock), crash)

        return TransferEnvironment(
            CrashingFiles(crash), self.clock, open_store, lambda: open_store(self.zookeeper)
        )

    def adopt(self, crash: CrashPoint | None = None, broker_id: int | None = 1) -> Any:
        environment = self.environment(crash or CrashPoint())
        return asyncio.run(store_transfer.adopt(environment, self.log_dirs, broker_id, lambda _n, _all: None))

    def release(self, crash: CrashPoint | None = None) -> Any:
        environment = self.environment(crash or CrashPoint())
        return asyncio.run(store_transfer.release(environment, self.log_dirs, lambda _n, _all: None))

    def cancel(self, crash: CrashPoint | None = None) -> None:
        environment = self.environment(crash or CrashPoint())
        asyncio.run(store_transfer.cancel_adoption(environment, self.log_dirs))

    def on_store(self, path: str, work: Callable[[Store], Awaitable[T]]) -> T:
        async def run() -> T:
            ensemble = EmbeddedEnsemble(path, self.clock)
            try:
                return await work(ensemble.connect())
            finally:
                await ensemble.close()

        return asyncio.run(run())

    def contents(self, path: str) -> dict[str, bytes]:
        """Persistent nodes of a store."""

        async def read(store: Store) -> dict[str, bytes]:
            nodes = await read_nodes(store)
            return {name: data for name, (data, stat) in nodes.items() if not stat.ephemeral_owner}

        return self.on_store(path, read)

    def broker_ids(self) -> list[int | None]:
        properties = meta_properties.read_all(RealFileSystem(), self.log_dirs)
        return [meta.broker_id for meta in properties.values()]

    def check_start(self, *, with_zookeeper: bool) -> None:
        """Do the checks of a broker's start that concern the stores."""
        rules = BrokerIdRules(generation_enabled=True)
        check_identity(RealFileSystem(), self.log_dirs, rules, is_shared=with_zookeeper)
        path = self.zookeeper if with_zookeeper else self.embedded
        self.on_store(path, lambda store: check_unmarked(store, is_shared=with_zookeeper))


async def fill(store: Store) -> None:
    """Write the nodes of a broker that has been used."""
    await create_top_level_paths(store)
    await store.ensure_path("/cluster")
    await store.create("/cluster/id", encode_cluster_id(CLUSTER_ID))
    for name, topic_id in TOPIC_IDS.items():
        assignment = TopicAssignment(topic_id, {0: ReplicaAssignment((0,)), 1: ReplicaAssignment((0,))})
        await create_topic(store, name, assignment, {"cleanup.policy": "compact"})
        states = {
            TopicPartition(name, number): LeaderIsrAndControllerEpoch(0, 4, (0,), 2) for number in (0, 1)
        }
        await create_partition_states(store, states)
    await change_config(store, "brokers", "0", {"log.cleaner.threads": "2"})
    await change_config(store, "users", "alice", {"producer_byte_rate": "1000"})
    for _ in range(3):
        await allocate_block(store, 0)
    await generate_broker_id(store, 1000)
    await generate_broker_id(store, 1000)
    await store.ensure_path("/consumers/g/offsets/letters/0")
    await store.set("/consumers/g/offsets/letters/0", b"42")
    assert await elect(store, 0, 0) is not None
    await store.create("/brokers/ids/0", b"{}", ephemeral=True)


# Adoption.


def test_adopted_cluster_has_everything_under_the_new_id(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    before = home.contents(home.embedded)
    result, kept = home.adopt()
    after = home.contents(home.zookeeper)
    assert (result.topics, result.partitions) == (2, 4)
    assert kept == f"{home.embedded}.adopted"
    assert not Path(home.embedded).exists()
    assert home.broker_ids() == [1, 1]
    assert after["/cluster/id"] == before["/cluster/id"]
    for name, topic_id in TOPIC_IDS.items():
        topic = decode_topic("", after[f"/brokers/topics/{name}"])
        assert topic == TopicAssignment(topic_id, {0: ReplicaAssignment((1,)), 1: ReplicaAssignment((1,))})
        state = decode_partition_state("", after[f"/brokers/topics/{name}/partitions/1/state"])
        assert state == LeaderIsrAndControllerEpoch(1, 4, (1,), 2)
        assert after[f"/config/topics/{name}"] == before[f"/config/topics/{name}"]
    assert after["/config/brokers/1"] == before["/config/brokers/0"]
    assert after["/config/users/alice"] == before["/config/users/alice"]
    assert after["/consumers/g/offsets/letters/0"] == b"42"
    assert decode_producer_id_block("", after["/latest_producer_id_block"]).last == 2999
    assert after["/controller_epoch"] == before["/controller_epoch"]
    home.check_start(with_zookeeper=True)


def test_generated_broker_ids_are_not_reused(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    home.adopt()
    assert home.on_store(home.zookeeper, lambda store: generate_broker_id(store, 1000)) == 1003


def test_notifications_and_ephemerals_are_left_behind(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    home.adopt()
    after = home.contents(home.zookeeper)
    assert not [path for path in after if path.startswith(("/config/changes/", "/brokers/ids/"))]
    assert "/config/brokers/0" not in after


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    crash = CrashPoint(0)
    result = asyncio.run(store_transfer.plan_adoption(home.environment(crash), home.log_dirs, 1))
    assert (result.topics, result.partitions, crash.writes) == (2, 4, 0)
    home.check_start(with_zookeeper=False)


def test_running_broker_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    lock = lock_directory(RealFileSystem(), home.log_dirs[1])
    with pytest.raises(DirectoryInUse):
        home.adopt()
    lock.release()
    home.adopt()


def test_adoption_by_another_zookeeper_is_noticed(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    home.adopt()
    asyncio.run(store_transfer.check_adopted(home.environment(CrashPoint()), home.log_dirs))
    home.zookeeper = str(tmp_path / "another.sqlite")
    with pytest.raises(TransferRefused, match="by another ZooKeeper"):
        asyncio.run(store_transfer.check_adopted(home.environment(CrashPoint()), home.log_dirs))


def test_second_adoption_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    home.adopt()
    with pytest.raises(TransferRefused, match="adopted already"):
        home.adopt()


@pytest.mark.parametrize("is_after_effect", [False, True], ids=["before", "after"])
def test_adoption_survives_a_crash_at_any_write(tmp_path: Path, is_after_effect: bool) -> None:
    reference = Home(tmp_path / "reference").create()
    writes = CrashPoint()
    reference.adopt(writes)
    expected = reference.contents(reference.zookeeper)
    assert writes.writes > 12
    for at in range(writes.writes):
        home = Home(tmp_path / f"crash-{at}").create()
        with pytest.raises(Crashed):
            home.adopt(CrashPoint(at, is_after_effect=is_after_effect))
        is_done = not Path(home.embedded).exists()
        if not is_done:
            # Until the store is put aside, no broker starts with ZooKeeper.
            with pytest.raises(StorageError, match="odradek cluster adopt"):
                home.check_start(with_zookeeper=True)
            home.adopt()
        assert home.contents(home.zookeeper) == expected, f"crash at write {at}"
        assert home.broker_ids() == [1, 1]
        assert Path(f"{home.embedded}.adopted").exists()
        home.check_start(with_zookeeper=True)


@pytest.mark.parametrize("is_after_effect", [False, True], ids=["before", "after"])
def test_no_broker_starts_on_a_store_that_is_being_adopted(tmp_path: Path, is_after_effect: bool) -> None:
    """After the first write of an adoption the embedded store is frozen, and ZooKeeper until the last."""
    for at in range(1, 6):
        home = Home(tmp_path / f"crash-{at}").create()
        with pytest.raises(Crashed):
            home.adopt(CrashPoint(at, is_after_effect=is_after_effect))
        with pytest.raises(TransferIncomplete, match="odradek cluster adopt"):
            home.check_start(with_zookeeper=False)
        if at > 1:
            with pytest.raises(TransferIncomplete, match="being carried over"):
                home.on_store(home.zookeeper, lambda store: check_unmarked(store, is_shared=True))


@pytest.mark.parametrize("at", range(1, 10))
def test_cancelled_adoption_leaves_zookeeper_as_it_was(tmp_path: Path, at: int) -> None:
    home = Home(tmp_path).create()

    async def add_user(store: Store) -> None:
        await change_config(store, "users", "bob", {"producer_byte_rate": "5"})

    home.on_store(home.zookeeper, add_user)
    with pytest.raises(Crashed):
        home.adopt(CrashPoint(at))
    home.cancel()
    after = home.contents(home.zookeeper)
    assert "/config/users/bob" in after
    assert not [path for path in after if path.startswith(("/brokers", "/consumers", "/cluster"))]
    assert home.on_store(home.zookeeper, read_mark) is None
    home.check_start(with_zookeeper=False)
    home.adopt()
    assert "/config/users/bob" in home.contents(home.zookeeper)


def test_complete_adoption_cannot_be_cancelled(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    writes = CrashPoint()
    Home(tmp_path / "count").create().adopt(writes)
    # The last writes: cluster id, two meta.properties, rename, sync.
    with pytest.raises(Crashed):
        home.adopt(CrashPoint(writes.writes - 3))
    with pytest.raises(TransferRefused, match="complete in ZooKeeper"):
        home.cancel()
    with pytest.raises(TransferRefused, match="no adoption to cancel"):
        Home(tmp_path / "other").create().cancel()


def test_cluster_created_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    with pytest.raises(Crashed):
        home.adopt(CrashPoint(6))

    async def create_cluster(store: Store) -> None:
        await store.ensure_path("/cluster")
        await store.create("/cluster/id", encode_cluster_id("other"))

    home.on_store(home.zookeeper, create_cluster)
    with pytest.raises(TransferRefused, match="another cluster"):
        home.adopt()
    assert home.contents(home.zookeeper)["/cluster/id"] == encode_cluster_id("other")


# Release.


def test_released_store_has_everything(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    home.adopt()
    before = home.contents(home.zookeeper)
    home.release()
    assert home.contents(home.embedded) == before
    assert home.on_store(home.embedded, lambda store: generate_broker_id(store, 1000)) == 1003
    home.check_start(with_zookeeper=False)
    with pytest.raises(TransferIncomplete, match="was released"):
        home.on_store(home.zookeeper, lambda store: check_unmarked(store, is_shared=True))


def test_release_is_refused_while_a_partition_is_elsewhere(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    home.adopt()

    async def add_topic(store: Store) -> None:
        await create_topic(store, "far", TopicAssignment(bytes(16), {7: ReplicaAssignment((2,))}), {})

    home.on_store(home.zookeeper, add_topic)
    with pytest.raises(TransferRefused, match="far-7"):
        home.release()
    assert home.on_store(home.zookeeper, read_mark) is None
    assert [path.name for path in Path(home.log_dirs[0]).glob("*.sqlite*")] == [f"{STORE}.adopted"]


@pytest.mark.parametrize("is_after_effect", [False, True], ids=["before", "after"])
def test_release_survives_a_crash_at_any_write(tmp_path: Path, is_after_effect: bool) -> None:
    reference = Home(tmp_path / "reference").create()
    reference.adopt()
    writes = CrashPoint()
    reference.release(writes)
    expected = reference.contents(reference.embedded)
    for at in range(writes.writes):
        home = Home(tmp_path / f"crash-{at}").create()
        home.adopt()
        with pytest.raises(Crashed):
            home.release(CrashPoint(at, is_after_effect=is_after_effect))
        if not Path(home.embedded).exists():
            home.release()
        assert home.contents(home.embedded) == expected, f"crash at write {at}"
        home.check_start(with_zookeeper=False)


def test_released_cluster_can_be_adopted_again(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    home.adopt()
    home.release()

    async def change(store: Store) -> None:
        await store.delete("/config/users/alice")
        await allocate_block(store, 1)

    home.on_store(home.embedded, change)
    _, kept = home.adopt(broker_id=None)
    after = home.contents(home.zookeeper)
    assert kept.endswith(".adopted.2")
    assert "/config/users/alice" not in after
    assert decode_producer_id_block("", after["/latest_producer_id_block"]).last == 3999
    assert after["/cluster/id"] == encode_cluster_id(CLUSTER_ID)
    home.check_start(with_zookeeper=True)


def test_repeated_adoption_survives_a_crash_at_any_write(tmp_path: Path) -> None:
    def prepare(root: Path) -> Home:
        home = Home(root).create()
        home.adopt()
        home.release()
        home.on_store(home.embedded, lambda store: store.delete("/config/users/alice"))
        return home

    reference = prepare(tmp_path / "reference")
    writes = CrashPoint()
    reference.adopt(writes)
    expected = reference.contents(reference.zookeeper)
    for at in range(writes.writes):
        home = prepare(tmp_path / f"crash-{at}")
        with pytest.raises(Crashed):
            home.adopt(CrashPoint(at))
        if Path(home.embedded).exists():
            home.adopt()
        assert home.contents(home.zookeeper) == expected, f"crash at write {at}"


# Starts.


def test_start_with_zookeeper_names_the_command(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    with pytest.raises(StorageError) as error:
        home.check_start(with_zookeeper=True)
    assert "odradek cluster adopt" in str(error.value)
    assert "\n" not in str(error.value)


def test_start_without_zookeeper_after_an_adoption_names_the_command(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    home.adopt()
    with pytest.raises(StorageError, match="odradek cluster release"):
        home.check_start(with_zookeeper=False)


def test_mark_of_an_adoption_stays_in_the_store_put_aside(tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    _, kept = home.adopt()
    mark = home.on_store(kept, read_mark)
    assert mark is not None
    assert mark.kind is TransferKind.ADOPTION
    assert home.on_store(home.zookeeper, lambda store: store.exists(TRANSFER)) is None
    assert znode_paths.CLUSTER_ID in home.contents(kept)
