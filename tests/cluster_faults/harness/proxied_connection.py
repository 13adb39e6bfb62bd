"""One connection through the Kafka proxy: frames of both directions, changed by rules.

A frame is read when the one before has been passed on, so that a sender waits for a slow receiver. Brokers
respond in the order of requests; a request without a response (acks=0) is forgotten at the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.cluster_faults.harness.proxy_rule import Action
from tests.cluster_faults.harness.proxy_rules import ActiveRule, ProxyRules
from tests.cluster_faults.harness.request_header import (
    LENGTH_BYTES,
    RequestHeader,
    frame_size,
    response_correlation_id,
)

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
IN_FLIGHT_MAX = 1_000
SLICES_PER_SECOND = 20
"""Parts into which a limited second is divided."""
LINGER_SECONDS = 1.0
HALF_SENT_SECONDS = 0.01
"""From half a request to the reset: a reset takes away what its receiver has not read."""


@dataclass
class Exchange:
    """A request that awaits its response."""

    header: RequestHeader
    rules: list[ActiveRule] = field(default_factory=list)
    is_swallowed: bool = False
    """True if nobody awaits the response."""

    def rule(self, action: Action) -> ActiveRule | None:
        return next((active for active in self.rules if active.rule.action is action), None)

    @property
    def bytes_per_second(self) -> int:
        limit = self.rule(Action.LIMIT)
        return 0 if limit is None else limit.rule.bytes_per_second


class _Over(Exception):
    """Raised when a rule has ended the connection."""


class ProxiedConnection:
    """``replay`` sends a frame again, after seconds, on a connection of its own."""

    def __init__(
        self,
        broker: int,
        rules: ProxyRules,
        client: Streams,
        server: Streams,
        replay: Callable[[int, bytes, float], None],
    ) -> None:
        self._broker = broker
        self._rules = rules
        self._client_reader, self._client = client
        self._server_reader, self._server = server
        self._replay = replay
        self._pending: deque[Exchange] = deque()
        self._staller: ActiveRule | None = None
        self._client_is_gone = False

    async def run(self) -> None:
        """Pass frames on until an end closes, or a rule closes both."""
        ways = [
            asyncio.ensure_future(self._pass_requests()),
            asyncio.ensure_future(self._pass_responses()),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if ways[0].done() and ways[0].exception() is None:
                await self._finish(ways[1])
        finally:
            for way in ways:
                way.cancel()
            results = await asyncio.gather(*ways, return_exceptions=True)
        if self._staller is not None:
            await self._staller.removed.wait()
        for end in (self._client, self._server):
            end.transport.abort()
        for result in results:
            if isinstance(result, AssertionError):
                raise result

    async def _finish(self, responses: asyncio.Future[None]) -> None:
        """Let the broker do what a client that has closed its connection has sent before."""
        with contextlib.suppress(OSError):
            self._server.write_eof()
            await asyncio.wait([responses], timeout=LINGER_SECONDS)

    # Requests.

    async def _pass_requests(self) -> None:
        while (frame := await read_frame(self._client_reader)) is not None:
            header = RequestHeader.parse(frame)
            exchange = Exchange(header, self._rules.take(self._broker, header))
            await self._pass_request(frame, exchange)

    async def _pass_request(self, frame: bytes, exchange: Exchange) -> None:
        if delay := exchange.rule(Action.DELAY_REQUEST):
            await asyncio.sleep(delay.rule.seconds)
        if stall := exchange.rule(Action.STALL):
            self._stall(stall)
        if exchange.rule(Action.RESET):
            await self._reset(frame)
        if replay := exchange.rule(Action.REPLAY):
            self._replay(self._broker, frame, replay.rule.seconds)
        while len(self._pending) >= IN_FLIGHT_MAX:
            await asyncio.sleep(HALF_SENT_SECONDS)
        self._pending.append(exchange)
        await write(self._server, frame, exchange.bytes_per_second)
        if exchange.rule(Action.DOUBLE):
            self._pending.append(Exchange(exchange.header, is_swallowed=True))
            await write(self._server, frame, 0)

    def _stall(self, rule: ActiveRule) -> None:
        self._staller = rule
        raise _Over

    async def _reset(self, frame: bytes) -> None:
        await write(self._server, frame[: len(frame) // 2], 0)
        await asyncio.sleep(HALF_SENT_SECONDS)
        for end in (self._client, self._server):
            end.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        raise _Over

    # Responses.

    async def _pass_responses(self) -> None:
        while (frame := await read_frame(self._server_reader)) is not None:
            exchange = self._take_exchange(response_correlation_id(frame))
            if exchange.is_swallowed:
                continue
            if delay := exchange.rule(Action.DELAY_RESPONSE):
                await asyncio.sleep(delay.rule.seconds)
            if exchange.rule(Action.DROP_RESPONSE):
                raise _Over
            if lost := exchange.rule(Action.LOSE_RESPONSE):
                self._stall(lost)
            await self._respond(frame, exchange.bytes_per_second)

    def _take_exchange(self, correlation_id: int) -> Exchange:
        while self._pending:
            exchange = self._pending.popleft()
            if exchange.header.correlation_id == correlation_id:
                return exchange
        raise AssertionError(f"response {correlation_id} of broker {self._broker} belongs to no request")

    async def _respond(self, frame: bytes, bytes_per_second: int) -> None:
        """Pass a response on; a client that has gone may have left requests that are still on their way."""
        if not self._client_is_gone:
            try:
                await write(self._client, frame, bytes_per_second)
            except OSError:
                self._client_is_gone = True


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """Return the next frame with its length; None at the end, also amid a frame."""
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        prefix = await reader.readexactly(LENGTH_BYTES)
        return prefix + await reader.readexactly(frame_size(prefix))
    return None


async def write(writer: asyncio.StreamWriter, data: bytes, bytes_per_second: int) -> None:
    """Write everything, at a limited speed unless it is 0."""
    size = max(1, bytes_per_second // SLICES_PER_SECOND) if bytes_per_second else len(data)
    for begin in range(0, len(data), size):
        writer.write(data[begin : begin + size])
        await writer.drain()
        if bytes_per_second:
            await asyncio.sleep(1 / SLICES_PER_SECOND)
