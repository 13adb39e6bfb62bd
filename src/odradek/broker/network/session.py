"""Session of one client connection: parses requests, starts them in order, sends responses in order.

Limits: the size of a frame (in the wire layer), the in-flight requests of this connection, the response bytes
queued for a client that does not read, and the time before other connections run (``ConnectionScheduler``).
At a limit the session stops reading, so that TCP applies back-pressure; nothing is dropped. When the
connection is lost, its requests that were not started are dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from odradek.broker.network.connection_scheduler import TIME_SLICE_NS, ConnectionScheduler
from odradek.broker.network.memory_pool import RequestMemoryPool
from odradek.broker.network.request_queue import RequestQueue
from odradek.compiled_modules import mypyc_attr
from odradek.model.errors import RemoteProtocolViolation
from odradek.ports.files import Part
from odradek.ports.network import Connection
from odradek.security.principal import ANONYMOUS
from odradek.telemetry import events
from odradek.telemetry.rate_limited_events import RateLimitedEvents
from odradek.timers.timing_wheel import Timer
from odradek.wire.server_connection import Request, ServerConnection

# Response bytes queued for a slow client before its next requests are started or read.
OUTPUT_BYTES_MAX = 1024 * 1024

log = events.logger("session")


@mypyc_attr(allow_interpreted_subclasses=True)
class Session:
    """Broker side of one connection."""

    __slots__ = (
        "_backlog",
        "_close_events",
        "_closing",
        "_connection",
        "_corked",
        "_draining",
        "_has_more",
        "_hold_count",
        "_in_flight_max",
        "_lost",
        "_memory_pool",
        "_on_closed",
        "_output",
        "_paused",
        "_queued_before",
        "_request_queue",
        "_saved_in_flight_max",
        "_scheduler",
        "_sent_bytes",
        "_wire",
        "active",
        "authenticated_with_token",
        "handle_request",
        "idle_since_ms",
        "in_flight",
        "is_scheduled",
        "listener_name",
        "mute_timer",
        "on_lost",
        "principal",
    )

    def __init__(
        self,
        connection: Connection,
        listener_name: str,
        handle: Callable[[Request, Session], None],
        on_closed: Callable[[Session], None],
        scheduler: ConnectionScheduler,
        request_queue: RequestQueue,
        memory_pool: RequestMemoryPool,
        *,
        frame_bytes_max: int,
        in_flight_max: int,
        scratch: memoryview | None = None,
        close_events: RateLimitedEvents | None = None,
    ) -> None:
        """``close_events`` rate-limits the log lines of closed connections."""
        self._connection = connection
        self.listener_name = listener_name
        self.principal = ANONYMOUS
        """Replaced once the connection is authenticated."""
        self.authenticated_with_token = False
        self.on_lost: Callable[[], object] | None = None
        """Called when the connection is lost."""
        self.handle_request = handle
        self._on_closed = on_closed
        self._scheduler = scheduler
        self._request_queue = request_queue
        self._memory_pool = memory_pool
        self._wire = ServerConnection(frame_bytes_max, scratch)
        self._close_events = close_events
        self._in_flight_max = in_flight_max
        self._saved_in_flight_max = 0
        self._hold_count = 0
        self.mute_timer: Timer | None = None
        """Pending end of a throttle time; see ``SessionMuter``."""
        self._backlog: deque[Request] = deque()
        self._has_more = False
        """True while requests may be left in the received bytes, after the backlog."""
        self._output: list[Part] = []
        self._corked = False
        self._paused = False
        self._lost = False
        self._closing = False
        self._draining = False
        self._queued_before = 0
        self._sent_bytes = 0
        self.in_flight = 0
        self.is_scheduled = False
        self.active = True
        self.idle_since_ms = 0

    @property
    def peer(self) -> str:
        return self._connection.peer

    @property
    def peer_host(self) -> str:
        return self._connection.peer_host

    # Callbacks of the network.

    def receive_buffer(self) -> memoryview:
        return self._wire.receive_buffer()

    def bytes_received(self, count: int) -> None:
        self.active = True
        self._memory_pool.used += count
        try:
            requests = self._wire.received(count)
        except RemoteProtocolViolation as violation:
            self.close_with_reason(str(violation), "violation")
            return
        if len(requests) == 1 and not self._backlog and self.in_flight < self._in_flight_max:
            self._corked = True
            self._start(requests[0])
            self._corked = False
            self._send_output()
        elif requests:
            self._backlog.extend(requests)
            self._has_more = self._wire.has_more
            if self._scheduler.is_idle:
                self._start_backlog()
            else:
                self._scheduler.add(self)
        if self._wire.violation is not None:
            self._close_if_invalid()
        self._maybe_pause()

    def output_drained(self) -> None:
        self.try_resume()

    def connection_lost(self, reason: str | None) -> None:
        self._lost = True
        if self.mute_timer is not None:
            self.mute_timer.cancel()
            self.mute_timer = None
        self._request_queue.remove_paused(self)
        self._drop_backlog()
        self._release_bytes(self._wire.partial_bytes)
        self._wire.release()
        self._memory_pool.remove(self)
        if reason is not None:
            log.info("connection_lost", peer=self.peer, reason=reason)
        if self.on_lost is not None:
            self.on_lost()
        self._on_closed(self)

    # Called by the dispatcher.

    def send_response(self, request: Request, parts: list[Part]) -> None:
        """Send a response once all earlier ones are sent."""
        self.in_flight -= 1
        memory = self._memory_pool
        memory.used -= len(request.frame) + 4
        if memory.waiting:
            memory.wake()
        if self._lost:
            return
        self._output += self._wire.respond(request, parts)
        if not self._corked:
            self._after_late_response()

    def send_no_response(self, request: Request) -> None:
        """Complete a request without a response (acks=0)."""
        self.in_flight -= 1
        self._release_bytes(len(request.frame) + 4)
        if self._lost:
            return
        self._output += self._wire.skip_response(request)
        if not self._corked:
            self._after_late_response()

    def close_with_reason(self, reason: str, kind: str = "") -> None:
        """Log the reason and close once earlier responses are sent. Later requests are not started."""
        if self._closing or self._lost:
            return
        self._closing = True
        if self._close_events is None:
            log.warning("connection_closed", peer=self.peer, reason=reason)
        else:
            self._close_events.warning("connection_closed", kind, peer=self.peer, reason=reason)
        self._drop_backlog()
        self._send_output()
        self._connection.close(flush=True)

    # Called during authentication.

    def expect_tokens(self) -> None:
        """Take the next frames for tokens without request headers."""
        self._wire.expects_tokens = True

    def expect_requests(self, frame_bytes_max: int) -> None:
        """Take the next frames for requests up to this size."""
        self._wire.expects_tokens = False
        self._wire.frame_bytes_max = frame_bytes_max

    # Called by the listener, the socket server and ``SessionMuter``.

    def hold(self) -> None:
        """Start no request until ``release`` is called as often; for new or throttled clients."""
        self._hold_count += 1
        if self._hold_count == 1:
            self._saved_in_flight_max, self._in_flight_max = self._in_flight_max, 0

    def release(self) -> None:
        self._hold_count -= 1
        if self._hold_count == 0:
            self._in_flight_max = self._saved_in_flight_max
            self.run_time_slice()

    def mute(self) -> None:
        """Read and start no more requests until ``release``; in-flight ones still complete."""
        self.hold()
        # It cannot complete a partial request now, so others must not wait for it.
        self._memory_pool.remove(self)
        if not self._paused and not self._lost:
            self._paused = True
            self._connection.pause()

    def stop_reading(self) -> None:
        """Read no more requests; in-flight ones still complete. For a graceful stop."""
        self._paused = True
        self._in_flight_max = self._saved_in_flight_max = 0
        self._connection.pause()

    def drain(self) -> None:
        """Read no more requests, and close once the in-flight ones are complete."""
        self._draining = True
        self.stop_reading()
        if not self.in_flight:
            self.close()

    def close(self) -> None:
        self._connection.close(flush=True)

    def was_active(self) -> bool:
        """Return whether anything was received, sent or in flight since the last call."""
        queued_bytes = self._connection.queued_bytes
        is_busy = self.in_flight > 0 and not self._closing
        was_active = self.active or is_busy or queued_bytes != self._queued_before
        self.active, self._queued_before = False, queued_bytes
        return was_active

    def abort(self) -> None:
        """Close without flushing."""
        self._connection.close()

    def try_resume(self) -> None:
        """Check the limits again, and resume reading if possible."""
        if self._backlog or self._has_more:
            self._scheduler.add(self)
        else:
            self._resume()

    @property
    def held_bytes(self) -> int:
        """Bytes received of requests without a response."""
        return self._wire.held_bytes

    @property
    def has_partial_request(self) -> bool:
        return self._wire.partial_bytes > 0

    def run_time_slice(self) -> None:
        """Start queued requests for one time slice, then resume reading if no limit is reached."""
        if not self._lost and self._in_flight_max:
            self._start_backlog()
            self._close_if_invalid()
            self._resume()

    def _start(self, request: Request) -> None:
        if self._closing:
            return
        self.in_flight += 1
        try:
            self.handle_request(request, self)
        except RemoteProtocolViolation as violation:
            self.close_with_reason(str(violation), "violation")
        except Exception as error:  # noqa: BLE001 - the edge of a connection
            log.failure("request_failed", error, peer=self.peer, api_key=request.api_key)
            self.close_with_reason(f"API {request.api_key} failed inside the broker")

    def _start_backlog(self) -> None:
        """Start requests in order until a limit is reached or the time slice is over."""
        if self._connection.queued_bytes > OUTPUT_BYTES_MAX:
            return
        backlog, wire, now_ns = self._backlog, self._wire, self._scheduler.now_ns
        deadline_ns = now_ns() + TIME_SLICE_NS
        self._corked = True
        while self.in_flight < self._in_flight_max and (backlog or self._parse_more()):
            self._start(backlog.popleft())
            if wire.response_bytes - self._sent_bytes > OUTPUT_BYTES_MAX and not self._flush_responses():
                break
            if (backlog or self._has_more) and now_ns() >= deadline_ns:
                self._scheduler.add(self)
                break
        self._corked = False
        self._send_output()

    def _parse_more(self) -> bool:
        """Parse more of the received bytes; return whether the backlog has requests."""
        if self._has_more:
            self._backlog.extend(self._wire.more())
            self._has_more = self._wire.has_more
        return bool(self._backlog)

    def _flush_responses(self) -> bool:
        """Send the responses so far; return whether the client reads them."""
        self._send_output()
        return self._connection.queued_bytes <= OUTPUT_BYTES_MAX

    def _drop_backlog(self) -> None:
        self._release_bytes(sum(len(request.frame) + 4 for request in self._backlog))
        self._backlog.clear()
        self._has_more = False

    def _release_bytes(self, count: int) -> None:
        memory = self._memory_pool
        memory.used -= count
        if memory.waiting:
            memory.wake()

    def _close_if_invalid(self) -> None:
        """Close once all requests before an invalid frame are started."""
        if not self._backlog and not self._has_more and self._wire.violation is not None:
            self.close_with_reason(str(self._wire.violation), "violation")

    def _after_late_response(self) -> None:
        self._send_output()
        if self._draining and not self.in_flight:
            self.close()
        elif self._paused or self._backlog:
            # Not at once: this may be called from within another session's request, and would recurse from
            # session to session.
            self._scheduler.add(self)

    def _resume(self) -> None:
        """Resume reading if no limit is reached."""
        if not self._paused or self._lost or self._in_flight_max == 0:
            return
        if self._may_read():
            self._paused = False
            self._connection.resume()
        else:
            # It may have paused for another reason; from now on only these limits wake it.
            self._wait_for_limits()

    def _maybe_pause(self) -> None:
        if not self._paused and not self._lost and not self._may_read():
            self._paused = True
            self._connection.pause()
            self._wait_for_limits()

    def _wait_for_limits(self) -> None:
        if self._request_queue.is_full:
            self._request_queue.add_paused(self)
        elif not self._memory_pool.may_read(self):
            self._memory_pool.wait(self)

    def _may_read(self) -> bool:
        memory = self._memory_pool
        return (
            self.in_flight < self._in_flight_max
            and not self._backlog
            and not self._has_more
            and self._connection.queued_bytes <= OUTPUT_BYTES_MAX
            and not self._request_queue.is_full
            and (memory.used < memory.limit or memory.may_read(self))
            and self._wire.violation is None
        )

    def _send_output(self) -> None:
        self._sent_bytes = self._wire.response_bytes
        if self._output:
            output, self._output = self._output, []
            self._connection.send(output)
