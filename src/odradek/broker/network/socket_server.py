"""Socket server: the listeners of a broker, opened at start, changed at run time, closed at stop.

A change binds the new addresses first, so that an address that cannot be bound rejects the whole change. A
listener that keeps its name and moves to another address keeps its connections; the connections of a removed
listener are closed once their in-flight requests are complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from odradek.broker.network.listener import (
    ConnectionQuotas,
    ConnectionThrottling,
    Listener,
    MakeSession,
    Security,
)
from odradek.broker.start_checks import bind_error
from odradek.config.definition import Settings
from odradek.config.dynamic.broker_config import DynamicBrokerConfig
from odradek.config.listeners import ListenerChange, ListenerEndpoint, listeners, plan_change
from odradek.model.errors import BrokerError, ConfigError, ErrorCode
from odradek.ports.clock import Clock
from odradek.ports.network import ListeningSocket, Network
from odradek.telemetry import events

MakeSecurity = Callable[[ListenerEndpoint, Settings], Security | None]

LAST_RESPONSES_MS: Final = 5_000
"""Time clients have to read their last responses before they are disconnected."""

log = events.logger("socket_server")


class SocketServer:
    def __init__(
        self,
        config: DynamicBrokerConfig,
        network: Network,
        clock: Clock,
        host_name: Callable[[], str],
        make_session: MakeSession,
        throttling: ConnectionThrottling | None = None,
        make_security: MakeSecurity | None = None,
    ) -> None:
        self.endpoints: list[ListenerEndpoint] = []
        """Advertised endpoints, with the ports and the host name known after binding."""
        self.on_advertised: Callable[[Sequence[ListenerEndpoint]], Awaitable[None]] | None = None
        """Called with changed endpoints before Metadata responses contain them."""
        self._config = config
        self._network = network
        self._clock = clock
        self._host_name = host_name
        self._make_session = make_session
        self._throttling = throttling
        self._inter_broker = listeners(config.broker).inter_broker
        self._make_security = make_security
        self._quotas = ConnectionQuotas(0, 0)
        self._quotas.update(config.broker)
        config.observers.append(self._quotas.update)
        config.observers.append(self._update_security)
        self._bound: dict[str, ListenerEndpoint] = {}
        self._listeners: dict[str, Listener] = {}
        self._draining: set[Listener] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._change_lock = asyncio.Lock()

    def __iter__(self) -> Iterator[Listener]:
        """Iterate over active listeners and removed ones that still have connections."""
        yield from self._listeners.values()
        yield from self._draining

    # Start.

    async def open(self) -> None:
        """Bind the configured addresses; requests wait for ``serve``. Raises ConfigError if one is in use."""
        configured = listeners(self._config.broker)
        for endpoint in configured.bound:
            listener = self._listeners[endpoint.name] = self._new_listener(endpoint, self._config.broker)
            listener.replace_socket(await self._bind(listener, endpoint))
            self._bound[endpoint.name] = endpoint
        self.endpoints = self._resolve_advertised(configured.advertised, {})

    def serve(self) -> None:
        for listener in self._listeners.values():
            listener.serve()

    def _new_listener(self, endpoint: ListenerEndpoint, values: Settings) -> Listener:
        """Return a listener that is not bound yet; raises ConfigError if its security is not valid."""
        return Listener(
            endpoint.name,
            self._quotas,
            self._make_session,
            self._throttling,
            partial(self._is_protected, endpoint.name),
            None if self._make_security is None else self._make_security(endpoint, values),
        )

    def _is_protected(self, name: str) -> bool:
        """Return whether only brokers use a listener; if it is the only one, clients use it too."""
        return len(self._bound) > 1 and name == self._inter_broker

    async def _bind(self, listener: Listener, endpoint: ListenerEndpoint) -> ListeningSocket:
        network = self._network if listener.security is None else listener.security.network(self._network)
        try:
            return await listener.bind(network, endpoint.host, endpoint.port)
        except OSError as error:
            raise bind_error(endpoint, error) from error

    def _resolve_advertised(
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
    async def reconfigure(self, values: Settings) -> AsyncIterator[None]:
        """Bind the listeners of ``values`` on entry and switch to them on exit; the body stores the settings.

        Raises INVALID_REQUEST if an address cannot be bound. An exception in the body reverts the change.
        """
        async with self._change_lock:
            configured = listeners(values)
            change = plan_change(self._bound.values(), configured.bound)
            self._check_security(values)
            new_listeners = self._new_listeners(change, values)
            released = self._release_ports(change)
            sockets: dict[str, ListeningSocket] = {}
            is_done = False
            try:
                await self._bind_sockets(change, new_listeners, sockets)
                yield
                await self._advertise(self._resolve_advertised(configured.advertised, sockets))
                is_done = True
            finally:
                if not is_done:
                    await self._revert(sockets, new_listeners, released)
            self._commit(change, new_listeners, sockets)

    def _new_listeners(self, change: ListenerChange, values: Settings) -> dict[str, Listener]:
        try:
            return {endpoint.name: self._new_listener(endpoint, values) for endpoint in change.added}
        except ConfigError as error:
            raise BrokerError(ErrorCode.INVALID_REQUEST, str(error)) from error

    def _check_security(self, values: Settings) -> None:
        """Check changed settings of listeners before they are stored; raises INVALID_REQUEST."""
        for listener in self._listeners.values():
            problems = [] if listener.security is None else listener.security.problems(values)
            if problems:
                raise BrokerError(ErrorCode.INVALID_REQUEST, "; ".join(problems))

    def _update_security(self, values: Settings) -> None:
        """Use changed settings for new connections; those that are not valid are logged, and not used."""
        for listener in self._listeners.values():
            if listener.security is not None:
                problems = listener.security.update(values)
                for problem in problems:
                    log.error("security_not_changed", listener=listener.name, reason=problem)

    def reload_security(self) -> None:
        """Read certificates again whose files have changed."""
        for listener in self._listeners.values():
            if listener.security is not None:
                listener.security.reload()

    def _release_ports(self, change: ListenerChange) -> list[str]:
        """Release ports that the change assigns to other listeners."""
        ports = {endpoint.port for endpoint in (*change.added, *change.moved)}
        names = (*(endpoint.name for endpoint in change.moved), *change.removed)
        released = [name for name in names if self._listeners[name].port in ports]
        for name in released:
            self._listeners[name].stop_accepting()
        return released

    async def _bind_sockets(
        self,
        change: ListenerChange,
        new_listeners: Mapping[str, Listener],
        sockets: dict[str, ListeningSocket],
    ) -> None:
        for endpoint in (*change.added, *change.moved):
            listener = new_listeners.get(endpoint.name) or self._listeners[endpoint.name]
            try:
                sockets[endpoint.name] = await self._bind(listener, endpoint)
            except ConfigError as error:
                raise BrokerError(ErrorCode.INVALID_REQUEST, str(error)) from error

    async def _revert(
        self,
        sockets: Mapping[str, ListeningSocket],
        new_listeners: Mapping[str, Listener],
        released: Sequence[str],
    ) -> None:
        for socket in sockets.values():
            socket.close()
        for listener in new_listeners.values():
            for session in list(listener.sessions):
                session.close()
        for name in released:
            listener, endpoint = self._listeners[name], self._bound[name]
            try:
                listener.replace_socket(await self._bind(listener, endpoint))
            except ConfigError as error:
                log.error("listener_lost", listener=str(endpoint), reason=str(error))

    async def _advertise(self, endpoints: list[ListenerEndpoint]) -> None:
        if endpoints != self.endpoints:
            if self.on_advertised is not None:
                await self.on_advertised(endpoints)
            self.endpoints = endpoints
            log.info("listeners_advertised", endpoints=",".join(map(str, endpoints)))

    def _commit(
        self,
        change: ListenerChange,
        new_listeners: Mapping[str, Listener],
        sockets: Mapping[str, ListeningSocket],
    ) -> None:
        for endpoint in (*change.added, *change.moved):
            listener = new_listeners.get(endpoint.name) or self._listeners[endpoint.name]
            listener.replace_socket(sockets[endpoint.name])
            if endpoint.name in new_listeners:
                listener.serve()
            self._listeners[endpoint.name] = listener
            self._bound[endpoint.name] = endpoint
            log.info("listener_opened", listener=str(endpoint))
        for name in change.removed:
            log.info("listener_closed", listener=str(self._bound.pop(name)))
            self._remove(self._listeners.pop(name))

    def _remove(self, listener: Listener) -> None:
        listener.stop_accepting()
        for session in list(listener.sessions):
            session.drain()
        if listener.sessions:
            self._draining.add(listener)
            task = asyncio.get_running_loop().create_task(self._abort_after_timeout(listener))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _abort_after_timeout(self, listener: Listener) -> None:
        await self._clock.sleep_ms(LAST_RESPONSES_MS)
        for session in list(listener.sessions):
            session.abort()
        self._draining.discard(listener)

    # Stop.

    def stop_reading(self) -> None:
        """Stop accepting connections and reading requests; in-flight requests can still complete."""
        for task in self._tasks:
            task.cancel()
        for listener in self:
            listener.stop_accepting()
            for session in listener.sessions:
                session.stop_reading()

    async def close_sessions(self) -> None:
        """Close every connection once its responses are sent, or after ``LAST_RESPONSES_MS``."""
        for listener in self:
            for session in list(listener.sessions):
                session.close()
        deadline_ms = self._clock.monotonic_ms() + LAST_RESPONSES_MS
        while any(listener.sessions for listener in self):
            if self._clock.monotonic_ms() > deadline_ms:
                log.warning(
                    "responses_not_read", connections=sum(len(listener.sessions) for listener in self)
                )
                return
            await self._clock.sleep_ms(5)
