"""Dispatch of requests to handlers, and of their results to the client.

The only place where a request's version is checked, its body decoded, an error turned into an error response,
and a response encoded. Routes are compiled on first use, one per API and version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from odradek.broker.network.request_queue import RequestQueue
from odradek.broker.requests.authorization import ALL_OPERATIONS, NO_NAMES, OPERATIONS, denial
from odradek.broker.requests.pending_response import PendingResponse
from odradek.model.acl_enums import CLUSTER_NAME, AclResourceType
from odradek.model.acl_operations import AclOperation, bit_field
from odradek.model.client_errors import UnsupportedVersion
from odradek.model.errors import BrokerError, ErrorCode, RemoteProtocolViolation
from odradek.net.api_versions import RequestBuilder, api_of_request
from odradek.ports.files import FileSlice, Part
from odradek.security.principal import ANONYMOUS
from odradek.store.port import SessionExpired, StoreError, Unavailable
from odradek.telemetry import events
from odradek.wire.apis import API_BY_KEY
from odradek.wire.message_codecs import decoder, parts_encoder
from odradek.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from odradek.wire.server_connection import Request

if TYPE_CHECKING:
    from odradek.broker.network.session import Session
    from odradek.broker.requests.context import BrokerContext
    from odradek.broker.requests.request_meter import RequestMeter
    from odradek.security.acls.authorizer import AclAuthorizer

API_VERSIONS_KEY = 18

LOGGED_CHARS_MAX: Final = 249
"""Longest name of a resource in the log: that of a topic."""

log = events.logger("dispatch")


class RequestContext:
    """Context of one request, and what its sender may do."""

    __slots__ = ("api", "authorizer", "broker", "client_id", "meter", "session", "version")

    def __init__(
        self,
        broker: BrokerContext,
        version: int,
        client_id: str | None,
        session: Session | LocalSession,
        authorizer: AclAuthorizer | None,
        api: str = "",
    ) -> None:
        self.api = api
        self.broker = broker
        self.version = version
        self.client_id = client_id
        self.session = session
        self.authorizer = authorizer
        """None if everything is allowed: without an authorizer, and for this broker itself."""
        self.meter: RequestMeter | None = None  # set while there are quotas

    def is_allowed(
        self, operation: AclOperation, resource_type: AclResourceType, name: str, log_if_denied: bool = True
    ) -> bool:
        """Return whether the sender may do this. Denials are logged, unless they only filter a response."""
        authorizer = self.authorizer
        if authorizer is None:
            return True
        session = self.session
        if authorizer.is_allowed(session.principal, session.peer_host, operation, resource_type, name):
            return True
        if log_if_denied:
            self.log_denial(operation, resource_type, name)
        return False

    def log_denial(self, operation: AclOperation, resource_type: AclResourceType, name: str) -> None:
        """Log a denial, rate-limited per principal and API."""
        self.broker.audit.denied(
            self.session.principal,
            self.session.peer_host,
            self.api,
            operation.name,
            f"{resource_type.name}:{name[:LOGGED_CHARS_MAX]}",
        )

    def is_allowed_on_cluster(self, operation: AclOperation, log_if_denied: bool = True) -> bool:
        return self.authorizer is None or self.is_allowed(
            operation, AclResourceType.CLUSTER, CLUSTER_NAME, log_if_denied
        )

    def require(self, operation: AclOperation, resource_type: AclResourceType, name: str) -> None:
        """Raise the authorization error of the resource type if the sender may not do this."""
        if self.authorizer is not None and not self.is_allowed(operation, resource_type, name):
            raise denial(operation, resource_type)

    def require_on_cluster(self, operation: AclOperation) -> None:
        if self.authorizer is not None:
            self.require(operation, AclResourceType.CLUSTER, CLUSTER_NAME)

    def denied(
        self,
        operation: AclOperation,
        resource_type: AclResourceType,
        names: Iterable[str],
        log_if_denied: bool = True,
    ) -> frozenset[str]:
        """Return the names of the resources to which the sender may not do this."""
        if self.authorizer is None:
            return NO_NAMES
        return frozenset(
            name
            for name in dict.fromkeys(names)
            if not self.is_allowed(operation, resource_type, name, log_if_denied)
        )

    def authorized_operations(self, resource_type: AclResourceType, name: str) -> int:
        """Return the bit field of the operations that the sender may do to a resource."""
        if self.authorizer is None:
            return ALL_OPERATIONS[resource_type]
        return bit_field(
            [
                operation
                for operation in OPERATIONS[resource_type]
                if self.is_allowed(operation, resource_type, name, False)
            ]
        )


class LocalSession:
    """Origin of requests that this broker sends to itself; in place of a connection."""

    __slots__ = ("authenticated_with_token", "client_id", "listener_name", "peer", "peer_host", "principal")

    def __init__(self, client_id: str, listener_name: str) -> None:
        self.client_id = client_id
        self.listener_name = listener_name
        self.peer = self.peer_host = "this broker"
        self.principal = ANONYMOUS
        self.authenticated_with_token = False


Decode = Callable[[memoryview, int], tuple[Any, int]]
Encode = Callable[[Any], list[Part]]
Handle = Callable[[Any, RequestContext], Any]
MakeErrorResponse = Callable[[Any, ErrorCode, str | None], Any]
Audited = Callable[[int, str, Handle], Handle]
LoadHandler = Callable[[], tuple[Handle, MakeErrorResponse | None]]


class NoResponse:
    """Result of a handler that sends no response; ``close`` is the reason to close the connection, if any."""

    __slots__ = ("close",)

    def __init__(self, close: str | None = None) -> None:
        self.close = close


class EncodedResponse:
    """Encoded response, shared between requests; its parts must not be modified."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts


@dataclass(frozen=True, slots=True)
class Handler:
    """One API: its versions, and a loader of its handler and of its error response.

    A handler is a plain function. Its synchronous part runs in the order requests arrived; it returns a
    response, an ``EncodedResponse``, a ``PendingResponse``, a coroutine of one of these, or ``NoResponse``.
    A pending response may complete with a coroutine, and a coroutine return a pending response.
    """

    api_key: int
    versions: range
    load: LoadHandler


class Route:
    """Everything needed to serve one version of one API."""

    __slots__ = ("decode", "encode", "error_response", "handle", "name", "response")

    def __init__(
        self,
        name: str,
        response: type,
        decode: Decode,
        handle: Handle,
        encode: Encode,
        error_response: MakeErrorResponse | None = None,
    ) -> None:
        self.name = name
        self.response = response
        self.decode = decode
        self.handle = handle
        self.encode = encode
        self.error_response = error_response


class Dispatcher:
    def __init__(
        self,
        handlers: Iterable[Handler],
        context: BrokerContext,
        request_queue: RequestQueue,
        audited: Audited = lambda api_key, name, handle: handle,
    ) -> None:
        """``audited`` returns the handler of an API, or one that logs its requests as well."""
        self._request_queue = request_queue
        self._audited = audited
        self._handlers = {handler.api_key: handler for handler in handlers}
        self._context = context
        self._authorizer = context.authorizer
        self._routes: dict[tuple[int, int], Route] = {}
        self.dispatch_metered: Callable[[Request, Session, Route], None] | None = None
        """Set while there are quotas; see ``metered_dispatch``."""
        self._tasks: set[asyncio.Task[None]] = set()

    def dispatch(self, request: Request, session: Session) -> None:
        """Start a request. Its response goes to the session, now or on completion.

        Raises RemoteProtocolViolation if the connection must be closed.
        """
        route = self._routes.get((request.api_key, request.api_version))
        if route is None:
            route = self._find_route(request)
        if self.dispatch_metered is not None:
            self.dispatch_metered(request, session, route)
            return
        message, _ = route.decode(request.frame, request.body_position)
        context = RequestContext(
            self._context, request.api_version, request.client_id, session, self._authorizer, route.name
        )
        try:
            result = route.handle(message, context)
        except BrokerError as error:
            result = make_error_response(route, message, error)
        self.complete(session, request, route, message, result)

    async def call(self, request: Any, session: LocalSession, *, version_max: int | None = None) -> Any:
        """Handle a request object of this broker itself; return its response object.

        It is a ``RequestBuilder`` if its fields differ by version. The latest version up to ``version_max``
        is used. Raises ``UnsupportedVersion`` if there is none.
        """
        is_builder = isinstance(request, RequestBuilder)
        cls: Any = request.request if is_builder else type(request)
        api = api_of_request(cls)
        handler = self._handlers.get(api.api_key)
        latest = -1 if handler is None else handler.versions.stop - 1
        version = latest if version_max is None else min(latest, version_max)
        if handler is None or version not in handler.versions:
            raise UnsupportedVersion(f"this broker does not support {api.name} version {version}")
        route = self._routes.get((api.api_key, version)) or self._make_route(handler, version)
        message = request.build(version) if is_builder else request
        context = RequestContext(self._context, version, session.client_id, session, None)
        try:
            result = route.handle(message, context)
            while (kind := type(result)) is PendingResponse or isinstance(result, Coroutine):
                result = await (_wait(result) if kind is PendingResponse else result)
        except BrokerError as error:
            return make_error_response(route, message, error)
        except (Unavailable, SessionExpired) as error:
            return make_error_response(route, message, store_error(error, route))
        if type(result) is EncodedResponse:
            return decode_response(result, api.response, version)
        return result

    async def drain(self) -> None:
        """Wait for requests that run as tasks; part of a graceful stop."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def complete(self, session: Session, request: Request, route: Route, message: Any, result: Any) -> None:
        """Send a response, or wait for the result of a pending response or a coroutine."""
        kind = type(result)
        if kind is route.response:
            session.send_response(request, route.encode(result))
        elif kind is PendingResponse:
            result.then(lambda result: self._complete_late(session, request, route, message, result))
        elif isinstance(result, Coroutine):
            self._spawn(self._await_result(session, request, route, message, result), result)
        else:
            _send(session, request, route, result)

    def _complete_late(
        self, session: Session, request: Request, route: Route, message: Any, result: Any
    ) -> None:
        """Called from within another session's request, which an exception here must not disturb."""
        try:
            self.complete(session, request, route, message, result)
        except Exception as error:  # noqa: BLE001 - the edge of a connection
            _close_session(session, route, error)

    async def _await_result(
        self,
        session: Session,
        request: Request,
        route: Route,
        message: Any,
        coroutine: Coroutine[Any, Any, Any],
    ) -> None:
        try:
            try:
                response = await coroutine
            except BrokerError as error:
                response = make_error_response(route, message, error)
            except (Unavailable, SessionExpired) as error:
                response = make_error_response(route, message, store_error(error, route))
            self.complete(session, request, route, message, response)
        except Exception as error:  # noqa: BLE001 - the edge of a connection
            _close_session(session, route, error)

    def _find_route(self, request: Request) -> Route:
        key, version = request.api_key, request.api_version
        handler = self._handlers.get(key)
        if handler is None:
            raise RemoteProtocolViolation(f"unknown API key {key}")
        api = API_BY_KEY[key]
        if version in handler.versions:
            return self._make_route(handler, version)
        if key == API_VERSIONS_KEY:
            return _unsupported_api_versions(handler)
        raise RemoteProtocolViolation(f"{api.name} version {version} is not supported")

    def _make_route(self, handler: Handler, version: int) -> Route:
        api = API_BY_KEY[handler.api_key]
        handle, error_response = handler.load()
        handle = self._audited(handler.api_key, api.name, handle)
        route = Route(
            api.name,
            api.response,
            decoder(api.request, version),
            handle,
            parts_encoder(api.response, version),
            error_response,
        )
        self._routes[handler.api_key, version] = route
        return route

    def _spawn(self, work: Coroutine[Any, Any, None], handling: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        self._request_queue.task_started()
        task.add_done_callback(partial(self._on_task_done, handling))

    def _on_task_done(self, handling: Coroutine[Any, Any, Any], task: asyncio.Task[None]) -> None:
        handling.close()  # a task that was cancelled before its first step has not awaited it
        self._tasks.discard(task)
        self._request_queue.task_finished()


async def _wait(pending: PendingResponse[Any]) -> Any:
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def complete(value: Any) -> None:
        if not done.done():  # the caller may have given up
            done.set_result(value)

    pending.then(complete)
    return await done


def decode_response(encoded: EncodedResponse, response: type, version: int) -> Any:
    body = b"".join(part.read() if isinstance(part, FileSlice) else part for part in encoded.parts)
    return decoder(response, version)(memoryview(body), 0)[0]


def _send(session: Session, request: Request, route: Route, response: Any) -> None:
    kind = type(response)
    if kind is NoResponse:
        session.send_no_response(request)
        if response.close is not None:
            session.close_with_reason(response.close)
    elif kind is EncodedResponse:
        session.send_response(request, response.parts)
    else:
        session.send_response(request, route.encode(response))


def make_error_response(route: Route, message: Any, error: BrokerError) -> Any:
    if route.error_response is None:
        raise AssertionError(f"{route.name} has no error response") from error
    return route.error_response(message, error.code, error.message)


def store_error(error: StoreError, route: Route) -> BrokerError:
    """Return the retriable error for a store that cannot be used now: full disk, or no session."""
    log.error("store_unavailable", api=route.name, reason=str(error))
    return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def _close_session(session: Session, route: Route, error: Exception) -> None:
    log.failure("request_failed", error, api=route.name, peer=session.peer)
    session.close_with_reason(f"{route.name} failed inside the broker")


def _unsupported_api_versions(handler: Handler) -> Route:
    """Return the KIP-511 fallback: a version 0 response with the supported range of ApiVersions."""
    supported = ApiVersion(API_VERSIONS_KEY, handler.versions.start, handler.versions.stop - 1)
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[supported])
    return Route(
        "ApiVersions",
        ApiVersionsResponse,
        lambda frame, position: (None, position),
        lambda message, context: response,
        parts_encoder(ApiVersionsResponse, 0),
    )
