"""Contract tests of the store port, to be subclassed once per implementation.

A subclass provides ``open``: an async context manager of a ``StoreFixture``, an empty store on which
sessions can be opened and expired. The expectations are ZooKeeper's; nothing is specific to the embedded
store.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Protocol, TypeVar

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
    WatchedEvent,
    WatchedEventType,
)

_EVENT_SECONDS_MAX = 20


class StoreFixture(Protocol):
    """An empty store to open sessions on."""

    async def connect(self) -> Store: ...

    async def expire(self, store: Store) -> None:
        """Expire a session, as if its heartbeats had stopped."""
        ...


_Contract = TypeVar("_Contract", bound="StoreContract")
_Scenario = Callable[[_Contract, StoreFixture], Awaitable[None]]


def scenario(body: _Scenario[_Contract]) -> Callable[[_Contract], None]:
    """Turn a coroutine function into a test that runs it on a new store and event loop."""

    async def run(contract: _Contract) -> None:
        async with contract.open() as fixture:
            await body(contract, fixture)

    def test(self: _Contract) -> None:
        asyncio.run(run(self))

    test.__name__ = body.__name__
    test.__doc__ = body.__doc__
    return test


class RecordingWatcher:
    """A watcher that records events."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[WatchedEvent] = asyncio.Queue()
        self.tasks: list[object] = []

    def __call__(self, event: WatchedEvent) -> None:
        self.tasks.append(asyncio.current_task())
        self._events.put_nowait(event)

    async def next(self) -> WatchedEvent:
        return await asyncio.wait_for(self._events.get(), _EVENT_SECONDS_MAX)

    async def has_no_more_events(self, store: Store) -> bool:
        """Return whether there are no more events; they come before the response to a later call."""
        await store.exists("/")
        for _ in range(3):
            await asyncio.sleep(0)
        return self._events.empty()


@contextmanager
def raises(error: type[StoreError], path: str | None = None, op_index: int | None = None) -> Iterator[None]:
    caught: StoreError | None = None
    try:
        yield
    except error as raised:
        caught = raised
    assert caught is not None, f"{error.__name__} was not raised"
    assert type(caught) is error, f"{caught!r} is not exactly {error.__name__}"
    assert path is None or caught.path == path, f"{caught.path} instead of {path}"
    assert caught.op_index == op_index, f"operation {caught.op_index} instead of {op_index}"


class StoreContract(abc.ABC):
    """Tests of every store."""

    @abc.abstractmethod
    def open(self) -> AbstractAsyncContextManager[StoreFixture]: ...

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

    # Sequence nodes

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
        await asyncio.wait_for(expired.wait(), _EVENT_SECONDS_MAX)
        assert await second.exists("/e") is None
        assert await second.exists("/p") is not None

    @scenario
    async def test_ended_session_raises_session_expired(self, fixture: StoreFixture) -> None:
        expired, closed = await fixture.connect(), await fixture.connect()
        expiry = asyncio.Event()
        expired.on_expired(expiry.set)
        await fixture.expire(expired)
        await asyncio.wait_for(expiry.wait(), _EVENT_SECONDS_MAX)
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
    async def test_empty_multi(self, fixture: StoreFixture) -> None:
        store = await fixture.connect()
        assert await store.multi([]) == []

    # Watches

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
