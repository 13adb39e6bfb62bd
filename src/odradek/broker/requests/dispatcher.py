"""From a request to its handler, and from the handler's result to the answer.

The one place where a request's version is checked, its body decoded, an error turned into an answer, and a
response encoded. Routes are compiled on first use, one per API and version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from odradek.broker.network.request_queue import RequestQueue
from odradek.broker.requests.pending_response import Pending
from odradek.model.errors import BrokerError, ErrorCode, RemoteProtocolViolation
from odradek.ports.files import Part
from odradek.store.port import Unavailable
from odradek.telemetry import events
from odradek.wire.apis import API_BY_KEY
from odradek.wire.message_codecs import decoder, parts_encoder
from odradek.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from odradek.wire.server_connection import Request

if TYPE_CHECKING:
    from odradek.broker.network.session import Session
    from odradek.broker.requests.context import Context

API_VERSIONS_KEY = 18

log = events.logger("dispatch")


class Call:
    """What a handler is told beside the request's body."""

    __slots__ = ("broker", "client_id", "session", "version")

    def __init__(self, broker: Context, version: int, client_id: str | None, session: Session) -> None:
        self.broker = broker
        self.version = version
        self.client_id = client_id
        self.session = session


Decode = Callable[[memoryview, int], tuple[Any, int]]
Encode = Callable[[Any], list[Part]]
Handle = Callable[[Any, Call], Any]
Refuse = Callable[[Any, ErrorCode, str | None], Any]
LoadHandler = Callable[[], tuple[Handle, Refuse | None]]


class NoAnswer:
    """A handler's result when the request asked for none; ``close`` says why the connection must end."""

    __slots__ = ("close",)

    def __init__(self, close: str | None = None) -> None:
        self.close = close


class Encoded:
    """A handler's result that is encoded already, because others get the same; its parts must not change."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts


@dataclass(frozen=True, slots=True)
class Handler:
    """One API: its versions, and where to get what serves it and what refuses a whole request.

    What serves it is a plain function. What that does before it returns happens in the order requests
    arrived; it returns a response, an ``Encoded`` or ``Pending`` one, a coroutine of one, or ``NoAnswer``.
    What is pending may come to a coroutine, and a coroutine to something pending.
    """

    api_key: int
    versions: range
    load: LoadHandler


class Route:
    """Everything needed to serve one version of one API."""

    __slots__ = ("decode", "encode", "handle", "name", "refuse")

    def __init__(
        self, name: str, decode: Decode, handle: Handle, encode: Encode, refuse: Refuse | None = None
    ) -> None:
        self.name = name
        self.decode = decode
        self.handle = handle
        self.encode = encode
        self.refuse = refuse


class Dispatcher:
    def __init__(self, handlers: Iterable[Handler], context: Context, queue: RequestQueue) -> None:
        self._queue = queue
        self._handlers = {handler.api_key: handler for handler in handlers}
        self._context = context
        self._routes: dict[tuple[int, int], Route] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, request: Request, session: Session) -> None:
        """Start a request. Its answer goes to the session: at once, or when it is there.

        Raises RemoteProtocolViolation for what only closing the connection can answer.
        """
        route = self._routes.get((request.api_key, request.api_version))
        if route is None:
            route = self._find_route(request)
        message, _ = route.decode(request.frame, request.body_position)
        call = Call(self._context, request.api_version, request.client_id, session)
        try:
            result = route.handle(message, call)
        except BrokerError as refused:
            result = _refusal(route, message, refused)
        kind = type(result)
        if kind is Pending:
            result.then(lambda later: self._go_on(session, request, route, message, later))
        elif kind is CoroutineType:
            self._spawn(self._finish(session, request, route, message, result))
        else:
            _answer(session, request, route, result)

    async def settle(self) -> None:
        """Wait for what is under way in tasks; part of a graceful stop."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _go_on(self, session: Session, request: Request, route: Route, message: Any, later: Any) -> None:
        """Answer with what a ``Pending`` or a coroutine came to; that may be one of these again."""
        kind = type(later)
        if kind is Pending:
            later.then(lambda last: self._go_on(session, request, route, message, last))
        elif kind is CoroutineType:
            self._spawn(self._finish(session, request, route, message, later))
        else:
            # Called from inside another session's work, which a defect in this answer must not disturb.
            try:
                _answer(session, request, route, later)
            except Exception as broken:  # noqa: BLE001 - the edge of a connection
                _give_up(session, route, broken)

    async def _finish(
        self, session: Session, request: Request, route: Route, message: Any, work: Coroutine[Any, Any, Any]
    ) -> None:
        try:
            try:
                response = await work
            except BrokerError as refused:
                response = _refusal(route, message, refused)
            except Unavailable as unavailable:
                response = _refusal(route, message, _told(unavailable, route))
            self._go_on(session, request, route, message, response)
        except Exception as broken:  # noqa: BLE001 - the edge of a connection
            _give_up(session, route, broken)

    def _find_route(self, request: Request) -> Route:
        key, version = request.api_key, request.api_version
        handler = self._handlers.get(key)
        if handler is None:
            raise RemoteProtocolViolation(f"unknown API key {key}")
        api = API_BY_KEY[key]
        if version in handler.versions:
            handle, refuse = handler.load()
            route = Route(
                api.name, decoder(api.request, version), handle, parts_encoder(api.response, version), refuse
            )
            self._routes[key, version] = route
            return route
        if key == API_VERSIONS_KEY:
            return _unsupported_api_versions(handler)
        raise RemoteProtocolViolation(f"{api.name} version {version} is not served")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        self._queue.entered()
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._queue.left()


def _answer(session: Session, request: Request, route: Route, response: Any) -> None:
    kind = type(response)
    if kind is NoAnswer:
        session.answer_nothing(request)
        if response.close is not None:
            session.end(response.close)
    elif kind is Encoded:
        session.answer(request, response.parts)
    else:
        session.answer(request, route.encode(response))


def _refusal(route: Route, message: Any, refused: BrokerError) -> Any:
    if route.refuse is None:
        raise AssertionError(f"{route.name} has no form for refusing a whole request") from refused
    return route.refuse(message, refused.code, refused.message)


def _told(unavailable: Unavailable, route: Route) -> BrokerError:
    """What a client hears of a store that cannot be written now (its disk is full): try again."""
    log.error("store_unavailable", api=route.name, reason=str(unavailable))
    return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(unavailable))


def _give_up(session: Session, route: Route, broken: Exception) -> None:
    log.failure("request_failed", broken, api=route.name, peer=session.peer)
    session.end(f"{route.name} failed inside the broker")


def _unsupported_api_versions(handler: Handler) -> Route:
    """KIP-511: a client that is too new gets a version 0 body with the one range it needs to go on."""
    known = ApiVersion(API_VERSIONS_KEY, handler.versions.start, handler.versions.stop - 1)
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[known])
    return Route(
        "ApiVersions",
        lambda frame, position: (None, position),
        lambda message, call: response,
        parts_encoder(ApiVersionsResponse, 0),
    )
