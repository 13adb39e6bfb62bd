"""Dispatch of requests while quotas are set: each is measured, and has a throttle time in its response."""

from __future__ import annotations

import copy
from collections.abc import Coroutine
from typing import Any

from odradek.broker.network.session import Session
from odradek.broker.requests.context import BrokerContext
from odradek.broker.requests.dispatcher import (
    Dispatcher,
    EncodedResponse,
    NoResponse,
    RequestContext,
    Route,
    decode_response,
    make_error_response,
    store_error,
)
from odradek.broker.requests.pending_response import PendingResponse
from odradek.broker.requests.request_meter import MeteredSteps, RequestMeter, RequestMeters
from odradek.model.errors import BrokerError
from odradek.store.port import SessionExpired, Unavailable
from odradek.wire.server_connection import Request


def enforce_quotas(dispatcher: Dispatcher, context: BrokerContext, meters: RequestMeters) -> None:
    """Measure and throttle requests while any quota is set."""
    metered = MeteredDispatch(dispatcher, context, meters)

    def on_enabled_changed(is_enabled: bool) -> None:
        dispatcher.dispatch_metered = metered.dispatch if is_enabled else None

    meters.quotas.on_enabled_changed = on_enabled_changed
    on_enabled_changed(meters.quotas.is_enabled)


class MeteredDispatch:
    """Second half of a dispatcher: from the route of a request on."""

    def __init__(self, dispatcher: Dispatcher, context: BrokerContext, meters: RequestMeters) -> None:
        self._dispatcher = dispatcher
        self._context = context
        self._meters = meters

    def dispatch(self, request: Request, session: Session, route: Route) -> None:
        """Start a request; see ``Dispatcher.dispatch``."""
        meter = self._meters.start(request, session)
        message, _ = route.decode(request.frame, request.body_position)
        context = RequestContext(
            self._context,
            request.api_version,
            request.client_id,
            session,
            self._context.authorizer,
            route.name,
        )
        context.meter = meter
        try:
            result = route.handle(message, context)
        except BrokerError as error:
            result = make_error_response(route, message, error)
        result = self._throttle(meter, request, route, message, result)
        self._dispatcher.complete(session, request, route, message, result)
        meter.end()

    def _throttle(
        self, meter: RequestMeter, request: Request, route: Route, message: Any, result: Any
    ) -> Any:
        """Return a result whose response is recorded, and has the throttle time, once it is there."""
        kind = type(result)
        if kind is PendingResponse:
            meter.pause()
            throttled: PendingResponse[Any] = PendingResponse()

            def complete(value: Any) -> None:
                meter.resume()
                throttled.complete(self._throttle(meter, request, route, message, value))

            result.then(complete)
            return throttled
        if isinstance(result, Coroutine):
            meter.pause()
            return self._throttle_coroutine(meter, request, route, message, result)
        throttle_ms = meter.finish(has_response=kind is not NoResponse)
        if throttle_ms == 0 or kind is NoResponse:
            return result
        if kind is EncodedResponse:
            result = decode_response(result, route.response, request.api_version)
        return _with_throttle_time(result, throttle_ms)

    async def _throttle_coroutine(
        self,
        meter: RequestMeter,
        request: Request,
        route: Route,
        message: Any,
        coroutine: Coroutine[Any, Any, Any],
    ) -> Any:
        try:
            result = await MeteredSteps(coroutine, meter)
        except BrokerError as error:
            result = make_error_response(route, message, error)
        except (Unavailable, SessionExpired) as error:
            result = make_error_response(route, message, store_error(error, route))
        return self._throttle(meter, request, route, message, result)


def _with_throttle_time(response: Any, throttle_ms: int) -> Any:
    """Return a copy of a response with a throttle time; the response may be shared with other requests."""
    if "throttle_time_ms" not in type(response).FIELDS:
        return response
    response = copy.copy(response)
    response.throttle_time_ms = throttle_ms
    return response
