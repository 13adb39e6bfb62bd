"""Contract tests of the store port: watches. Part of ``StoreContract``."""

from __future__ import annotations

import asyncio

from odradek.store.port import (
    BadVersion,
    CreateOp,
    DeleteOp,
    NoNode,
    SetDataOp,
    WatchedEvent,
    WatchedEventType,
)
from odradek.testing.contracts.store_fixture import (
    EVENT_SECONDS_MAX,
    RecordingWatcher,
    StoreFixture,
    StoreScenarios,
    raises,
    scenario,
)


class StoreWatchContract(StoreScenarios[StoreFixture]):
    """Tests of the watches of every store."""

    @scenario
    async def test_data_watch_fires_once_on_change(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a", b"1")
        watch = RecordingWatcher()
        assert (await store.watch_data("/a", watch))[0] == b"1"
        await store.set("/a", b"2")
        assert await watch.next() == WatchedEvent(WatchedEventType.CHANGED, "/a")
        await store.set("/a", b"3")
        await store.delete("/a")
        assert await watch.has_no_more_events(store)

    @scenario
    async def test_watcher_is_called_from_event_loop(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a", b"1")
        watch = RecordingWatcher()
        await store.watch_data("/a", watch)
        await store.watch_children("/a", watch)
        await store.set("/a", b"2")
        await store.create("/a/b")
        await watch.next()
        await watch.next()
        assert watch.tasks == [None, None]

    @scenario
    async def test_data_watch_fires_on_deletion(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a")
        watch = RecordingWatcher()
        await store.watch_data("/a", watch)
        await store.delete("/a")
        assert await watch.next() == WatchedEvent(WatchedEventType.DELETED, "/a")

    @scenario
    async def test_data_watch_ignores_children(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a")
        watch = RecordingWatcher()
        await store.watch_data("/a", watch)
        await store.create("/a/b")
        assert await watch.has_no_more_events(store)

    @scenario
    async def test_data_watch_on_missing_node_sets_no_watch(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        watch = RecordingWatcher()
        with raises(NoNode, "/a"):
            await store.watch_data("/a", watch)
        with raises(NoNode, "/a"):
            await store.watch_children("/a", watch)
        await store.create("/a")
        await store.create("/a/b")
        await store.set("/a", b"1")
        assert await watch.has_no_more_events(store)

    @scenario
    async def test_exists_watch_fires_on_creation_change_and_deletion(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        watch = RecordingWatcher()
        assert await store.watch_exists("/a", watch) is None
        await store.create("/a")
        assert await watch.next() == WatchedEvent(WatchedEventType.CREATED, "/a")
        assert await store.watch_exists("/a", watch) is not None
        await store.set("/a", b"1")
        assert await watch.next() == WatchedEvent(WatchedEventType.CHANGED, "/a")
        await store.watch_exists("/a", watch)
        await store.delete("/a")
        assert await watch.next() == WatchedEvent(WatchedEventType.DELETED, "/a")
        assert await watch.has_no_more_events(store)

    @scenario
    async def test_children_watch_fires_on_creation_and_deletion(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a")
        watch = RecordingWatcher()
        assert await store.watch_children("/a", watch) == []
        await store.create("/a/b")
        assert await watch.next() == WatchedEvent(WatchedEventType.CHILDREN, "/a")
        assert await store.watch_children("/a", watch) == ["b"]
        await store.delete("/a/b")
        assert await watch.next() == WatchedEvent(WatchedEventType.CHILDREN, "/a")
        await store.watch_children("/a", watch)
        await store.delete("/a")
        assert await watch.next() == WatchedEvent(WatchedEventType.DELETED, "/a")
        assert await watch.has_no_more_events(store)

    @scenario
    async def test_children_watch_ignores_data_and_grandchildren(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a")
        await store.create("/a/b")
        watch = RecordingWatcher()
        await store.watch_children("/a", watch)
        await store.set("/a", b"1")
        await store.set("/a/b", b"1")
        await store.create("/a/b/c")
        assert await watch.has_no_more_events(store)

    @scenario
    async def test_watches_fire_in_order_of_changes(self, fixture: StoreFixture) -> None:
        writer, reader = await fixture.connect(), await fixture.connect()
        watch = RecordingWatcher()
        for number in range(5):
            await writer.create(f"/n{number}")
            await reader.watch_data(f"/n{number}", watch)
        for number in (3, 1, 4, 0, 2):
            await writer.set(f"/n{number}", b"x")
        events = [(await watch.next()).path for _ in range(5)]
        assert events == ["/n3", "/n1", "/n4", "/n0", "/n2"]

    @scenario
    async def test_change_is_readable_when_watch_fires(self, fixture: StoreFixture) -> None:
        writer, reader = await fixture.connect(), await fixture.connect()
        await writer.create("/a", b"0")
        watch = RecordingWatcher()
        for number in range(1, 6):
            await reader.watch_data("/a", watch)
            await writer.set("/a", b"%d" % number)
            await watch.next()
            assert (await reader.get("/a"))[0] == b"%d" % number

    @scenario
    async def test_watch_set_twice_fires_once(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a")
        watch = RecordingWatcher()
        await store.watch_data("/a", watch)
        await store.watch_data("/a", watch)
        await store.set("/a", b"1")
        await watch.next()
        assert await watch.has_no_more_events(store)

    @scenario
    async def test_all_watchers_of_a_node_fire(self, fixture: StoreFixture) -> None:
        first, second = await fixture.connect(), await fixture.connect()
        await first.create("/a")
        watches = [RecordingWatcher() for _ in range(3)]
        await first.watch_data("/a", watches[0])
        await first.watch_data("/a", watches[1])
        await second.watch_exists("/a", watches[2])
        await first.set("/a", b"1")
        for watch in watches:
            assert await watch.next() == WatchedEvent(WatchedEventType.CHANGED, "/a")

    @scenario
    async def test_failed_write_fires_no_watch(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a")
        watch = RecordingWatcher()
        await store.watch_data("/a", watch)
        await store.watch_children("/a", watch)
        with raises(BadVersion):
            await store.set("/a", b"1", version=9)
        with raises(NoNode, op_index=2):
            await store.multi([SetDataOp("/a", b"1"), CreateOp("/a/b"), DeleteOp("/none")])
        assert await watch.has_no_more_events(store)

    @scenario
    async def test_multi_fires_watches_for_each_change(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a")
        data, children, created = RecordingWatcher(), RecordingWatcher(), RecordingWatcher()
        await store.watch_data("/a", data)
        await store.watch_children("/a", children)
        await store.watch_exists("/a/b", created)
        await store.multi([SetDataOp("/a", b"1"), CreateOp("/a/b"), CreateOp("/a/c")])
        assert await data.next() == WatchedEvent(WatchedEventType.CHANGED, "/a")
        assert await children.next() == WatchedEvent(WatchedEventType.CHILDREN, "/a")
        assert await created.next() == WatchedEvent(WatchedEventType.CREATED, "/a/b")
        for watch in (data, children, created):
            assert await watch.has_no_more_events(store)

    @scenario
    async def test_session_end_fires_watches_of_its_ephemeral_nodes(self, fixture: StoreFixture) -> None:
        first, second = await fixture.connect(), await fixture.connect()
        await first.create("/ids")
        await first.create("/ids/1", ephemeral=True)
        node, children = RecordingWatcher(), RecordingWatcher()
        await second.watch_data("/ids/1", node)
        await second.watch_children("/ids", children)
        await first.close()
        assert await node.next() == WatchedEvent(WatchedEventType.DELETED, "/ids/1")
        assert await children.next() == WatchedEvent(WatchedEventType.CHILDREN, "/ids")
        assert await second.children("/ids") == []

    @scenario
    async def test_closed_session_gets_no_events(self, fixture: StoreFixture) -> None:
        first, second = await fixture.connect(), await fixture.connect()
        await second.create("/a")
        watch = RecordingWatcher()
        await first.watch_data("/a", watch)
        await first.close()
        await second.set("/a", b"1")
        assert await watch.has_no_more_events(second)

    @scenario
    async def test_watches_of_all_kinds_fire_in_order_of_changes(self, fixture: StoreFixture) -> None:
        writer, reader = await fixture.connect(), await fixture.connect()
        await writer.create("/a")
        watch = RecordingWatcher()
        await reader.watch_children("/a", watch)
        await reader.watch_exists("/a/b", watch)
        await reader.watch_data("/a", watch)
        await writer.create("/a/b")
        await writer.set("/a", b"1")
        await reader.watch_children("/a", watch)
        await reader.watch_data("/a/b", watch)
        await writer.delete("/a/b")
        assert [await watch.next() for _ in range(5)] == [
            WatchedEvent(WatchedEventType.CREATED, "/a/b"),
            WatchedEvent(WatchedEventType.CHILDREN, "/a"),
            WatchedEvent(WatchedEventType.CHANGED, "/a"),
            WatchedEvent(WatchedEventType.DELETED, "/a/b"),
            WatchedEvent(WatchedEventType.CHILDREN, "/a"),
        ]
        assert await watch.has_no_more_events(reader)

    @scenario
    async def test_watch_set_in_different_ways_fires_once_per_change(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a")
        watch = RecordingWatcher()
        await store.watch_data("/a", watch)
        await store.watch_exists("/a", watch)
        await store.watch_children("/a", watch)
        await store.delete("/a")
        assert await watch.next() == WatchedEvent(WatchedEventType.DELETED, "/a")
        assert await watch.has_no_more_events(store)

    @scenario
    async def test_watches_on_data_and_children_are_independent(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a")
        watch = RecordingWatcher()
        await store.watch_data("/a", watch)
        await store.watch_children("/a", watch)
        await store.set("/a", b"1")
        await store.create("/a/b")
        assert await watch.next() == WatchedEvent(WatchedEventType.CHANGED, "/a")
        assert await watch.next() == WatchedEvent(WatchedEventType.CHILDREN, "/a")
        assert await watch.has_no_more_events(store)

    @scenario
    async def test_fired_watch_stays_silent_when_another_is_set(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        await store.create("/a")
        first, second = RecordingWatcher(), RecordingWatcher()
        await store.watch_data("/a", first)
        await store.watch_children("/a", first)
        await store.watch_exists("/b", first)
        for _ in range(2):
            await store.set("/a", b"1")
            await store.create("/a/c", sequence=True)
            await store.create("/b")
            await store.delete("/b")
            await store.watch_data("/a", second)
            await store.watch_children("/a", second)
            await store.watch_exists("/b", second)
        assert {(await first.next()).path for _ in range(3)} == {"/a", "/b"}
        assert await first.has_no_more_events(store)

    @scenario
    async def test_watch_armed_again_by_its_callback_misses_no_change(self, fixture: StoreFixture) -> None:
        writer, reader = await fixture.connect(), await fixture.connect()
        await writer.create("/n", b"0")
        reads: list[int] = []
        fired = RecordingWatcher()

        async def follow() -> None:
            while True:
                data, _ = await reader.watch_data("/n", fired)
                reads.append(int(data))
                if reads[-1] == 40:
                    return
                await fired.next()

        following = asyncio.create_task(follow())
        for number in range(1, 41):
            await writer.set("/n", b"%d" % number)
        await asyncio.wait_for(following, EVENT_SECONDS_MAX)
        assert reads == sorted(set(reads))
