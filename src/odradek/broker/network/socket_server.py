"""The listeners of a broker: opened at its start, changed while it runs, closed at its end.

A change binds what is new before anything else happens, so that an address that cannot be listened on refuses
the whole change. A listener that stays under its name and moves to another address keeps its connections; the
connections of one that is removed end once what is under way is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from odradek.broker.network.listener import ConnectionLimits, Listener, MakeSession
from odradek.broker.start_checks import cannot_listen
from odradek.config.definition import Settings
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.config.listeners import ListenerChange, ListenerEndpoint, listeners, plan_change
from odradek.model.errors import BrokerError, ConfigError, ErrorCode
from odradek.ports.clock import Clock
from odradek.ports.network import ListeningSocket, Network
from odradek.telemetry import events

LAST_ANSWERS_MS: Final = 5_000
"""Time clients have to take their last responses before they are disconnected."""

log = events.logger("socket_server")


class Listening:
    def __init__(
        self,
        config: DynamicBrokerConfig,
        network: Network,
        clock: Clock,
        host_name: Callable[[], str],
        make_session: MakeSession,
    ) -> None:
        self.endpoints: list[ListenerEndpoint] = []
        """Advertised listeners, with the ports and the host name that only binding tells."""
        self.on_advertised: Callable[[Sequence[ListenerEndpoint]], Awaitable[None]] | None = None
        """Told of other endpoints, before clients can be."""
        self._config = config
        self._network = network
        self._clock = clock
        self._host_name = host_name
        self._make_session = make_session
        self._limits = ConnectionLimits(0, 0)
        self._limits.follow(config.broker)
        config.observers.append(self._limits.follow)
        self._bound: dict[str, ListenerEndpoint] = {}
        self._listeners: dict[str, Listener] = {}
        self._retired: set[Listener] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._changing = asyncio.Lock()

    def __iter__(self) -> Iterator[Listener]:
        """All listeners that have connections or may get some."""
        yield from self._listeners.values()
        yield from self._retired

    # Start.

    async def open(self) -> None:
        """Take the addresses of the settings; requests wait for ``serve``. ConfigError if one is not free."""
        wanted = listeners(self._config.broker)
        for endpoint in wanted.bound:
            listener = self._listeners[endpoint.name] = self._new_listener(endpoint)
            listener.use(await self._bind(listener, endpoint))
            self._bound[endpoint.name] = endpoint
        self.endpoints = self._advertised(wanted.advertised, {})

    def serve(self) -> None:
        for listener in self._listeners.values():
            listener.serve()

    def _new_listener(self, endpoint: ListenerEndpoint) -> Listener:
        return Listener(endpoint.name, self._limits, self._make_session)

    async def _bind(self, listener: Listener, endpoint: ListenerEndpoint) -> ListeningSocket:
        try:
            return await listener.bind(self._network, endpoint.host, endpoint.port)
        except OSError as refused:
            raise cannot_listen(endpoint, refused) from refused

    def _advertised(
        self, advertised: Sequence[ListenerEndpoint], sockets: Mapping[str, ListeningSocket]
    ) -> list[ListenerEndpoint]:
        ports = {name: listener.port for name, listener in self._listeners.items()}
        ports.update({name: socket.port for name, socket in sockets.items()})
        return [
            endpoint._replace(
                host=endpoint.host or self._host_name(), port=endpoint.port or ports[endpoint.name]
            )
            for endpoint in advertised
        ]

    # Change.

    @asynccontextmanager
    async def changing_to(self, values: Settings) -> AsyncIterator[None]:
        """Listen as these settings say from the end of the block on; inside, they are to be stored.

        INVALID_REQUEST if an address cannot be listened on. What the block raises leaves all as it was.
        """
        async with self._changing:
            wanted = listeners(values)
            change = plan_change(self._bound.values(), wanted.bound)
            fresh = {endpoint.name: self._new_listener(endpoint) for endpoint in change.added}
            freed = self._free_ports(change)
            sockets: dict[str, ListeningSocket] = {}
            is_done = False
            try:
                await self._bind_all(change, fresh, sockets)
                yield
                await self._tell(self._advertised(wanted.advertised, sockets))
                is_done = True
            finally:
                if not is_done:
                    await self._give_back(sockets, fresh, freed)
            self._take_over(change, fresh, sockets)

    def _free_ports(self, change: ListenerChange) -> list[str]:
        """Release ports that the change gives to others, which could not be bound before."""
        ports = {endpoint.port for endpoint in (*change.added, *change.moved)}
        leaving = (*(endpoint.name for endpoint in change.moved), *change.removed)
        freed = [name for name in leaving if self._listeners[name].port in ports]
        for name in freed:
            self._listeners[name].stop_accepting()
        return freed

    async def _bind_all(
        self, change: ListenerChange, fresh: Mapping[str, Listener], sockets: dict[str, ListeningSocket]
    ) -> None:
        for endpoint in (*change.added, *change.moved):
            listener = fresh.get(endpoint.name) or self._listeners[endpoint.name]
            try:
                sockets[endpoint.name] = await self._bind(listener, endpoint)
            except ConfigError as refused:
                raise BrokerError(ErrorCode.INVALID_REQUEST, str(refused)) from refused

    async def _give_back(
        self, sockets: Mapping[str, ListeningSocket], fresh: Mapping[str, Listener], freed: Sequence[str]
    ) -> None:
        for socket in sockets.values():
            socket.close()
        for listener in fresh.values():
            for session in list(listener.sessions):
                session.close()
        for name in freed:
            listener, endpoint = self._listeners[name], self._bound[name]
            try:
                listener.use(await self._bind(listener, endpoint))
            except ConfigError as lost:
                log.error("listener_lost", listener=str(endpoint), reason=str(lost))

    async def _tell(self, endpoints: list[ListenerEndpoint]) -> None:
        if endpoints != self.endpoints:
            if self.on_advertised is not None:
                await self.on_advertised(endpoints)
            self.endpoints = endpoints
            log.info("listeners_advertised", endpoints=",".join(map(str, endpoints)))

    def _take_over(
        self, change: ListenerChange, fresh: Mapping[str, Listener], sockets: Mapping[str, ListeningSocket]
    ) -> None:
        for endpoint in (*change.added, *change.moved):
            listener = fresh.get(endpoint.name) or self._listeners[endpoint.name]
            listener.use(sockets[endpoint.name])
            if endpoint.name in fresh:
                listener.serve()
            self._listeners[endpoint.name] = listener
            self._bound[endpoint.name] = endpoint
            log.info("listener_opened", listener=str(endpoint))
        for name in change.removed:
            log.info("listener_closed", listener=str(self._bound.pop(name)))
            self._retire(self._listeners.pop(name))

    def _retire(self, listener: Listener) -> None:
        listener.stop_accepting()
        for session in list(listener.sessions):
            session.finish()
        if listener.sessions:
            self._retired.add(listener)
            task = asyncio.get_running_loop().create_task(self._cut_off_late(listener))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _cut_off_late(self, listener: Listener) -> None:
        await self._clock.sleep_ms(LAST_ANSWERS_MS)
        for session in list(listener.sessions):
            session.cut_off()
        self._retired.discard(listener)

    # Stop.

    def stop_reading(self) -> None:
        """Accept no connection and read no request any longer; what is under way can still be answered."""
        for task in self._tasks:
            task.cancel()
        for listener in self:
            listener.stop_accepting()
            for session in listener.sessions:
                session.stop_reading()

    async def close_sessions(self) -> None:
        """Close every connection once its answers are out; those that do not read them are cut off."""
        for listener in self:
            for session in list(listener.sessions):
                session.close()
        deadline_ms = self._clock.monotonic_ms() + LAST_ANSWERS_MS
        while any(listener.sessions for listener in self):
            if self._clock.monotonic_ms() > deadline_ms:
                log.warning("responses_not_read", connections=sum(len(one.sessions) for one in self))
                return
            await self._clock.sleep_ms(5)
