"""Contract tests of the store port: connections that break.

A lost connection is not an expired session. For stores whose sessions have a connection; a subclass provides
``open`` with a ``ConnectionFixture`` and a session timeout of a few seconds.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from odradek.store.port import (
    CreateOp,
    NodeExists,
    SessionExpired,
    SetDataOp,
    Unavailable,
    WatchedEvent,
    WatchedEventType,
)
from odradek.testing.contracts.store_fixture import (
    EVENT_SECONDS_MAX,
    ConnectionFixture,
    RecordingWatcher,
    StoreScenarios,
    raises,
    scenario,
)


class StoreConnectionContract(StoreScenarios[ConnectionFixture]):
    """Tests of every store with connections."""

    @scenario
    async def test_session_survives_a_lost_connection(self, fixture: ConnectionFixture) -> None:
        store, other = await fixture.connect(), await fixture.connect()
        expiries: list[str] = []
        store.on_expired(lambda: expiries.append("expired"))
        await store.create("/e", b"1", ephemeral=True)
        session_id = store.session_id
        for number in range(3):
            await fixture.disconnect(store)
            assert await other.exists("/e") is not None
            await fixture.reconnect(store)
            await store.set("/e", b"%d" % number)
        data, stat = await other.get("/e")
        assert (data, stat.ephemeral_owner, store.session_id) == (b"2", session_id, session_id)
        assert (expiries, fixture.count_sessions(store)) == ([], 1)

    @scenario
    async def test_operations_wait_for_the_connection(self, fixture: ConnectionFixture) -> None:
        store = await fixture.connect()
        await fixture.disconnect(store)
        operations = [
            asyncio.create_task(store.create("/a", b"1")),
            asyncio.create_task(store.set("/a", b"2", 0)),
            asyncio.create_task(store.get_many(["/a", "/b"])),
        ]
        await asyncio.sleep(0)
        assert not any(operation.done() for operation in operations)
        await fixture.reconnect(store)
        await asyncio.gather(*operations)
        assert (await store.get("/a"))[0] == b"2"

    @scenario
    async def test_requests_in_flight_at_the_loss_are_unavailable(self, fixture: ConnectionFixture) -> None:
        store = await fixture.connect()
        await store.create("/a")
        await fixture.hold_requests(store)
        operations = [
            asyncio.create_task(operation)
            for operation in (
                store.get("/a"),
                store.set("/a", b"1"),
                store.multi([SetDataOp("/a", b"2")]),
                store.watch_data("/a", RecordingWatcher()),
            )
        ]
        await fixture.wait_until_held(store)
        await fixture.disconnect(store)
        for error in await asyncio.gather(*operations, return_exceptions=True):
            assert type(error) is Unavailable, error
        await fixture.reconnect(store)
        assert (await store.get("/a"))[0] == b""

    @scenario
    async def test_write_without_a_response_is_visible_after_the_loss(
        self, fixture: ConnectionFixture
    ) -> None:
        store = await fixture.connect()
        await fixture.hold_responses(store)
        write = asyncio.create_task(store.create("/controller", b"1", ephemeral=True))
        await fixture.wait_until_held(store)
        await fixture.disconnect(store)
        with raises(Unavailable, "/controller"):
            await write
        await fixture.reconnect(store)
        with raises(NodeExists, "/controller"):
            await store.create("/controller", b"2", ephemeral=True)
        data, stat = await store.get("/controller")
        assert (data, stat.ephemeral_owner) == (b"1", store.session_id)

    @scenario
    async def test_watches_see_the_changes_during_a_loss(self, fixture: ConnectionFixture) -> None:
        store, other = await fixture.connect(), await fixture.connect()
        for path in ("/changed", "/deleted", "/parent", "/gone"):
            await other.create(path)
        watches = {
            path: RecordingWatcher() for path in ("/changed", "/deleted", "/created", "/parent", "/gone")
        }
        await store.watch_data("/changed", watches["/changed"])
        await store.watch_data("/deleted", watches["/deleted"])
        await store.watch_exists("/created", watches["/created"])
        await store.watch_children("/parent", watches["/parent"])
        await store.watch_children("/gone", watches["/gone"])
        await fixture.disconnect(store)
        await other.set("/changed", b"1")
        await other.delete("/deleted")
        await other.create("/created")
        await other.create("/parent/child")
        await other.delete("/gone")
        await fixture.reconnect(store)
        assert {path: (await watch.next()).kind for path, watch in watches.items()} == {
            "/changed": WatchedEventType.CHANGED,
            "/deleted": WatchedEventType.DELETED,
            "/created": WatchedEventType.CREATED,
            "/parent": WatchedEventType.CHILDREN,
            "/gone": WatchedEventType.DELETED,
        }
        for watch in watches.values():
            assert await watch.has_no_more_events(store)

    @scenario
    async def test_watches_stay_set_across_losses(self, fixture: ConnectionFixture) -> None:
        store, other = await fixture.connect(), await fixture.connect()
        await other.create("/a")
        data, missing, children = RecordingWatcher(), RecordingWatcher(), RecordingWatcher()
        await store.watch_data("/a", data)
        await store.watch_exists("/b", missing)
        await store.watch_children("/a", children)
        for _ in range(2):
            await fixture.disconnect(store)
            await other.create("/unrelated")
            await fixture.reconnect(store)
            await store.delete("/unrelated")
        for watch in (data, missing, children):
            assert await watch.has_no_more_events(store)
        await other.set("/a", b"1")
        await other.create("/b")
        await other.create("/a/b")
        assert await data.next() == WatchedEvent(WatchedEventType.CHANGED, "/a")
        assert await missing.next() == WatchedEvent(WatchedEventType.CREATED, "/b")
        assert await children.next() == WatchedEvent(WatchedEventType.CHILDREN, "/a")

    @scenario
    async def test_fired_watch_does_not_fire_again_after_a_loss(self, fixture: ConnectionFixture) -> None:
        store, other = await fixture.connect(), await fixture.connect()
        await other.create("/a")
        watch = RecordingWatcher()
        await store.watch_data("/a", watch)
        await other.set("/a", b"1")
        await watch.next()
        await fixture.disconnect(store)
        await other.set("/a", b"2")
        await fixture.reconnect(store)
        assert await watch.has_no_more_events(store)

    @scenario
    async def test_many_watches_survive_a_loss(self, fixture: ConnectionFixture) -> None:
        store, other = await fixture.connect(), await fixture.connect()
        paths = [
            f"/a-node-with-quite-a-long-name-so-that-watches-need-several-requests-{n:04d}"
            for n in range(3000)
        ]
        for start in range(0, len(paths), 1000):
            await other.multi([CreateOp(path) for path in paths[start : start + 1000]])
        watch = RecordingWatcher()
        await asyncio.gather(*(store.watch_data(path, watch) for path in paths))
        await fixture.disconnect(store)
        await other.set(paths[0], b"1")
        await other.set(paths[-1], b"1")
        await fixture.reconnect(store)
        assert {(await watch.next()).path for _ in range(2)} == {paths[0], paths[-1]}
        await other.set(paths[1500], b"1")
        assert (await watch.next()).path == paths[1500]
        assert await watch.has_no_more_events(store)

    @scenario
    async def test_operation_without_a_connection_ends_as_unavailable(
        self, fixture: ConnectionFixture
    ) -> None:
        store = await fixture.connect()
        await fixture.disconnect(store)
        operations = [store.create("/a"), store.exists("/a"), store.get_many(["/", "/a"])]
        results = await asyncio.wait_for(
            asyncio.gather(*operations, return_exceptions=True), EVENT_SECONDS_MAX
        )
        assert [type(result) for result in results] == [Unavailable] * 3
        other = await fixture.connect()
        await fixture.reconnect(store)
        with suppress(SessionExpired):  # it may have expired meanwhile
            await store.exists("/")
        assert await other.exists("/a") is None, "an operation took effect after it was given up"

    @scenario
    async def test_nodes_of_a_silent_session_stay_until_it_expires(self, fixture: ConnectionFixture) -> None:
        store, other = await fixture.connect(), await fixture.connect()
        expiry = asyncio.Event()
        store.on_expired(expiry.set)
        await store.create("/e", ephemeral=True)
        watch = RecordingWatcher()
        await other.watch_exists("/e", watch)
        await fixture.disconnect(store)
        stat = await other.exists("/e")
        assert stat is not None
        assert stat.ephemeral_owner == store.session_id
        assert await watch.next() == WatchedEvent(WatchedEventType.DELETED, "/e")
        assert await other.exists("/e") is None
        await fixture.reconnect(store)
        await asyncio.wait_for(expiry.wait(), EVENT_SECONDS_MAX)
        for _ in range(3):
            with raises(SessionExpired):
                await store.create("/e", ephemeral=True)
        await store.close()
        assert fixture.count_sessions(store) == 1, "the client has opened another session"

    @scenario
    async def test_waiting_operations_end_with_an_expired_session(self, fixture: ConnectionFixture) -> None:
        store = await fixture.connect()
        await fixture.disconnect(store)
        operation = asyncio.create_task(store.create("/a"))
        await asyncio.sleep(0)
        await fixture.expire(store)
        await fixture.reconnect(store)
        with raises(SessionExpired):
            await asyncio.wait_for(operation, EVENT_SECONDS_MAX)

    @scenario
    async def test_session_without_a_connection_can_be_closed(self, fixture: ConnectionFixture) -> None:
        store, other = await fixture.connect(), await fixture.connect()
        await store.create("/e", ephemeral=True)
        watch = RecordingWatcher()
        await other.watch_exists("/e", watch)
        await fixture.disconnect(store)
        await store.close()
        with raises(SessionExpired):
            await store.exists("/")
        assert await watch.next() == WatchedEvent(WatchedEventType.DELETED, "/e")
