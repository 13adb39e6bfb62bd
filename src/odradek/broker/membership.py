"""Membership of this broker in its cluster: the store session, the registration, the controller role.

One session at a time. When it expires, the broker is no longer in the cluster: a controller on it resigns
first, before anything else runs; then a new session is opened, the broker registers again under a new broker
epoch, everything read under the old session is read again (``on_session``), and the broker stands for
controller.

On ZooKeeper ``/controller`` is watched. A controller whose node is deleted, or names another broker, resigns;
every broker stands when there is none. So deleting or overwriting the node forces an election. Each step
reads the node again before it decides, because a step whose connection broke may have been done.

Other parts hold the ``Membership`` and use its ``store``, never a session of their own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from odradek.broker.environment import Ensemble
from odradek.cluster.metadata_version import LATEST, MetadataVersion
from odradek.controller.controller import Controller
from odradek.model.errors import BrokerError, ConfigError, ErrorCode
from odradek.ports.clock import Clock
from odradek.store.broker_registration import (
    check_endpoints,
    create_top_level_paths,
    read_brokers,
    register_broker,
    update_registration,
)
from odradek.store.controller_election import Fence, elect, is_elected, resign
from odradek.store.features import enable_features
from odradek.store.layout import znode_paths
from odradek.store.layout.znodes import BrokerRegistration
from odradek.store.port import SessionExpired, Store, StoreError, WatchedEvent, WatchedEventType
from odradek.telemetry import events

NO_EPOCH: Final = -1
RETRY_WAITS_MS: Final = (100, 500, 2_000, 10_000)
"""Waits between attempts to join again; the last one repeats."""

OWN_SESSIONS_MAX: Final = 16
"""Remembered sessions; more do not expire while ZooKeeper still keeps a node of the first."""

REELECTION_WAIT_MS: Final = 1_000
"""Wait between the failure of a controller on this broker and the next election."""

MakeController = Callable[[Store, Fence], Controller]
SessionCallback = Callable[[Store], Awaitable[None]]

log = events.logger("membership")


class Membership:
    """A ``StoreProvider``. ``is_shared`` says that the store is a ZooKeeper ensemble."""

    def __init__(
        self,
        ensemble: Ensemble,
        clock: Clock,
        *,
        is_shared: bool,
        metadata_version: MetadataVersion = LATEST,
    ) -> None:
        self.broker_epoch = NO_EPOCH
        """czxid of the registration; NO_EPOCH before the first one."""
        self.controller: Controller | None = None
        """The controller, while it runs on this broker."""
        self.is_shared = is_shared
        self.metadata_version = metadata_version
        self._ensemble = ensemble
        self._clock = clock
        self._broker_id = -1
        self._make_registration: Callable[[], BrokerRegistration] | None = None
        self._make_controller: MakeController | None = None
        self._session: Store | None = None
        self._is_session_alive = False
        self._own_session_ids: deque[int] = deque(maxlen=OWN_SESSIONS_MAX)
        """Sessions that may have registered: ZooKeeper may keep their nodes for a while after the expiry."""
        self._is_joined = False
        """The broker is registered, and everything was read, under the current session."""
        self._callbacks: list[SessionCallback] = []
        self._must_rejoin = False
        self._rejoining: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._is_replacing = False
        """A controller on this broker has failed: the broker does not stand until a while later."""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def store(self) -> Store:
        """The current session. After an expiry its calls raise ``SessionExpired`` until there is another."""
        assert self._session is not None, "no session has been opened"
        return self._session

    @property
    def is_controller(self) -> bool:
        return self.controller is not None

    def require_controller(self) -> Controller:
        """Return the controller on this broker; raises NOT_CONTROLLER if it is elsewhere."""
        if self.controller is None:
            raise BrokerError(ErrorCode.NOT_CONTROLLER)
        return self.controller

    def on_session(self, callback: SessionCallback) -> None:
        """Call back with each session after the first, once the broker is registered again."""
        self._callbacks.append(callback)

    # Join.

    async def connect(self) -> None:
        """Open the first session."""
        await self._open_session()
        if self.is_shared:
            await create_top_level_paths(self.store)

    async def register(self, broker_id: int, make_registration: Callable[[], BrokerRegistration]) -> None:
        """Register this broker; raises ``BrokerIdTaken`` or ``ConfigError`` on a conflict."""
        self._broker_id, self._make_registration = broker_id, make_registration
        await self._register()
        self._is_joined = True

    async def update_registration(self, registration: BrokerRegistration) -> None:
        """Publish changed endpoints; the broker epoch stays."""
        await update_registration(self.store, self._broker_id, registration)

    async def stand_for_controller(self, make_controller: MakeController) -> None:
        """Become the controller of the embedded store. On ZooKeeper, stand in the background."""
        self._make_controller = make_controller
        if self.is_shared:
            self._rejoin()
        elif not await self._stand():
            raise ConfigError(
                ["another broker is the controller of this store; only one broker is supported"]
            )

    async def _open_session(self) -> None:
        session = await self._ensemble.open_session()
        self._session, self._is_session_alive = session, True
        session.on_expired(lambda: self._on_expired(session))

    async def _register(self) -> None:
        assert self._make_registration is not None
        store, registration = self.store, self._make_registration()
        await store.ensure_path(znode_paths.BROKER_IDS)
        if self.is_shared:
            check_endpoints(registration, self._broker_id, await read_brokers(store))
        former_session_ids = tuple(self._own_session_ids)
        if store.session_id not in former_session_ids:
            # Before the attempt: it may succeed without a response.
            self._own_session_ids.append(store.session_id)
        self.broker_epoch = await register_broker(store, self._broker_id, registration, former_session_ids)
        log.info("registered", broker=self._broker_id, broker_epoch=self.broker_epoch)

    # The controller role.

    async def _stand(self) -> bool:
        """Become the controller of an embedded store, which has no other broker."""
        store = self.store
        fence = await elect(store, self._broker_id, self._clock.wall_ms())
        if fence is None or not self._is_session_alive:
            return False
        controller = self._appoint(store, fence)
        try:
            await self._start_controller(controller, store)
        except BaseException:
            await self._give_up(controller, store)
            raise
        return True

    async def _follow_or_stand(self) -> None:
        """Watch the controller of the cluster, and stand if there is none."""
        store = self.store
        await store.watch_exists(znode_paths.CONTROLLER, self._on_controller_changed)
        if self.controller is not None:
            if await is_elected(store, self._broker_id):
                return
            self._dismiss("another broker is the controller")
        if self._is_replacing:
            return
        fence = await elect(store, self._broker_id, self._clock.wall_ms())
        if fence is None:
            log.info("controller_elsewhere", broker=self._broker_id)
        elif self._is_session_alive:
            # Not awaited: the watch must be served while a large cluster is loaded.
            self._spawn(self._lead(self._appoint(store, fence), store))

    async def _lead(self, controller: Controller, store: Store) -> None:
        """Start the controller of a cluster; after a failure, stand again a while later."""
        try:
            await self._start_controller(controller, store)
        except Exception as error:  # noqa: BLE001 - the edge of a task
            if self.controller is controller:  # else it has resigned
                log.error("controller_start_failed", broker=self._broker_id, reason=str(error))
                self._on_controller_failed(controller, store)

    def _appoint(self, store: Store, fence: Fence) -> Controller:
        assert self._make_controller is not None
        log.info("controller_elected", broker=self._broker_id, controller_epoch=fence.controller_epoch)
        self.controller = self._make_controller(store, fence)
        return self.controller

    async def _start_controller(self, controller: Controller, store: Store) -> None:
        await enable_features(store, self.metadata_version.feature_node_version)
        await controller.start()
        if not self.is_shared:
            # The metadata of this broker is complete after that.
            await controller.settle()
        controller.on_failed = lambda: self._on_controller_failed(controller, store)

    def _dismiss(self, reason: str) -> None:
        """Let the controller resign now, not in a task: nothing more may be decided."""
        controller, self.controller = self.controller, None
        if controller is not None:
            log.info("controller_resigned", broker=self._broker_id, reason=reason)
            controller.resign()
            self._spawn(controller.stop())

    async def _give_up(self, controller: Controller, store: Store) -> None:
        if self.controller is controller:
            self.controller = None
        await controller.stop()
        try:
            await resign(store, controller.fence)
        except StoreError as error:
            log.warning("resignation_failed", reason=str(error))

    def _on_controller_changed(self, event: WatchedEvent) -> None:
        if event.kind is WatchedEventType.DELETED:
            self._dismiss("/controller was deleted")
        self._rejoin()

    def _on_controller_failed(self, controller: Controller, store: Store) -> None:
        """Give up the role after a failure for good, and stand again: the new controller reads all state."""
        if self.controller is controller and not self._is_stopped:
            self.controller = None
            self._is_replacing = True
            self._spawn(self._replace_controller(controller, store))

    async def _replace_controller(self, controller: Controller, store: Store) -> None:
        try:
            await self._give_up(controller, store)
            # Not at once: what failed may fail again, and another broker may do better.
            await self._clock.sleep_ms(REELECTION_WAIT_MS)
        finally:
            self._is_replacing = False
        self._rejoin()

    # Expiry.

    def _on_expired(self, session: Store) -> None:
        if session is not self._session:
            return
        log.warning("session_expired", broker=self._broker_id, session=f"{session.session_id:#x}")
        self._is_session_alive = self._is_joined = False
        self._dismiss("the session expired")
        self._rejoin()

    def _rejoin(self) -> None:
        self._must_rejoin = True
        if self._rejoining is None and self._make_registration is not None and not self._is_stopped:
            self._rejoining = asyncio.get_running_loop().create_task(self._rejoin_until_done())

    async def _rejoin_until_done(self) -> None:
        failures = 0
        try:
            while self._must_rejoin:
                self._must_rejoin = False
                if not await self._try_to_rejoin():
                    self._must_rejoin = True
                    await self._clock.sleep_ms(RETRY_WAITS_MS[min(failures, len(RETRY_WAITS_MS) - 1)])
                    failures += 1
        finally:
            self._rejoining = None

    async def _try_to_rejoin(self) -> bool:
        """Open a session unless there is one, and do everything again that depends on it."""
        try:
            if not self._is_session_alive:
                await self._open_session()
            if not self._is_joined:
                await self._register()
                for callback in self._callbacks:
                    await callback(self.store)
                self._is_joined = self._is_session_alive
            if self._make_controller is None:
                return True
            if self.is_shared:
                await self._follow_or_stand()
                return True
            return self.controller is not None or await self._stand()
        except (StoreError, ConfigError) as error:
            log.error("rejoin_failed", broker=self._broker_id, reason=str(error))
        except Exception as error:  # noqa: BLE001 - the edge of a task
            log.failure("rejoin_crashed", error)
        return False

    def _spawn(self, work: Awaitable[None]) -> None:
        async def run() -> None:
            try:
                await work
            except SessionExpired:
                return  # the next session starts over
            except StoreError as error:
                log.error("membership_task_failed", reason=str(error))
                self._rejoin()

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Stop.

    async def stop(self) -> None:
        """Stop the controller and end all attempts to join. The session stays open."""
        self._is_stopped = True
        tasks = [*self._tasks, *([] if self._rejoining is None else [self._rejoining])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        controller, self.controller = self.controller, None
        if controller is not None:
            await controller.stop()

    async def close(self) -> None:
        """Close the session: the broker leaves the cluster."""
        await self._ensemble.close()
