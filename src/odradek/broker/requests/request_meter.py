"""Measures requests and throttles their clients; only while quotas are set.

A request counts against the bandwidth quota of its API (Produce: the size of the request; Fetch: the records
of the response), the request quota (time on the event loop) and the quota of controller mutations. The
largest throttle time is part of the response, and mutes the connection for as long. Cluster actions of other
brokers are exempt.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Final

from odradek.broker.quotas.client_quota_manager import NANOS_TO_PERCENTAGE_PER_SECOND
from odradek.broker.quotas.controller_mutation_quota import UNBOUNDED, ControllerMutationQuota
from odradek.broker.quotas.quota_managers import QuotaManagers

if TYPE_CHECKING:
    from odradek.broker.network.session import Session
    from odradek.wire.server_connection import Request

PRODUCE: Final = 0
EXEMPT: Final = frozenset({4, 5, 6, 7, 27, 56, 67})
"""LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown, WriteTxnMarkers, AlterPartition and
AllocateProducerIds: a throttled broker would harm the cluster."""
BYTES_MAX: Final = 2**31 - 1

Mute = Callable[["Session", int], None]


class RequestMeters:
    """Makes the meters of requests."""

    def __init__(self, quotas: QuotaManagers, mute: Mute, now_ns: Callable[[], int]) -> None:
        self.quotas = quotas
        self.mute = mute
        self.now_ns = now_ns

    def start(self, request: Request, session: Session) -> RequestMeter:
        """Return the meter of a request whose processing begins now."""
        return RequestMeter(self, request, session)


class RequestMeter:
    """Time and bytes of one request."""

    __slots__ = (
        "_api_key",
        "_client_id",
        "_elapsed_ns",
        "_is_exempt",
        "_is_recorded",
        "_meters",
        "_mutation_quota",
        "_request_bytes",
        "_session",
        "_started_ns",
        "_throttle_ms",
        "_user",
    )

    def __init__(self, meters: RequestMeters, request: Request, session: Session) -> None:
        self._meters = meters
        self._session = session
        self._user = session.principal.name
        self._client_id = request.client_id or ""
        self._api_key = request.api_key
        self._request_bytes = len(request.frame) - request.body_position
        self._is_exempt = request.api_key in EXEMPT
        self._mutation_quota: ControllerMutationQuota = UNBOUNDED
        self._is_recorded = False
        self._throttle_ms = 0
        self._elapsed_ns = 0
        self._started_ns = meters.now_ns()

    # Time.

    def resume(self) -> None:
        """Count the time from now on."""
        self._started_ns = self._meters.now_ns()

    def pause(self) -> None:
        """Count no time until ``resume``: the request waits."""
        self._elapsed_ns += self._meters.now_ns() - self._started_ns

    def end(self) -> None:
        """Count the time since the response was ready: it took until now to encode and send it."""
        self._record_time_after_response(self._meters.now_ns() - self._started_ns)

    # Called by handlers.

    def exempt(self) -> None:
        """Do not throttle this request: it is one of another broker."""
        self._is_exempt = True

    def fetch_bytes_max(self) -> int:
        """Return the largest response that is not throttled in any case; a larger one would never be sent."""
        limit = self._meters.quotas.fetch.max_value_in_window(self._user, self._client_id)
        return BYTES_MAX if limit is None else max(min(int(limit), BYTES_MAX), 0)

    def throttle_fetch(self, response_bytes: int) -> bool:
        """Record a Fetch response; return whether it must be empty, because the client is throttled."""
        quotas, user, client_id = self._meters.quotas, self._user, self._client_id
        now_ms = quotas.now_ms()
        request_ms = self._record_request_time(now_ms)
        fetch_ms = quotas.fetch.record_and_get_throttle_time_ms(user, client_id, response_bytes, now_ms)
        self._throttle_ms = max(request_ms, fetch_ms)
        self._is_recorded = True
        if self._throttle_ms:
            quotas.fetch.record_no_throttle(user, client_id, -response_bytes, now_ms)
        return self._throttle_ms > 0

    def mutation_quota(self, *, is_strict: bool) -> ControllerMutationQuota:
        """Return the quota of the topics and partitions that this request creates or deletes."""
        self._mutation_quota = self._meters.quotas.controller_mutation.quota_for(
            self._user, self._client_id, is_strict=is_strict
        )
        return self._mutation_quota

    def auto_creation_quota(self) -> ControllerMutationQuota:
        """Return the quota of topics that are created on first use. It does not throttle this request."""
        return self._meters.quotas.controller_mutation.quota_for(self._user, self._client_id, is_strict=False)

    # Called by the dispatcher.

    def finish(self, *, has_response: bool) -> int:
        """Record the request, mute its session if necessary, and return the throttle time.

        A Produce request without a response (acks=0) is not throttled by its time.
        """
        if self._is_exempt:
            return 0
        if not self._is_recorded:
            self._throttle_ms = self._record(has_response)
            self._is_recorded = True
        if self._throttle_ms > 0:
            self._meters.mute(self._session, self._throttle_ms)
        return self._throttle_ms

    def _record(self, has_response: bool) -> int:
        quotas = self._meters.quotas
        now_ms = quotas.now_ms()
        throttle_ms = self._mutation_quota.throttle_time_ms()
        if self._api_key == PRODUCE:
            throttle_ms = quotas.produce.record_and_get_throttle_time_ms(
                self._user, self._client_id, self._request_bytes, now_ms
            )
            if not has_response:
                return throttle_ms
        return max(throttle_ms, self._record_request_time(now_ms))

    def _record_request_time(self, now_ms: int) -> int:
        request = self._meters.quotas.request
        if not request.is_enabled:
            return 0
        now_ns = self._meters.now_ns()
        elapsed_ns = self._elapsed_ns + now_ns - self._started_ns
        self._started_ns, self._elapsed_ns = now_ns, 0
        return request.record_and_get_throttle_time_ms(
            self._user, self._client_id, elapsed_ns * NANOS_TO_PERCENTAGE_PER_SECOND, now_ms
        )

    def _record_time_after_response(self, nanos: int) -> None:
        quotas = self._meters.quotas
        if self._is_recorded and not self._is_exempt and quotas.request.is_enabled:
            percentage = nanos * NANOS_TO_PERCENTAGE_PER_SECOND
            quotas.request.record_no_throttle(self._user, self._client_id, percentage, quotas.now_ms())


class MeteredSteps:
    """Awaits a coroutine; the meter counts the time of its steps, and not the time between them."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], meter: RequestMeter) -> None:
        self._coroutine = coroutine
        self._meter = meter

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine, meter = self._coroutine, self._meter
        error: BaseException | None = None
        while True:
            meter.resume()
            try:
                waited_for = coroutine.send(None) if error is None else coroutine.throw(error)
            except StopIteration as stop:
                return stop.value
            meter.pause()
            error = None
            try:
                yield waited_for
            except BaseException as raised:  # noqa: BLE001 - passed on to the coroutine
                error = raised


def mutation_quota(meter: RequestMeter | None, *, is_strict: bool) -> ControllerMutationQuota:
    """Return the quota of the partitions that a request creates or deletes, also if it is not measured."""
    return UNBOUNDED if meter is None else meter.mutation_quota(is_strict=is_strict)
