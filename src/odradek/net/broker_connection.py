"""One connection to one broker: dialled, introduced, and then pipelined requests with their answers.

Requests leave in the order of ``begin`` and are answered in that order. A future of ``begin`` always ends:
with the decoded answer; with ``TimedOut`` if that did not come in time, which ends the connection, as the
answers behind it would be late as well; or with the reason why the connection ended. Records in an answer are
views into its frame, uncopied.

``Handshake`` is where a secured connection proves who it is: it runs after the dial and before anything else
is sent.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from typing import Any, Final, NamedTuple

from odradek.model.client_errors import (
    AuthenticationFailed,
    ClientError,
    ConnectionFailed,
    TimedOut,
    UnsupportedVersion,
)
from odradek.model.errors import ErrorCode, LocalProtocolViolation, RemoteProtocolViolation
from odradek.net.api_versions import Plan, RequestBuilder, api_of_request, negotiated, plan_in, read_versions
from odradek.net.traffic import Traffic
from odradek.ports.clock import Clock
from odradek.ports.network import Connection, Network
from odradek.records.codec import allocate_fetch_buffer
from odradek.version import VERSION
from odradek.wire.client_connection import ClientConnection, Response
from odradek.wire.messages.api_versions import ApiVersionsRequest

FRAME_BYTES_MAX: Final = 1 << 30
"""The largest answer."""

GREETING_BYTES_MAX: Final = 1 << 20
"""The largest answer before a broker has introduced itself. What is no Kafka, such as the first letters of
HTTP or of TLS, announces more."""

SOFTWARE_NAME: Final = "odradek"
_GREETING_VERSION: Final = 3
_AUTHENTICATION: Final = frozenset(
    {
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
    }
)

Handshake = Callable[["BrokerConnection"], Awaitable[None]]


class _Sent(NamedTuple):
    answer: asyncio.Future[Any]
    plan: Plan
    sent_ms: int
    deadline_ms: int


class BrokerConnection:
    """A connection to a broker; a ``Receiver`` of the network port.

    ``changed`` is called after answers came and after the connection ended: there may be room again, or no
    connection any more.
    """

    __slots__ = (
        "_alarm",
        "_alarm_ms",
        "_changed",
        "_clock",
        "_connection",
        "_ended_by",
        "_leaving",
        "_loop",
        "_plans",
        "_sent",
        "_traffic",
        "_wire",
        "idle_since_ms",
        "is_retired",
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
        self.is_retired = False
        self._clock = clock
        self._changed = changed
        self._traffic = traffic or Traffic()
        self._loop = asyncio.get_running_loop()
        self._wire = ClientConnection(GREETING_BYTES_MAX, client_id, scratch, allocate_fetch_buffer)
        self._connection: Connection | None = None
        self._sent: deque[_Sent] = deque()
        self._leaving: list[asyncio.Future[Any]] = []
        self._plans: dict[tuple[type, int | None], Plan] = {}
        self._ended_by: ClientError | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0

    @property
    def in_flight(self) -> int:
        """Requests that were sent and not answered yet, or that did not leave yet and get no answer."""
        return len(self._sent) + len(self._leaving)

    @property
    def leaving(self) -> list[asyncio.Future[Any]]:
        """Requests without an answer that the network has not taken yet."""
        return self._leaving

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._ended_by is None

    # Beginning.

    async def open(
        self,
        network: Network,
        host: str,
        port: int,
        *,
        dial_timeout_ms: int,
        answer_timeout_ms: int,
        handshake: Handshake | None = None,
    ) -> None:
        """Dial and learn which versions the broker speaks. Raises ConnectionFailed or what follows it."""
        try:
            await network.dial(host, port, self._attach, dial_timeout_ms)
        except TimeoutError as slow:
            what = f"no connection within {dial_timeout_ms} ms"
            raise ConnectionFailed(what, broker=self.name) from slow
        except OSError as failed:
            raise ConnectionFailed(f"no connection: {_cause(failed)}", broker=self.name) from failed
        try:
            if handshake is not None:
                await handshake(self)
            self.versions = await self._greet(answer_timeout_ms)
            if self._ended_by is not None:
                raise copy(self._ended_by)  # behind the answer came something that ended the connection
        except BaseException:
            self.close(ConnectionFailed("the connection was given up", broker=self.name))
            raise
        self._wire.set_response_bytes_max(FRAME_BYTES_MAX)

    def _attach(self, connection: Connection) -> BrokerConnection:
        self._connection = connection
        if self._ended_by is not None:
            connection.close()
        return self

    async def _greet(self, timeout_ms: int) -> Mapping[int, range]:
        """Ask in a new version; a broker that does not know it answers so, in words of version 0."""
        request = ApiVersionsRequest(SOFTWARE_NAME, VERSION)
        answer = await self.begin_in(request, _GREETING_VERSION, timeout_ms)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = await self.begin_in(ApiVersionsRequest(), 0, timeout_ms)
        if answer.error_code:
            raise greeting_refusal(ErrorCode(answer.error_code), "ApiVersions", self.name)
        return {api.api_key: range(api.min_version, api.max_version + 1) for api in answer.api_keys}

    # Asking.

    def version_of(self, api_key: int, version_max: int | None = None) -> int:
        """The highest version that both sides speak; raises UnsupportedVersion."""
        return negotiated(api_key, self.versions, version_max, self.name)

    def begin(
        self,
        request: Any,
        timeout_ms: int,
        *,
        version_max: int | None = None,
        expects_response: bool = True,
    ) -> asyncio.Future[Any]:
        """Send a request now; its decoded answer is the future's result."""
        cls = type(request)
        if cls is RequestBuilder:
            plan = self._plan(request.request, version_max)
            request = request.build(plan.version)
        else:
            plan = self._plans.get((cls, version_max)) or self._plan(cls, version_max)
        return self._send(plan, request, timeout_ms, expects_response)

    def begin_in(self, request: Any, version: int, timeout_ms: int) -> asyncio.Future[Any]:
        """The same in a version that was not negotiated: for handshakes."""
        cls: Any = type(request)
        return self._send(plan_in(api_of_request(cls), version), request, timeout_ms, True)

    def _plan(self, cls: type, version_max: int | None) -> Plan:
        call = api_of_request(cls)
        plan = plan_in(call, self.version_of(call.api_key, version_max))
        self._plans[cls, version_max] = plan
        return plan

    def _send(self, plan: Plan, request: Any, timeout_ms: int, expects_response: bool) -> asyncio.Future[Any]:
        connection = self._connection
        if connection is None or self._ended_by is not None:
            raise copy(self._ended_by) or ConnectionFailed("there is no connection", broker=self.name)
        try:
            body = plan.encode(request)
        except LocalProtocolViolation as cannot:
            raise UnsupportedVersion(str(cannot), broker=self.name) from cannot
        answer: asyncio.Future[Any] = self._loop.create_future()
        now_ms = self.idle_since_ms = self._clock.monotonic_ms()
        _, parts = self._wire.request(
            plan.call.api_key, plan.version, body, expects_response=expects_response
        )
        if expects_response:
            deadline_ms = now_ms + timeout_ms
            self._sent.append(_Sent(answer, plan, now_ms, deadline_ms))
            if self._alarm is None or deadline_ms < self._alarm_ms:
                self._watch(deadline_ms, now_ms)
        traffic = self._traffic
        traffic.request_count += 1
        for part in parts:
            traffic.sent_bytes += len(part)
        connection.send(parts)
        if not expects_response:
            self._say_sent(answer, connection)
        return answer

    def _say_sent(self, answer: asyncio.Future[Any], connection: Connection) -> None:
        """Nobody will answer this one: it is over, and its bytes may change, when all of it has left."""
        if self._ended_by is not None:
            answer.set_exception(copy(self._ended_by))
        elif connection.queued_bytes:
            self._leaving.append(answer)
        else:
            answer.set_result(None)

    # What the network tells.

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
        except RemoteProtocolViolation as bad:
            what = f"what came is not the protocol: {bad}"
            if not self.versions:
                what += "; a listener with TLS, or one that is no broker, answers so"
            self.close(ConnectionFailed(what, broker=self.name))
            return
        self._changed(self)

    def output_drained(self) -> None:
        if self._leaving:
            leaving, self._leaving = self._leaving, []
            for answer in leaving:
                if not answer.done():
                    answer.set_result(None)
            self._changed(self)

    def connection_lost(self, reason: str | None) -> None:
        if self._ended_by is None:
            what = f"the connection was lost: {reason or 'the broker ended it'}"
            self._end(ConnectionFailed(what, broker=self.name))

    def _deliver(self, response: Response, now_ms: int) -> None:
        answer, plan, sent_ms, _ = self._sent[0]
        if plan.call.is_greeting:
            message = read_versions(response)
        else:
            message, _ = plan.decode(response.frame, response.body_position)
        self._sent.popleft()
        traffic, latency_ms = self._traffic, now_ms - sent_ms
        traffic.response_count += 1
        traffic.latency_ms_sum += latency_ms
        traffic.latency_ms_max = max(traffic.latency_ms_max, latency_ms)
        if plan.throttles and message.throttle_time_ms > 0:
            self._mute(now_ms, message.throttle_time_ms)
        if not answer.done():
            answer.set_result(message)

    def _mute(self, now_ms: int, throttle_ms: int) -> None:
        self.throttled_until_ms = max(self.throttled_until_ms, now_ms + throttle_ms)
        self._traffic.throttle_ms_sum += throttle_ms
        self._traffic.throttle_ms_max = max(self._traffic.throttle_ms_max, throttle_ms)

    # Time.

    def _watch(self, deadline_ms: int, now_ms: int) -> None:
        """One timer for all requests, set to the first that may be overdue: most never need it."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ms = deadline_ms
        self._alarm = self._loop.call_later(max(deadline_ms - now_ms, 0) / 1000, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        if not self._sent:
            return
        now_ms = self._clock.monotonic_ms()
        overdue = [one for one in self._sent if one.deadline_ms <= now_ms]
        if not overdue:
            self._watch(min(one.deadline_ms for one in self._sent), now_ms)
            return
        for late in overdue:
            what = f"no answer to {late.plan.call.name} within {now_ms - late.sent_ms} ms"
            _fail(late.answer, TimedOut(what, broker=self.name))
        first = overdue[0].plan.call.name
        self.close(ConnectionFailed(f"the connection was ended: no answer to {first}", broker=self.name))

    # Ending.

    def close(self, reason: ClientError) -> None:
        """End the connection; requests that are not answered fail with this reason."""
        self._end(reason)
        if self._connection is not None:
            self._connection.close()

    def _end(self, reason: ClientError) -> None:
        if self._ended_by is not None:
            return
        self._ended_by = reason
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        leaving, self._leaving = self._leaving, []
        for answer in leaving:
            _fail(answer, copy(reason))
        while self._sent:
            _fail(self._sent.popleft().answer, copy(reason))  # one each: whoever raises it adds a traceback
        self._changed(self)


def _cause(failed: OSError) -> str:
    """The system's words: an event loop's own tell of its call."""
    return os.strerror(failed.errno) if failed.errno else str(failed)


def greeting_refusal(code: ErrorCode, what: str, broker: str) -> ClientError:
    """The exception for an error code in a handshake: some say that the broker does not know us."""
    cls = AuthenticationFailed if code in _AUTHENTICATION else ConnectionFailed
    return cls(f"{what} was refused: {code.name}", code=code, broker=broker)


def _fail(answer: asyncio.Future[Any], reason: ClientError) -> None:
    if not answer.done():
        answer.set_exception(reason)
        answer.exception()  # whoever gave up waiting for it need not hear of it
