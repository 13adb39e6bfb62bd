"""One client's connection: pumps bytes into requests, starts them in order, sends answers in order.

Bounds kept here: the size of a frame (by the wire layer), how many requests of this connection are under
way, how many bytes of answers wait for a peer that does not read, and how long requests are begun before
other connections have their turn (``Turns``). At a bound the session stops reading, so the peer feels it
through TCP; nothing is dropped. Once the connection is gone, its requests that were not begun are forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from odradek.broker.network.connection_scheduler import TURN_NS, Turns
from odradek.broker.network.memory_pool import RequestMemory
from odradek.broker.network.request_queue import RequestQueue
from odradek.model.errors import RemoteProtocolViolation
from odradek.ports.files import Part
from odradek.ports.network import Connection
from odradek.telemetry import events
from odradek.telemetry.rate_limited_events import RateLimitedEvents
from odradek.wire.server_connection import Request, ServerConnection

# Answers waiting for a slow reader, before its next requests are begun or read.
OUTPUT_BYTES_MAX = 1024 * 1024

log = events.logger("session")


class Session:
    """The broker's side of one connection."""

    __slots__ = (
        "_backlog",
        "_begin_request",
        "_connection",
        "_corked",
        "_ended",
        "_finishing",
        "_has_more",
        "_held_max",
        "_lost",
        "_memory",
        "_output",
        "_paused",
        "_queue",
        "_queued_before",
        "_sent_bytes",
        "_tell_ended",
        "_trace",
        "_turns",
        "_under_way_max",
        "_wire",
        "active",
        "idle_since_ms",
        "is_in_line",
        "listener_name",
        "under_way",
    )

    def __init__(
        self,
        connection: Connection,
        listener_name: str,
        begin: Callable[[Request, Session], None],
        ended: Callable[[Session], None],
        turns: Turns,
        queue: RequestQueue,
        memory: RequestMemory,
        *,
        frame_bytes_max: int,
        under_way_max: int,
        scratch: memoryview | None = None,
        trace: RateLimitedEvents | None = None,
    ) -> None:
        """``trace`` bounds the lines that say why connections were closed."""
        self._connection = connection
        self.listener_name = listener_name
        self._begin_request = begin
        self._tell_ended = ended
        self._turns = turns
        self._queue = queue
        self._memory = memory
        self._wire = ServerConnection(frame_bytes_max, scratch)
        self._trace = trace
        self._under_way_max = under_way_max
        self._held_max = 0
        self._backlog: deque[Request] = deque()
        self._has_more = False
        """True while requests may be left in the received bytes, behind the backlog."""
        self._output: list[Part] = []
        self._corked = False
        self._paused = False
        self._lost = False
        self._ended = False
        self._finishing = False
        self._queued_before = 0
        self._sent_bytes = 0
        self.under_way = 0
        self.is_in_line = False
        self.active = True
        self.idle_since_ms = 0

    @property
    def peer(self) -> str:
        return self._connection.peer

    @property
    def peer_host(self) -> str:
        return self._connection.peer_host

    # What the network tells.

    def receive_buffer(self) -> memoryview:
        return self._wire.receive_buffer()

    def bytes_received(self, count: int) -> None:
        self.active = True
        self._memory.used += count
        try:
            requests = self._wire.received(count)
        except RemoteProtocolViolation as bad:
            self.end(str(bad), "violation")
            return
        if len(requests) == 1 and not self._backlog and self.under_way < self._under_way_max:
            self._corked = True
            self._begin(requests[0])
            self._corked = False
            self._send_output()
        elif requests:
            self._backlog.extend(requests)
            self._has_more = self._wire.has_more
            if self._turns.is_idle:
                self._begin_backlog()
            else:
                self._turns.add(self)
        if self._wire.violation is not None:
            self._end_if_violated()
        self._maybe_pause()

    def output_drained(self) -> None:
        self.read_on()

    def connection_lost(self, reason: str | None) -> None:
        self._lost = True
        self._queue.forget(self)
        self._forget_backlog()
        self._release_bytes(self._wire.partial_bytes)
        self._wire.release()
        self._memory.forget(self)
        if reason is not None:
            log.info("connection_broken", peer=self.peer, reason=reason)
        self._tell_ended(self)

    # What the dispatcher tells.

    def answer(self, request: Request, parts: list[Part]) -> None:
        """Send this answer as soon as all earlier ones are on their way."""
        self.under_way -= 1
        memory = self._memory
        memory.used -= len(request.frame) + 4
        if memory.waiting:
            memory.wake()
        if self._lost:
            return
        self._output += self._wire.respond(request, parts)
        if not self._corked:
            self._after_late_answer()

    def answer_nothing(self, request: Request) -> None:
        """The request asked for no answer (acks=0)."""
        self.under_way -= 1
        self._release_bytes(len(request.frame) + 4)
        if self._lost:
            return
        self._output += self._wire.skip_response(request)
        if not self._corked:
            self._after_late_answer()

    def end(self, reason: str, kind: str = "") -> None:
        """Close, once earlier answers are out; the log names the peer. What it still sends is not begun."""
        if self._ended or self._lost:
            return
        self._ended = True
        if self._trace is None:
            log.warning("connection_closed", peer=self.peer, reason=reason)
        else:
            self._trace.warning("connection_closed", kind, peer=self.peer, reason=reason)
        self._forget_backlog()
        self._send_output()
        self._connection.close(flush=True)

    # What the owner tells.

    def hold(self) -> None:
        """Begin no request until ``release``; for clients that come while the broker is starting."""
        self._held_max, self._under_way_max = self._under_way_max, 0

    def release(self) -> None:
        self._under_way_max = self._held_max
        self.take_turn()

    def stop_reading(self) -> None:
        """For a graceful stop: what is under way is still answered, nothing more is read."""
        self._paused = True
        self._under_way_max = 0
        self._connection.pause()

    def finish(self) -> None:
        """Read nothing more, and close once what is under way is answered."""
        self._finishing = True
        self.stop_reading()
        if not self.under_way:
            self.close()

    def close(self) -> None:
        self._connection.close(flush=True)

    def was_active(self) -> bool:
        """Whether anything came, left or was under way since this was last asked."""
        queued_bytes = self._connection.queued_bytes
        is_at_work = self.under_way > 0 and not self._ended
        was_active = self.active or is_at_work or queued_bytes != self._queued_before
        self.active, self._queued_before = False, queued_bytes
        return was_active

    def cut_off(self) -> None:
        """Close without waiting for the peer to take what is queued."""
        self._connection.close()

    def read_on(self) -> None:
        """A bound that held this session may be no longer reached."""
        if self._backlog or self._has_more:
            self._turns.add(self)
        else:
            self._resume()

    @property
    def held_bytes(self) -> int:
        """Bytes of requests that were received and not answered."""
        return self._wire.held_bytes

    @property
    def has_partial_request(self) -> bool:
        return self._wire.partial_bytes > 0

    def take_turn(self) -> None:
        """Begin requests that waited, for as long as a turn lasts; then read again if no bound is reached."""
        if not self._lost and self._under_way_max:
            self._begin_backlog()
            self._end_if_violated()
            self._resume()

    def _begin(self, request: Request) -> None:
        if self._ended:
            return
        self.under_way += 1
        try:
            self._begin_request(request, self)
        except RemoteProtocolViolation as bad:
            self.end(str(bad), "violation")
        except Exception as broken:  # noqa: BLE001 - the edge of a connection
            log.failure("request_failed", broken, peer=self.peer, api_key=request.api_key)
            self.end(f"API {request.api_key} failed inside the broker")

    def _begin_backlog(self) -> None:
        """Begin requests in order until a bound is reached or the turn is over."""
        if self._connection.queued_bytes > OUTPUT_BYTES_MAX:
            return
        backlog, wire, now_ns = self._backlog, self._wire, self._turns.now_ns
        ends_ns = now_ns() + TURN_NS
        self._corked = True
        while self.under_way < self._under_way_max and (backlog or self._take_more()):
            self._begin(backlog.popleft())
            if wire.response_bytes - self._sent_bytes > OUTPUT_BYTES_MAX and not self._send_some():
                break
            if (backlog or self._has_more) and now_ns() >= ends_ns:
                self._turns.add(self)
                break
        self._corked = False
        self._send_output()

    def _take_more(self) -> bool:
        """Take the next requests out of what was received; whether there are any."""
        if self._has_more:
            self._backlog.extend(self._wire.more())
            self._has_more = self._wire.has_more
        return bool(self._backlog)

    def _send_some(self) -> bool:
        """Send what there is so far; whether the peer takes it."""
        self._send_output()
        return self._connection.queued_bytes <= OUTPUT_BYTES_MAX

    def _forget_backlog(self) -> None:
        self._release_bytes(sum(len(request.frame) + 4 for request in self._backlog))
        self._backlog.clear()
        self._has_more = False

    def _release_bytes(self, count: int) -> None:
        memory = self._memory
        memory.used -= count
        if memory.waiting:
            memory.wake()

    def _end_if_violated(self) -> None:
        """Close behind the last request that came before bytes that are no request."""
        if not self._backlog and not self._has_more and self._wire.violation is not None:
            self.end(str(self._wire.violation), "violation")

    def _after_late_answer(self) -> None:
        self._send_output()
        if self._finishing and not self.under_way:
            self.close()
        elif self._paused or self._backlog:
            # Not at once: the answer may come from inside another session's request, whose own late answers
            # may do the same to others, and so on.
            self._turns.add(self)

    def _resume(self) -> None:
        """Read again if no bound is reached."""
        if not self._paused or self._lost or self._under_way_max == 0:
            return
        if self._may_read():
            self._paused = False
            self._connection.resume()
        else:
            # It may have paused for another reason, and nothing but the bound will wake it from here on.
            self._await_bounds()

    def _maybe_pause(self) -> None:
        if not self._paused and not self._lost and not self._may_read():
            self._paused = True
            self._connection.pause()
            self._await_bounds()

    def _await_bounds(self) -> None:
        if self._queue.is_full:
            self._queue.hold(self)
        elif not self._memory.may_read(self):
            self._memory.wait(self)

    def _may_read(self) -> bool:
        memory = self._memory
        return (
            self.under_way < self._under_way_max
            and not self._backlog
            and not self._has_more
            and self._connection.queued_bytes <= OUTPUT_BYTES_MAX
            and not self._queue.is_full
            and (memory.used < memory.limit or memory.may_read(self))
            and self._wire.violation is None
        )

    def _send_output(self) -> None:
        self._sent_bytes = self._wire.response_bytes
        if self._output:
            output, self._output = self._output, []
            self._connection.send(output)
