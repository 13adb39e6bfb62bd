"""Connection to one broker: connect, ApiVersions, then pipelined requests and their responses.

Requests are sent in the order of ``send`` and answered in that order. The future of ``send`` always
completes: with the decoded response; with ``TimedOut``, which also closes the connection, because later
responses would be late as well; or with the reason why the connection was closed. Records in a response are
views into its frame, not copies.

``Handshake`` authenticates a connection: it runs after ApiVersions and before any other request, and again
before the session that the broker granted expires.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from typing import Any, Final, NamedTuple, Protocol

from odradek.model.client_errors import (
    AuthenticationFailed,
    ClientError,
    ConnectionFailed,
    TimedOut,
    UnsupportedVersion,
    caused_by,
)
from odradek.model.errors import ErrorCode, LocalProtocolViolation, RemoteProtocolViolation
from odradek.net.api_versions import (
    RequestBuilder,
    RequestCodec,
    api_of_request,
    decode_api_versions,
    latest_usable_version,
    request_codec,
)
from odradek.net.prompt_response import PromptResponse
from odradek.net.traffic import Traffic
from odradek.ports.clock import Clock
from odradek.ports.network import Connection, Network
from odradek.records.client.consumer import allocate_fetch_buffer
from odradek.security.tls.tls_error import TlsHandshakeFailed
from odradek.version import VERSION
from odradek.wire.client_connection import ClientConnection, Response
from odradek.wire.messages.api_versions import ApiVersionsRequest

FRAME_BYTES_MAX: Final = 1 << 30
"""Largest response."""

API_VERSIONS_BYTES_MAX: Final = 1 << 20
"""Largest ApiVersions response. The first bytes of HTTP or TLS, read as a size, announce more."""

SOFTWARE_NAME: Final = "odradek"
_API_VERSIONS_VERSION: Final = 3
_AUTHENTICATION_ERRORS: Final = frozenset(
    {
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
    }
)


class Handshake(Protocol):
    def authenticate(self, connection: BrokerConnection, host: str) -> Awaitable[int]:
        """Authenticate; return the lifetime of the session in milliseconds, 0 if unlimited."""
        ...


class _InFlightRequest(NamedTuple):
    future: Any  # an asyncio.Future or a PromptResponse
    codec: RequestCodec
    sent_ms: int
    deadline_ms: int


class BrokerConnection:
    """Connection to a broker; a ``Receiver`` of the network port.

    ``changed`` is called after responses and after the connection closed.
    """

    __slots__ = (
        "_changed",
        "_clock",
        "_close_reason",
        "_codecs",
        "_connection",
        "_handshake",
        "_host",
        "_in_flight",
        "_loop",
        "_prompt_responses",
        "_reauthentication",
        "_reauthentication_part",
        "_timeout_at_ms",
        "_timeout_handle",
        "_traffic",
        "_unsent",
        "_wire",
        "idle_since_ms",
        "is_closed_by_client",
        "is_reauthenticating",
        "name",
        "throttled_until_ms",
        "versions",
    )

    def __init__(
        self,
        name: str,
        clock: Clock,
        client_id: str | None,
        changed: Callable[[BrokerConnection], None],
        scratch: memoryview | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        self.name = name
        self.versions: Mapping[int, range] = {}
        self.idle_since_ms = clock.monotonic_ms()
        self.throttled_until_ms = 0
        self.is_closed_by_client = False
        self.is_reauthenticating = False
        """While this is set, only the handshake sends."""
        self._handshake: Handshake | None = None
        self._host = ""
        self._reauthentication: asyncio.TimerHandle | asyncio.Task[None] | None = None
        self._reauthentication_part = 0.9
        self._clock = clock
        self._changed = changed
        self._traffic = traffic or Traffic()
        self._loop = asyncio.get_running_loop()
        self._wire = ClientConnection(API_VERSIONS_BYTES_MAX, client_id, scratch, allocate_fetch_buffer)
        self._connection: Connection | None = None
        self._in_flight: deque[_InFlightRequest] = deque()
        self._prompt_responses: list[PromptResponse] = []
        self._unsent: list[Any] = []
        self._codecs: dict[tuple[type, int | None], RequestCodec] = {}
        self._close_reason: ClientError | None = None
        self._timeout_handle: asyncio.TimerHandle | None = None
        self._timeout_at_ms = 0

    @property
    def in_flight(self) -> int:
        """Number of requests without a response yet, or without one at all and not sent completely."""
        return len(self._in_flight) + len(self._unsent)

    @property
    def unsent(self) -> list[Any]:
        """Futures of requests that get no response and are not sent completely."""
        return self._unsent

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._close_reason is None

    # Connect.

    async def open(
        self,
        network: Network,
        host: str,
        port: int,
        *,
        setup_timeout_ms: int,
        request_timeout_ms: int,
        handshake: Handshake | None = None,
        reauthentication_part: float = 0.9,
    ) -> None:
        """Connect, negotiate API versions and authenticate.

        Raises AuthenticationFailed if TLS fails, as retries are no use; or ConnectionFailed, or the
        handshake's error.
        A session that expires is renewed after this part of its lifetime.
        """
        self._handshake, self._host = handshake, host
        self._reauthentication_part = reauthentication_part
        try:
            await network.dial(host, port, self._attach, setup_timeout_ms)
        except TimeoutError as error:
            message = f"connection setup timed out after {setup_timeout_ms} ms"
            raise caused_by(ConnectionFailed(message, broker=self.name), error) from error
        except TlsHandshakeFailed as error:
            raise caused_by(AuthenticationFailed(str(error), broker=self.name), error) from error
        except OSError as error:
            message = f"connection failed: {_cause(error)}"
            raise caused_by(ConnectionFailed(message, broker=self.name), error) from error
        try:
            self.versions = await self._negotiate_versions(request_timeout_ms)
            if handshake is not None:
                self._renew_after(await handshake.authenticate(self, host))
            if self._close_reason is not None:
                raise copy(self._close_reason)  # bytes after the response closed the connection
        except BaseException:
            self.close(ConnectionFailed("connection setup was cancelled", broker=self.name))
            raise
        self._wire.set_response_bytes_max(FRAME_BYTES_MAX)

    def _attach(self, connection: Connection) -> BrokerConnection:
        self._connection = connection
        if self._close_reason is not None:
            connection.close()
        return self

    # Re-authentication.

    def _renew_after(self, lifetime_ms: int) -> None:
        if lifetime_ms > 0:
            wait_s = lifetime_ms * self._reauthentication_part / 1000
            self._reauthentication = self._loop.call_later(wait_s, self._reauthenticate)

    def _reauthenticate(self) -> None:
        """Authenticate again; requests wait, and responses to earlier ones still come."""
        if self._close_reason is None:
            self.is_reauthenticating = True
            task = self._loop.create_task(self._authenticate_again(), name=f"authenticate {self.name}")
            self._reauthentication = task
            task.add_done_callback(self._on_reauthenticated)

    async def _authenticate_again(self) -> None:
        assert self._handshake is not None
        lifetime_ms = await self._handshake.authenticate(self, self._host)
        self.is_reauthenticating = False
        self._renew_after(lifetime_ms)

    def _on_reauthenticated(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, ClientError):
            self.close(error)
        elif error is not None:
            self.close(ConnectionFailed(f"re-authentication failed: {error!r}", broker=self.name))
        else:
            self._changed(self)

    async def _negotiate_versions(self, timeout_ms: int) -> Mapping[int, range]:
        """Send ApiVersions; fall back to version 0 if the broker does not support this version."""
        request = ApiVersionsRequest(SOFTWARE_NAME, VERSION)
        response = await self.send_in_version(request, _API_VERSIONS_VERSION, timeout_ms)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            response = await self.send_in_version(ApiVersionsRequest(), 0, timeout_ms)
        if response.error_code:
            raise handshake_error(ErrorCode(response.error_code), "ApiVersions", self.name)
        return {api.api_key: range(api.min_version, api.max_version + 1) for api in response.api_keys}

    # Requests.

    def version_of(self, api_key: int, version_max: int | None = None) -> int:
        """Return the highest version supported by both sides; raises UnsupportedVersion."""
        return latest_usable_version(api_key, self.versions, version_max, self.name)

    def send(
        self,
        request: Any,
        timeout_ms: int,
        *,
        version_max: int | None = None,
        expects_response: bool = True,
        prompt: bool = False,
    ) -> Any:
        """Send a request; the returned future, or PromptResponse, completes with the decoded response."""
        cls = type(request)
        if cls is RequestBuilder:
            codec = self._codec(request.request, version_max)
            request = request.build(codec.version)
        else:
            codec = self._codecs.get((cls, version_max)) or self._codec(cls, version_max)
        future: Any = PromptResponse(self._loop) if prompt else self._loop.create_future()
        self._send(codec, request, timeout_ms, expects_response, future)
        return future

    def send_in_version(self, request: Any, version: int, timeout_ms: int) -> asyncio.Future[Any]:
        """Send a request in a version that was not negotiated; for handshakes."""
        cls: type = type(request)
        future = self._loop.create_future()
        self._send(request_codec(api_of_request(cls), version), request, timeout_ms, True, future)
        return future

    def _codec(self, cls: type, version_max: int | None) -> RequestCodec:
        api = api_of_request(cls)
        codec = request_codec(api, self.version_of(api.api_key, version_max))
        self._codecs[cls, version_max] = codec
        return codec

    def _send(
        self, codec: RequestCodec, request: Any, timeout_ms: int, expects_response: bool, future: Any
    ) -> None:
        connection = self._connection
        if connection is None or self._close_reason is not None:
            raise copy(self._close_reason) or ConnectionFailed("not connected", broker=self.name)
        try:
            body = codec.encode(request)
        except LocalProtocolViolation as error:
            raise caused_by(UnsupportedVersion(str(error), broker=self.name), error) from error
        now_ms = self.idle_since_ms = self._clock.monotonic_ms()
        _, parts = self._wire.request(
            codec.api.api_key, codec.version, body, expects_response=expects_response
        )
        if expects_response:
            deadline_ms = now_ms + timeout_ms
            self._in_flight.append(_InFlightRequest(future, codec, now_ms, deadline_ms))
            if self._timeout_handle is None or deadline_ms < self._timeout_at_ms:
                self._arm_timeout(deadline_ms, now_ms)
        traffic = self._traffic
        traffic.request_count += 1
        for part in parts:
            traffic.sent_bytes += len(part)
        connection.send(parts)
        if not expects_response:
            self._complete_when_sent(future, connection)

    def _complete_when_sent(self, future: Any, connection: Connection) -> None:
        """Complete a request without a response once it is sent; its buffers may be reused then."""
        if self._close_reason is not None:
            future.set_exception(copy(self._close_reason))
        elif connection.queued_bytes:
            self._unsent.append(future)
        else:
            future.set_result(None)

    # Callbacks of the network.

    def receive_buffer(self) -> memoryview:
        return self._wire.receive_buffer()

    def bytes_received(self, count: int) -> None:
        now_ms = self.idle_since_ms = self._clock.monotonic_ms()
        self._traffic.received_bytes += count
        try:
            for response in self._wire.received(count):
                self._deliver(response, now_ms)
            if (violation := self._wire.violation) is not None:
                raise violation
        except RemoteProtocolViolation as error:
            message = f"invalid response: {error}"
            if not self.versions:
                message += " (is this a TLS listener, or not a Kafka broker?)"
            self.close(ConnectionFailed(message, broker=self.name))
        else:
            self._changed(self)
        if self._prompt_responses:
            self._run_callbacks()

    def _run_callbacks(self) -> None:
        """Run the callbacks of prompt responses, which may send or close."""
        responses, self._prompt_responses = self._prompt_responses, []
        for response in responses:
            response.run_callback()

    def output_drained(self) -> None:
        if self._unsent:
            unsent, self._unsent = self._unsent, []
            for future in unsent:
                if not future.done():
                    future.set_result(None)
            self._changed(self)

    def connection_lost(self, reason: str | None) -> None:
        if self._close_reason is not None:
            return
        # With TLS 1.3 the broker refuses a certificate only after the client has completed the handshake.
        if isinstance(getattr(self._connection, "failure", None), TlsHandshakeFailed):
            self._fail_all(AuthenticationFailed(reason or "TLS handshake failed", broker=self.name))
            return
        message = f"connection lost: {reason or 'closed by the broker'}"
        self._fail_all(ConnectionFailed(message, broker=self.name))

    def _deliver(self, response: Response, now_ms: int) -> None:
        future, codec, sent_ms, _ = self._in_flight[0]
        if codec.api.is_api_versions:
            message = decode_api_versions(response)
        else:
            message, _ = codec.decode(response.frame, response.body_position)
        self._in_flight.popleft()
        traffic, latency_ms = self._traffic, now_ms - sent_ms
        traffic.response_count += 1
        traffic.latency_ms_sum += latency_ms
        traffic.latency_ms_max = max(traffic.latency_ms_max, latency_ms)
        if codec.should_client_throttle and message.throttle_time_ms > 0:
            self._throttle(now_ms, message.throttle_time_ms)
        if not future.done():
            future.set_result(message)
            if type(future) is PromptResponse:
                self._prompt_responses.append(future)

    def _throttle(self, now_ms: int, throttle_ms: int) -> None:
        self.throttled_until_ms = max(self.throttled_until_ms, now_ms + throttle_ms)
        self._traffic.throttle_ms_sum += throttle_ms
        self._traffic.throttle_ms_max = max(self._traffic.throttle_ms_max, throttle_ms)

    # Timeouts.

    def _arm_timeout(self, deadline_ms: int, now_ms: int) -> None:
        """Arm the one timer of all requests for the earliest deadline."""
        if self._timeout_handle is not None:
            self._timeout_handle.cancel()
        self._timeout_at_ms = deadline_ms
        self._timeout_handle = self._loop.call_later(max(deadline_ms - now_ms, 0) / 1000, self._on_timeout)

    def _on_timeout(self) -> None:
        self._timeout_handle = None
        if not self._in_flight:
            return
        now_ms = self._clock.monotonic_ms()
        overdue = [request for request in self._in_flight if request.deadline_ms <= now_ms]
        if not overdue:
            self._arm_timeout(min(request.deadline_ms for request in self._in_flight), now_ms)
            return
        for request in overdue:
            message = f"no response to {request.codec.api.name} within {now_ms - request.sent_ms} ms"
            _fail(request.future, TimedOut(message, broker=self.name))
        first = overdue[0].codec.api.name
        self.close(ConnectionFailed(f"connection closed: {first} timed out", broker=self.name))

    # Close.

    def close(self, reason: ClientError) -> None:
        """Close the connection; requests without a response fail with this reason."""
        self._fail_all(reason)
        if self._connection is not None:
            self._connection.close()

    def _fail_all(self, reason: ClientError) -> None:
        if self._close_reason is not None:
            return
        self._close_reason = reason
        if self._timeout_handle is not None:
            self._timeout_handle.cancel()
            self._timeout_handle = None
        if self._reauthentication is not None:
            self._reauthentication.cancel()
        unsent, self._unsent = self._unsent, []
        for future in unsent:
            _fail(future, copy(reason))
        while self._in_flight:
            _fail(self._in_flight.popleft().future, copy(reason))  # a copy each: raising adds a traceback
        self._changed(self)


def _cause(error: OSError) -> str:
    """Return the OS error text: the event loop's own texts name its internal call."""
    return os.strerror(error.errno) if error.errno else str(error)


def handshake_error(code: ErrorCode, request: str, broker: str) -> ClientError:
    """Return the exception for an error code in a handshake: authentication or connection."""
    cls = AuthenticationFailed if code in _AUTHENTICATION_ERRORS else ConnectionFailed
    return cls(f"{request} failed: {code.name}", code=code, broker=broker)


def _fail(future: Any, reason: ClientError) -> None:
    if not future.done():
        future.set_exception(reason)
        future.exception()  # avoid the warning about an exception that was never retrieved
