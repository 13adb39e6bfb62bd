"""What every store must do: one suite, to be subclassed once per implementation.

A subclass gives ``open``: an async context manager of a ``World``, an empty store to which sessions can be
opened and whose sessions can be made to expire. The expectations are ZooKeeper's; nothing here is particular
to the embedded store.
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


class World(Protocol):
    """An empty store, seen from outside."""

    async def connect(self) -> Store: ...

    async def expire(self, store: Store) -> None:
        """Let the store give up on a session, as if it had not been heard of for too long."""
        ...


_Contract = TypeVar("_Contract", bound="StoreContract")
_Scenario = Callable[[_Contract, World], Awaitable[None]]


def scenario(body: _Scenario[_Contract]) -> Callable[[_Contract], None]:
    """A coroutine that is given a fresh world, as a test that runs it on an event loop of its own."""

    async def play(contract: _Contract) -> None:
        async with contract.open() as world:
            await body(contract, world)

    def test(self: _Contract) -> None:
        asyncio.run(play(self))

    test.__name__ = body.__name__
    test.__doc__ = body.__doc__
    return test


class Witness:
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self._told: asyncio.Queue[WatchedEvent] = asyncio.Queue()
        self.tasks: list[object] = []

    def __call__(self, event: WatchedEvent) -> None:
        self.tasks.append(asyncio.current_task())
        self._told.put_nowait(event)

    async def next(self) -> WatchedEvent:
        return await asyncio.wait_for(self._told.get(), _EVENT_SECONDS_MAX)

    async def silent(self, store: Store) -> bool:
        """Nothing more was told; events of a session come before the answer to anything asked later."""
        await store.exists("/")
        for _ in range(3):
            await asyncio.sleep(0)
        return self._told.empty()


@contextmanager
def refused(error: type[StoreError], path: str | None = None, op_index: int | None = None) -> Iterator[None]:
    got: StoreError | None = None
    try:
        yield
    except error as raised:
        got = raised
    assert got is not None, f"{error.__name__} was not raised"
    assert type(got) is error, f"{got!r} is not exactly {error.__name__}"
    assert path is None or got.path == path, f"{got.path} instead of {path}"
    assert got.op_index == op_index, f"operation {got.op_index} instead of {op_index}"


class StoreContract(abc.ABC):
    """What holds for every store."""

    @abc.abstractmethod
    def open(self) -> AbstractAsyncContextManager[World]: ...

    # Reading and writing

    @scenario
    async def test_created_node_is_read_back_with_a_fresh_stat(self, world: World) -> None:
        store = await world.connect()
        assert await store.create("/a", b"\x00one\xff") == "/a"
        data, stat = await store.get("/a")
        assert data == b"\x00one\xff"
        assert stat.czxid == stat.mzxid == stat.pzxid > 0
        assert (stat.version, stat.cversion, stat.ephemeral_owner, stat.num_children) == (0, 0, 0, 0)
        assert stat.ctime_ms == stat.mtime_ms
        assert await store.exists("/a") == stat

    @scenario
    async def test_node_without_data_holds_empty_bytes(self, world: World) -> None:
        store = await world.connect()
        await store.create("/a")
        assert (await store.get("/a"))[0] == b""

    @scenario
    async def test_large_node_is_read_back(self, world: World) -> None:
        store = await world.connect()
        await store.create("/a", b"x" * 500_000)
        assert (await store.get("/a"))[0] == b"x" * 500_000

    @scenario
    async def test_missing_node_is_refused_by_reads_and_writes(self, world: World) -> None:
        store = await world.connect()
        assert await store.exists("/none") is None
        with refused(NoNode, "/none"):
            await store.get("/none")
        with refused(NoNode, "/none"):
            await store.children("/none")
        with refused(NoNode, "/none"):
            await store.set("/none", b"")
        with refused(NoNode, "/none"):
            await store.delete("/none")

    @scenario
    async def test_node_cannot_be_created_twice_nor_without_its_parent(self, world: World) -> None:
        store = await world.connect()
        await store.create("/a")
        with refused(NodeExists, "/a"):
            await store.create("/a", b"again")
        with refused(NoNode, "/b/c"):
            await store.create("/b/c")
        assert (await store.get("/a"))[0] == b""

    @scenario
    async def test_paths_that_are_none_are_refused(self, world: World) -> None:
        store = await world.connect()
        for path in ("", "a", "/a/", "//a", "/a//b", "/./a", "/a/..", "/a\x00b", "/a\nb"):
            with refused(BadPath):
                await store.create(path)
            with refused(BadPath):
                await store.exists(path)
        with refused(BadPath):
            await store.delete("/")

    @scenario
    async def test_set_replaces_data_and_counts_versions(self, world: World) -> None:
        store = await world.connect()
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
    async def test_write_with_a_stale_version_is_refused(self, world: World) -> None:
        store = await world.connect()
        await store.create("/isr", b"1,2,3")
        assert (await store.set("/isr", b"1,2", version=0)).version == 1
        with refused(BadVersion, "/isr"):
            await store.set("/isr", b"1", version=0)
        with refused(BadVersion, "/isr"):
            await store.delete("/isr", version=0)
        assert (await store.get("/isr"))[0] == b"1,2"
        await store.delete("/isr", version=1)
        assert await store.exists("/isr") is None

    @scenario
    async def test_node_with_children_cannot_be_deleted(self, world: World) -> None:
        store = await world.connect()
        await store.create("/a")
        await store.create("/a/b")
        with refused(NotEmpty, "/a"):
            await store.delete("/a")
        await store.delete("/a/b")
        await store.delete("/a")
        assert await store.exists("/a") is None

    @scenario
    async def test_recreated_node_begins_anew(self, world: World) -> None:
        store = await world.connect()
        await store.create("/a", b"1")
        old = await store.set("/a", b"2")
        await store.delete("/a")
        await store.create("/a", b"3")
        data, stat = await store.get("/a")
        assert (data, stat.version) == (b"3", 0)
        assert stat.czxid > old.mzxid

    @scenario
    async def test_children_are_names_of_the_next_level_only(self, world: World) -> None:
        store = await world.connect()
        for path in ("/a", "/a/x", "/a/y", "/a/y/z", "/ab"):
            await store.create(path)
        assert sorted(await store.children("/a")) == ["x", "y"]
        assert await store.children("/a/x") == []
        await store.delete("/a/x")
        assert await store.children("/a") == ["y"]

    @scenario
    async def test_parent_counts_its_children_coming_and_going(self, world: World) -> None:
        store = await world.connect()
        await store.create("/a", b"data")
        before = await store.exists("/a")
        await store.create("/a/b")
        await store.create("/a/c")
        await store.set("/a/c", b"1")
        child = await store.exists("/a/c")
        two = await store.exists("/a")
        await store.delete("/a/b")
        one = await store.exists("/a")
        assert before is not None
        assert child is not None
        assert two is not None
        assert one is not None
        assert (two.num_children, two.cversion, two.pzxid) == (2, 2, child.czxid)
        assert (one.num_children, one.cversion) == (1, 3)
        assert one.pzxid > child.mzxid
        assert (one.mzxid, one.version) == (before.mzxid, 0)
        assert (await store.get("/a"))[0] == b"data"

    @scenario
    async def test_zxids_grow_with_every_write(self, world: World) -> None:
        one, two = await world.connect(), await world.connect()
        zxids = []
        for number in range(6):
            store = (one, two)[number % 2]
            await store.create(f"/n{number}")
            zxids.append((await store.get(f"/n{number}"))[1].czxid)
        assert zxids == sorted(set(zxids))

    @scenario
    async def test_write_of_one_session_is_read_by_another(self, world: World) -> None:
        one, two = await world.connect(), await world.connect()
        await one.create("/a", b"1")
        assert (await two.get("/a"))[0] == b"1"
        assert one.session_id != two.session_id

    @scenario
    async def test_get_many_answers_in_the_order_asked(self, world: World) -> None:
        store = await world.connect()
        await store.create("/a", b"1")
        await store.create("/b", b"2")
        got = await store.get_many(["/b", "/none", "/a", "/b"])
        assert [node and node[0] for node in got] == [b"2", None, b"1", b"2"]
        assert await store.get_many([]) == []

    @scenario
    async def test_ensure_path_makes_what_is_missing_and_leaves_what_is_there(self, world: World) -> None:
        store = await world.connect()
        await store.create("/a", b"kept")
        await store.ensure_path("/a/b/c")
        await store.ensure_path("/a/b/c")
        await store.ensure_path("/")
        data, stat = await store.get("/a")
        assert (data, stat.version) == (b"kept", 0)
        data, stat = await store.get("/a/b/c")
        assert (data, stat.ephemeral_owner) == (b"", 0)

    @scenario
    async def test_writes_called_at_once_happen_in_the_order_called(self, world: World) -> None:
        store = await world.connect()
        await store.create("/a")
        stats = await asyncio.gather(*(store.set("/a", b"%d" % n) for n in range(50)))
        assert [stat.version for stat in stats] == list(range(1, 51))
        assert (await store.get("/a"))[0] == b"49"

    @scenario
    async def test_of_many_creators_one_succeeds(self, world: World) -> None:
        stores = [await world.connect() for _ in range(3)]

        async def attempt(store: Store) -> bool:
            try:
                await store.create("/controller", b"", ephemeral=True)
            except NodeExists:
                return False
            return True

        won = await asyncio.gather(*(attempt(store) for store in stores))
        assert won.count(True) == 1

    @scenario
    async def test_compare_and_set_loses_no_increment(self, world: World) -> None:
        stores = [await world.connect() for _ in range(3)]
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
    async def test_sequence_node_ends_with_ten_digits_that_only_grow(self, world: World) -> None:
        store = await world.connect()
        await store.create("/q")
        first = await store.create("/q/job_", b"1", sequence=True)
        assert first == "/q/job_0000000000"
        await store.delete(first)
        assert await store.create("/q/job_", sequence=True) == "/q/job_0000000001"
        await store.create("/q/other")
        assert await store.create("/q/job_", sequence=True) == "/q/job_0000000003"
        assert await store.create("/q/", sequence=True) == "/q/0000000004"

    @scenario
    async def test_each_parent_counts_for_itself(self, world: World) -> None:
        store = await world.connect()
        await store.create("/p")
        await store.create("/q")
        await store.create("/p/n", sequence=True)
        assert await store.create("/q/n", sequence=True) == "/q/n0000000000"

    # Sessions

    @scenario
    async def test_ephemeral_node_belongs_to_its_session_and_has_no_children(self, world: World) -> None:
        store = await world.connect()
        await store.create("/e", b"me", ephemeral=True)
        data, stat = await store.get("/e")
        assert (data, stat.ephemeral_owner) == (b"me", store.session_id)
        with refused(NoChildrenForEphemerals, "/e/child"):
            await store.create("/e/child")
        assert (await store.set("/e", b"still me")).ephemeral_owner == store.session_id

    @scenario
    async def test_ephemeral_nodes_vanish_when_their_session_is_closed(self, world: World) -> None:
        one, two = await world.connect(), await world.connect()
        await one.create("/ids")
        await one.create("/ids/1", ephemeral=True)
        await one.create("/ids/seq_", ephemeral=True, sequence=True)
        await two.create("/ids/2", ephemeral=True)
        await one.close()
        await one.close()
        assert await two.children("/ids") == ["2"]

    @scenario
    async def test_ephemeral_nodes_vanish_when_their_session_expires(self, world: World) -> None:
        one, two = await world.connect(), await world.connect()
        expired = asyncio.Event()
        one.on_expired(expired.set)
        await one.create("/e", ephemeral=True)
        await one.create("/p")
        watch = Witness()
        await two.watch_exists("/e", watch)
        await world.expire(one)
        assert await watch.next() == WatchedEvent(WatchedEventType.DELETED, "/e")
        await asyncio.wait_for(expired.wait(), _EVENT_SECONDS_MAX)
        assert await two.exists("/e") is None
        assert await two.exists("/p") is not None

    @scenario
    async def test_ended_session_refuses_every_call(self, world: World) -> None:
        expired, closed = await world.connect(), await world.connect()
        gone = asyncio.Event()
        expired.on_expired(gone.set)
        await world.expire(expired)
        await asyncio.wait_for(gone.wait(), _EVENT_SECONDS_MAX)
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
                lambda s=store: s.watch_data("/", Witness()),  # type: ignore[misc]
                lambda s=store: s.watch_exists("/", Witness()),  # type: ignore[misc]
                lambda s=store: s.watch_children("/", Witness()),  # type: ignore[misc]
            ]
            for call in calls:
                with refused(SessionExpired):
                    await call()
            await store.close()

    @scenario
    async def test_closing_a_session_is_not_an_expiry(self, world: World) -> None:
        one, two = await world.connect(), await world.connect()
        told: list[str] = []
        one.on_expired(lambda: told.append("expired"))
        await one.close()
        await two.exists("/")
        await asyncio.sleep(0)
        assert told == []

    # Multi

    @scenario
    async def test_multi_does_all_in_order_and_gives_each_result(self, world: World) -> None:
        store = await world.connect()
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
    async def test_multi_with_one_failing_operation_does_nothing(self, world: World) -> None:
        store = await world.connect()
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
            with refused(error, op.path, op_index=2):
                await store.multi([SetDataOp("/a", b"2"), CreateOp("/new"), op, CreateOp("/more")])
            assert await store.exists("/new") is None
        assert await store.exists("/a") == before
        assert (await store.get("/a"))[0] == b"1"

    @scenario
    async def test_multi_of_nothing_gives_nothing(self, world: World) -> None:
        store = await world.connect()
        assert await store.multi([]) == []

    # Watches

    @scenario
    async def test_data_watch_tells_of_a_change_once(self, world: World) -> None:
        store = await world.connect()
        await store.create("/a", b"1")
        watch = Witness()
        assert (await store.watch_data("/a", watch))[0] == b"1"
        await store.set("/a", b"2")
        assert await watch.next() == WatchedEvent(WatchedEventType.CHANGED, "/a")
        await store.set("/a", b"3")
        await store.delete("/a")
        assert await watch.silent(store)

    @scenario
    async def test_watcher_is_called_from_the_loop_and_not_from_a_writer(self, world: World) -> None:
        store = await world.connect()
        await store.create("/a", b"1")
        watch = Witness()
        await store.watch_data("/a", watch)
        await store.watch_children("/a", watch)
        await store.set("/a", b"2")
        await store.create("/a/b")
        await watch.next()
        await watch.next()
        assert watch.tasks == [None, None]

    @scenario
    async def test_data_watch_tells_of_deletion(self, world: World) -> None:
        store = await world.connect()
        await store.create("/a")
        watch = Witness()
        await store.watch_data("/a", watch)
        await store.delete("/a")
        assert await watch.next() == WatchedEvent(WatchedEventType.DELETED, "/a")

    @scenario
    async def test_data_watch_ignores_children(self, world: World) -> None:
        store = await world.connect()
        await store.create("/a")
        watch = Witness()
        await store.watch_data("/a", watch)
        await store.create("/a/b")
        assert await watch.silent(store)

    @scenario
    async def test_data_watch_on_a_missing_node_is_no_watch(self, world: World) -> None:
        store = await world.connect()
        watch = Witness()
        with refused(NoNode, "/a"):
            await store.watch_data("/a", watch)
        with refused(NoNode, "/a"):
            await store.watch_children("/a", watch)
        await store.create("/a")
        await store.create("/a/b")
        await store.set("/a", b"1")
        assert await watch.silent(store)

    @scenario
    async def test_exists_watch_tells_of_creation_change_and_deletion(self, world: World) -> None:
        store = await world.connect()
        watch = Witness()
        assert await store.watch_exists("/a", watch) is None
        await store.create("/a")
        assert await watch.next() == WatchedEvent(WatchedEventType.CREATED, "/a")
        assert await store.watch_exists("/a", watch) is not None
        await store.set("/a", b"1")
        assert await watch.next() == WatchedEvent(WatchedEventType.CHANGED, "/a")
        await store.watch_exists("/a", watch)
        await store.delete("/a")
        assert await watch.next() == WatchedEvent(WatchedEventType.DELETED, "/a")
        assert await watch.silent(store)

    @scenario
    async def test_children_watch_tells_of_coming_and_going(self, world: World) -> None:
        store = await world.connect()
        await store.create("/a")
        watch = Witness()
        assert await store.watch_children("/a", watch) == []
        await store.create("/a/b")
        assert await watch.next() == WatchedEvent(WatchedEventType.CHILDREN, "/a")
        assert await store.watch_children("/a", watch) == ["b"]
        await store.delete("/a/b")
        assert await watch.next() == WatchedEvent(WatchedEventType.CHILDREN, "/a")
        await store.watch_children("/a", watch)
        await store.delete("/a")
        assert await watch.next() == WatchedEvent(WatchedEventType.DELETED, "/a")
        assert await watch.silent(store)

    @scenario
    async def test_children_watch_ignores_data_and_grandchildren(self, world: World) -> None:
        store = await world.connect()
        await store.create("/a")
        await store.create("/a/b")
        watch = Witness()
        await store.watch_children("/a", watch)
        await store.set("/a", b"1")
        await store.set("/a/b", b"1")
        await store.create("/a/b/c")
        assert await watch.silent(store)

    @scenario
    async def test_watchers_of_a_session_hear_in_the_order_of_changes(self, world: World) -> None:
        writer, reader = await world.connect(), await world.connect()
        watch = Witness()
        for number in range(5):
            await writer.create(f"/n{number}")
            await reader.watch_data(f"/n{number}", watch)
        for number in (3, 1, 4, 0, 2):
            await writer.set(f"/n{number}", b"x")
        told = [(await watch.next()).path for _ in range(5)]
        assert told == ["/n3", "/n1", "/n4", "/n0", "/n2"]

    @scenario
    async def test_change_can_be_read_when_its_event_comes(self, world: World) -> None:
        writer, reader = await world.connect(), await world.connect()
        await writer.create("/a", b"0")
        watch = Witness()
        for number in range(1, 6):
            await reader.watch_data("/a", watch)
            await writer.set("/a", b"%d" % number)
            await watch.next()
            assert (await reader.get("/a"))[0] == b"%d" % number

    @scenario
    async def test_watch_registered_twice_tells_once(self, world: World) -> None:
        store = await world.connect()
        await store.create("/a")
        watch = Witness()
        await store.watch_data("/a", watch)
        await store.watch_data("/a", watch)
        await store.set("/a", b"1")
        await watch.next()
        assert await watch.silent(store)

    @scenario
    async def test_several_watchers_of_one_node_all_hear(self, world: World) -> None:
        one, two = await world.connect(), await world.connect()
        await one.create("/a")
        watches = [Witness() for _ in range(3)]
        await one.watch_data("/a", watches[0])
        await one.watch_data("/a", watches[1])
        await two.watch_exists("/a", watches[2])
        await one.set("/a", b"1")
        for watch in watches:
            assert await watch.next() == WatchedEvent(WatchedEventType.CHANGED, "/a")

    @scenario
    async def test_refused_write_tells_nobody(self, world: World) -> None:
        store = await world.connect()
        await store.create("/a")
        watch = Witness()
        await store.watch_data("/a", watch)
        await store.watch_children("/a", watch)
        with refused(BadVersion):
            await store.set("/a", b"1", version=9)
        with refused(NoNode, op_index=2):
            await store.multi([SetDataOp("/a", b"1"), CreateOp("/a/b"), DeleteOp("/none")])
        assert await watch.silent(store)

    @scenario
    async def test_multi_tells_of_each_change(self, world: World) -> None:
        store = await world.connect()
        await store.create("/a")
        data, children, created = Witness(), Witness(), Witness()
        await store.watch_data("/a", data)
        await store.watch_children("/a", children)
        await store.watch_exists("/a/b", created)
        await store.multi([SetDataOp("/a", b"1"), CreateOp("/a/b"), CreateOp("/a/c")])
        assert await data.next() == WatchedEvent(WatchedEventType.CHANGED, "/a")
        assert await children.next() == WatchedEvent(WatchedEventType.CHILDREN, "/a")
        assert await created.next() == WatchedEvent(WatchedEventType.CREATED, "/a/b")
        for watch in (data, children, created):
            assert await watch.silent(store)

    @scenario
    async def test_end_of_a_session_tells_those_who_watch_its_nodes(self, world: World) -> None:
        one, two = await world.connect(), await world.connect()
        await one.create("/ids")
        await one.create("/ids/1", ephemeral=True)
        node, children = Witness(), Witness()
        await two.watch_data("/ids/1", node)
        await two.watch_children("/ids", children)
        await one.close()
        assert await node.next() == WatchedEvent(WatchedEventType.DELETED, "/ids/1")
        assert await children.next() == WatchedEvent(WatchedEventType.CHILDREN, "/ids")
        assert await two.children("/ids") == []

    @scenario
    async def test_closed_session_hears_nothing_more(self, world: World) -> None:
        one, two = await world.connect(), await world.connect()
        await two.create("/a")
        watch = Witness()
        await one.watch_data("/a", watch)
        await one.close()
        await two.set("/a", b"1")
        assert await watch.silent(two)
