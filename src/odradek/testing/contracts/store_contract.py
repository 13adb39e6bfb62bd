"""Contract tests of the store port, to be subclassed once per implementation.

A subclass provides ``open``: an async context manager of a ``StoreFixture``, an empty store on which
sessions can be opened and expired. The expectations are ZooKeeper's; nothing is specific to the embedded
store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from odradek.store.port import (
    BadPath,
    BadVersion,
    CheckOp,
    CreateOp,
    DeleteOp,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    SessionExpired,
    SetDataOp,
    Stat,
    Store,
    StoreError,
    TooLarge,
    WatchedEvent,
    WatchedEventType,
)
from odradek.testing.contracts.store_fixture import (
    EVENT_SECONDS_MAX,
    RecordingWatcher,
    StoreFixture,
    raises,
    scenario,
)
from odradek.testing.contracts.store_watch_contract import StoreWatchContract


class StoreContract(StoreWatchContract):
    """Tests of every store."""

    # Reading and writing

    @scenario
    async def test_created_node_has_initial_stat(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        assert await store.create("/a", b"\x00one\xff") == "/a"
        data, stat = await store.get("/a")
        assert data == b"\x00one\xff"
        assert stat.czxid == stat.mzxid == stat.pzxid > 0
        assert (stat.version, stat.cversion, stat.ephemeral_owner, stat.num_children) == (0, 0, 0, 0)
        assert stat.ctime_ms == stat.mtime_ms
        assert await store.exists("/a") == stat

    @scenario
    async def test_node_without_data_is_empty(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a")
        assert (await store.get("/a"))[0] == b""

    @scenario
    async def test_large_node_is_read_back(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a", b"x" * 500_000)
        assert (await store.get("/a"))[0] == b"x" * 500_000

    @scenario
    async def test_missing_node_raises_no_node(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        assert await store.exists("/none") is None
        with raises(NoNode, "/none"):
            await store.get("/none")
        with raises(NoNode, "/none"):
            await store.children("/none")
        with raises(NoNode, "/none"):
            await store.set("/none", b"")
        with raises(NoNode, "/none"):
            await store.delete("/none")

    @scenario
    async def test_create_requires_new_node_and_existing_parent(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a")
        with raises(NodeExists, "/a"):
            await store.create("/a", b"again")
        with raises(NoNode, "/b/c"):
            await store.create("/b/c")
        assert (await store.get("/a"))[0] == b""

    @scenario
    async def test_invalid_paths_raise_bad_path(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        for path in ("", "a", "/a/", "//a", "/a//b", "/./a", "/a/..", "/a\x00b", "/a\nb"):
            with raises(BadPath):
                await store.create(path)
            with raises(BadPath):
                await store.exists(path)
        with raises(BadPath):
            await store.delete("/")

    @scenario
    async def test_set_increments_version(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a", b"1")
        born = await store.exists("/a")
        stat = await store.set("/a", b"2")
        assert born is not None
        assert stat == (await store.get("/a"))[1]
        assert (await store.get("/a"))[0] == b"2"
        assert (stat.version, stat.czxid, stat.ctime_ms) == (1, born.czxid, born.ctime_ms)
        assert stat.mzxid > born.mzxid
        assert stat.pzxid == born.pzxid
        assert (await store.set("/a", b"2")).version == 2

    @scenario
    async def test_stale_version_raises_bad_version(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/isr", b"1,2,3")
        assert (await store.set("/isr", b"1,2", version=0)).version == 1
        with raises(BadVersion, "/isr"):
            await store.set("/isr", b"1", version=0)
        with raises(BadVersion, "/isr"):
            await store.delete("/isr", version=0)
        assert (await store.get("/isr"))[0] == b"1,2"
        await store.delete("/isr", version=1)
        assert await store.exists("/isr") is None

    @scenario
    async def test_delete_of_node_with_children_raises_not_empty(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a")
        await store.create("/a/b")
        with raises(NotEmpty, "/a"):
            await store.delete("/a")
        await store.delete("/a/b")
        await store.delete("/a")
        assert await store.exists("/a") is None

    @scenario
    async def test_recreated_node_has_new_stat(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a", b"1")
        old = await store.set("/a", b"2")
        await store.delete("/a")
        await store.create("/a", b"3")
        data, stat = await store.get("/a")
        assert (data, stat.version) == (b"3", 0)
        assert stat.czxid > old.mzxid

    @scenario
    async def test_children_are_direct_children(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        for path in ("/a", "/a/x", "/a/y", "/a/y/z", "/ab"):
            await store.create(path)
        assert sorted(await store.children("/a")) == ["x", "y"]
        assert await store.children("/a/x") == []
        await store.delete("/a/x")
        assert await store.children("/a") == ["y"]

    @scenario
    async def test_parent_stat_counts_children(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a", b"data")
        before = await store.exists("/a")
        await store.create("/a/b")
        await store.create("/a/c")
        await store.set("/a/c", b"1")
        child = await store.exists("/a/c")
        second = await store.exists("/a")
        await store.delete("/a/b")
        first = await store.exists("/a")
        assert before is not None
        assert child is not None
        assert second is not None
        assert first is not None
        assert (second.num_children, second.cversion, second.pzxid) == (2, 2, child.czxid)
        assert (first.num_children, first.cversion) == (1, 3)
        assert first.pzxid > child.mzxid
        assert (first.mzxid, first.version) == (before.mzxid, 0)
        assert (await store.get("/a"))[0] == b"data"

    @scenario
    async def test_zxid_increases_with_every_write(self, fixture: StoreFixture) -> None:
        first, second = await fixture.connect(), await fixture.connect()
        zxids = []
        for number in range(6):
            store = (first, second)[number % 2]
            await store.create(f"/n{number}")
            zxids.append((await store.get(f"/n{number}"))[1].czxid)
        assert zxids == sorted(set(zxids))

    @scenario
    async def test_write_is_visible_to_other_sessions(self, fixture: StoreFixture) -> None:
        first, second = await fixture.connect(), await fixture.connect()
        await first.create("/a", b"1")
        assert (await second.get("/a"))[0] == b"1"
        assert first.session_id != second.session_id

    @scenario
    async def test_get_many_keeps_order(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a", b"1")
        await store.create("/b", b"2")
        caught = await store.get_many(["/b", "/none", "/a", "/b"])
        assert [node and node[0] for node in caught] == [b"2", None, b"1", b"2"]
        assert await store.get_many([]) == []

    @scenario
    async def test_get_many_of_many_nodes_keeps_order(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.multi([CreateOp(f"/n{number}", b"%d" % number) for number in range(0, 300, 2)])
        await store.set("/n298", b"changed")
        nodes = await store.get_many(f"/n{number}" for number in range(300))
        assert [node is None for node in nodes] == [False, True] * 150
        assert [node[0] for node in nodes if node] == [b"%d" % number for number in range(0, 298, 2)] + [
            b"changed"
        ]
        assert nodes[298] == await store.get("/n298")

    @scenario
    async def test_ensure_path_creates_missing_nodes(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a", b"kept")
        await store.ensure_path("/a/b/c")
        await store.ensure_path("/a/b/c")
        await store.ensure_path("/")
        data, stat = await store.get("/a")
        assert (data, stat.version) == (b"kept", 0)
        data, stat = await store.get("/a/b/c")
        assert (data, stat.ephemeral_owner) == (b"", 0)

    @scenario
    async def test_concurrent_writes_keep_call_order(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a")
        stats = await asyncio.gather(*(store.set("/a", b"%d" % n) for n in range(50)))
        assert [stat.version for stat in stats] == list(range(1, 51))
        assert (await store.get("/a"))[0] == b"49"

    @scenario
    async def test_one_of_many_creators_succeeds(self, fixture: StoreFixture) -> None:
        stores = [await fixture.connect() for _ in range(3)]

        async def attempt(store: Store) -> bool:
            try:
                await store.create("/controller", b"", ephemeral=True)
            except NodeExists:
                return False
            return True

        won = await asyncio.gather(*(attempt(store) for store in stores))
        assert won.count(True) == 1

    @scenario
    async def test_compare_and_set_loses_no_increment(self, fixture: StoreFixture) -> None:
        stores = [await fixture.connect() for _ in range(3)]
        await stores[0].create("/n", b"0")

        async def increment(store: Store) -> None:
            for _ in range(10):
                while True:
                    data, stat = await store.get("/n")
                    try:
                        await store.set("/n", b"%d" % (int(data) + 1), stat.version)
                        break
                    except BadVersion:
                        continue

        await asyncio.gather(*(increment(store) for store in stores))
        assert (await stores[0].get("/n"))[0] == b"30"

    @scenario
    async def test_concurrent_writes_of_all_kinds_keep_call_order(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        created, stat, multi, _, again = await asyncio.gather(
            store.create("/a", b"1"),
            store.set("/a", b"2", 0),
            store.multi([CheckOp("/a", 1), CreateOp("/b"), DeleteOp("/b")]),
            store.delete("/a", 1),
            store.create("/a", b"3"),
        )
        assert (created, stat.version, multi, again) == ("/a", 1, [None, "/b", None], "/a")
        assert (await store.get("/a"))[0] == b"3"

    @scenario
    async def test_reads_after_a_multi_of_checks_alone_show_writes_of_others(
        self, fixture: StoreFixture
    ) -> None:
        writer, reader = await fixture.connect(), await fixture.connect()
        await writer.create("/a")
        assert await reader.multi([CheckOp("/a")]) == [None]
        assert "a" in await reader.children("/")
        with raises(BadVersion, "/a", op_index=0):
            await reader.multi([CheckOp("/a", 7)])

    @scenario
    async def test_data_above_one_mebibyte_is_rejected(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a", b"x" * 1_000_000)
        with raises(TooLarge, "/a"):
            await store.set("/a", b"x" * 1_100_000)
        with raises(TooLarge, "/b"):
            await store.create("/b", b"x" * 1_100_000)
        assert len((await store.get("/a"))[0]) == 1_000_000
        assert await store.exists("/b") is None

    @scenario
    async def test_thousands_of_children_are_listed(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a")
        names = [f"child-with-a-name-{number:05d}" for number in range(5000)]
        for start in range(0, 5000, 1000):
            await store.multi([CreateOp(f"/a/{name}", b"1") for name in names[start : start + 1000]])
        assert sorted(await store.children("/a")) == names
        nodes = await store.get_many(f"/a/{name}" for name in names)
        assert {node and node[0] for node in nodes} == {b"1"}

    # Sequence nodes

    @scenario
    async def test_concurrent_sequence_nodes_have_distinct_numbers(self, fixture: StoreFixture) -> None:
        stores = [await fixture.connect() for _ in range(3)]
        await stores[0].create("/q")
        paths = await asyncio.gather(
            *(store.create("/q/n", sequence=True) for _ in range(40) for store in stores)
        )
        assert sorted(paths) == [f"/q/n{number:010d}" for number in range(120)]
        for index in range(3):
            assert paths[index::3] == sorted(paths[index::3])

    @scenario
    async def test_sequence_numbers_increase(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/q")
        first = await store.create("/q/job_", b"1", sequence=True)
        assert first == "/q/job_0000000000"
        await store.delete(first)
        assert await store.create("/q/job_", sequence=True) == "/q/job_0000000001"
        await store.create("/q/other")
        assert await store.create("/q/job_", sequence=True) == "/q/job_0000000003"
        assert await store.create("/q/", sequence=True) == "/q/0000000004"

    @scenario
    async def test_sequence_numbers_are_per_parent(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/p")
        await store.create("/q")
        await store.create("/p/n", sequence=True)
        assert await store.create("/q/n", sequence=True) == "/q/n0000000000"

    # Sessions

    @scenario
    async def test_ephemeral_node_has_owner_and_no_children(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/e", b"me", ephemeral=True)
        data, stat = await store.get("/e")
        assert (data, stat.ephemeral_owner) == (b"me", store.session_id)
        with raises(NoChildrenForEphemerals, "/e/child"):
            await store.create("/e/child")
        assert (await store.set("/e", b"still me")).ephemeral_owner == store.session_id

    @scenario
    async def test_ephemeral_nodes_are_deleted_on_close(self, fixture: StoreFixture) -> None:
        first, second = await fixture.connect(), await fixture.connect()
        await first.create("/ids")
        await first.create("/ids/1", ephemeral=True)
        await first.create("/ids/seq_", ephemeral=True, sequence=True)
        await second.create("/ids/2", ephemeral=True)
        await first.close()
        await first.close()
        assert await second.children("/ids") == ["2"]

    @scenario
    async def test_ephemeral_nodes_are_deleted_on_expiry(self, fixture: StoreFixture) -> None:
        first, second = await fixture.connect(), await fixture.connect()
        expired = asyncio.Event()
        first.on_expired(expired.set)
        await first.create("/e", ephemeral=True)
        await first.create("/p")
        watch = RecordingWatcher()
        await second.watch_exists("/e", watch)
        await fixture.expire(first)
        assert await watch.next() == WatchedEvent(WatchedEventType.DELETED, "/e")
        await asyncio.wait_for(expired.wait(), EVENT_SECONDS_MAX)
        assert await second.exists("/e") is None
        assert await second.exists("/p") is not None

    @scenario
    async def test_expiry_is_reported_once_from_the_event_loop(self, fixture: StoreFixture) -> None:
        store, other = await fixture.connect(), await fixture.connect()
        await store.create("/ids")
        await store.create("/ids/1", ephemeral=True)
        node, children = RecordingWatcher(), RecordingWatcher()
        await other.watch_data("/ids/1", node)
        await other.watch_children("/ids", children)
        tasks: list[object] = []
        expiry = asyncio.Event()
        store.on_expired(lambda: tasks.append(asyncio.current_task()))
        store.on_expired(expiry.set)
        session_id = store.session_id
        await fixture.expire(store)
        await asyncio.wait_for(expiry.wait(), EVENT_SECONDS_MAX)
        assert await node.next() == WatchedEvent(WatchedEventType.DELETED, "/ids/1")
        assert await children.next() == WatchedEvent(WatchedEventType.CHILDREN, "/ids")
        await store.close()
        with raises(SessionExpired):
            await store.exists("/")
        assert (tasks, store.session_id) == ([None], session_id)
        assert other.session_id != session_id
        await other.create("/ids/1", ephemeral=True)

    @scenario
    async def test_ended_session_raises_session_expired(self, fixture: StoreFixture) -> None:
        expired, closed = await fixture.connect(), await fixture.connect()
        expiry = asyncio.Event()
        expired.on_expired(expiry.set)
        await fixture.expire(expired)
        await asyncio.wait_for(expiry.wait(), EVENT_SECONDS_MAX)
        await closed.close()
        for store in (expired, closed):
            calls: list[Callable[[], Awaitable[object]]] = [
                lambda s=store: s.get("/"),  # type: ignore[misc]
                lambda s=store: s.get_many(["/"]),  # type: ignore[misc]
                lambda s=store: s.exists("/"),  # type: ignore[misc]
                lambda s=store: s.children("/"),  # type: ignore[misc]
                lambda s=store: s.create("/a"),  # type: ignore[misc]
                lambda s=store: s.set("/", b""),  # type: ignore[misc]
                lambda s=store: s.delete("/a"),  # type: ignore[misc]
                lambda s=store: s.multi([CheckOp("/")]),  # type: ignore[misc]
                lambda s=store: s.ensure_path("/a/b"),  # type: ignore[misc]
                lambda s=store: s.watch_data("/", RecordingWatcher()),  # type: ignore[misc]
                lambda s=store: s.watch_exists("/", RecordingWatcher()),  # type: ignore[misc]
                lambda s=store: s.watch_children("/", RecordingWatcher()),  # type: ignore[misc]
            ]
            for call in calls:
                with raises(SessionExpired):
                    await call()
            await store.close()

    @scenario
    async def test_close_does_not_call_on_expired(self, fixture: StoreFixture) -> None:
        first, second = await fixture.connect(), await fixture.connect()
        events: list[str] = []
        first.on_expired(lambda: events.append("expired"))
        await first.close()
        await second.exists("/")
        await asyncio.sleep(0)
        assert events == []

    # Multi

    @scenario
    async def test_multi_returns_results_in_order(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/old", b"1")
        ops: list[Op] = [
            CheckOp("/old", 0),
            CreateOp("/new", b"n"),
            CreateOp("/new/child_", b"c", sequence=True),
            CreateOp("/new/mine", ephemeral=True),
            SetDataOp("/old", b"2", 0),
            SetDataOp("/old", b"3", 1),
            DeleteOp("/new/mine"),
            CreateOp("/new/mine", b"again"),
        ]
        results = await store.multi(ops)
        assert results[0] is None
        assert results[1:4] == ["/new", "/new/child_0000000000", "/new/mine"]
        assert isinstance(results[5], Stat)
        assert results[5].version == 2
        assert results[6:] == [None, "/new/mine"]
        assert (await store.get("/old"))[0] == b"3"
        data, stat = await store.get("/new/mine")
        assert (data, stat.ephemeral_owner) == (b"again", 0)
        assert stat.czxid == (await store.get("/old"))[1].mzxid
        assert sorted(await store.children("/new")) == ["child_0000000000", "mine"]

    @scenario
    async def test_failed_multi_changes_nothing(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a", b"1")
        await store.create("/a/b")
        cases: list[tuple[Op, type[StoreError]]] = [
            (CreateOp("/a"), NodeExists),
            (CreateOp("/x/y"), NoNode),
            (SetDataOp("/x", b""), NoNode),
            (SetDataOp("/a", b"", 7), BadVersion),
            (DeleteOp("/x"), NoNode),
            (DeleteOp("/a"), NotEmpty),
            (DeleteOp("/a/b", 7), BadVersion),
            (CheckOp("/x", 0), NoNode),
            (CheckOp("/a", 7), BadVersion),
        ]
        before = await store.exists("/a")
        for op, error in cases:
            with raises(error, op.path, op_index=2):
                await store.multi([SetDataOp("/a", b"2"), CreateOp("/new"), op, CreateOp("/more")])
            assert await store.exists("/new") is None
        assert await store.exists("/a") == before
        assert (await store.get("/a"))[0] == b"1"

    @scenario
    async def test_multi_of_a_thousand_operations(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        ops: list[Op] = [CheckOp("/"), *(CreateOp(f"/n{number}", b"1") for number in range(499))]
        ops += [SetDataOp(f"/n{number}", b"2", 0) for number in range(499)]
        with raises(BadVersion, "/n7", op_index=999):
            await store.multi([*ops, SetDataOp("/n7", b"3", 5)])
        assert await store.exists("/n0") is None
        results = await store.multi([*ops, DeleteOp("/n7", 1)])
        assert (len(results), results[0], results[1], results[999]) == (1000, None, "/n0", None)
        nodes = await store.get_many(f"/n{number}" for number in range(499))
        assert [number for number, node in enumerate(nodes) if node is None] == [7]
        assert {node[1].mzxid for node in nodes if node is not None} == {nodes[0][1].mzxid if nodes[0] else 0}

    @scenario
    async def test_empty_multi(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        assert await store.multi([]) == []
