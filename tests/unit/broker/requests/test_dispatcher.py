"""Dispatcher: routes, error responses, late responses, exceptions."""

import asyncio
import inspect
import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.broker.handlers import HANDLERS
from odradek.broker.network.request_queue import RequestQueue
from odradek.broker.network.session import Session
from odradek.broker.requests.dispatcher import Dispatcher, Handler, LocalSession, NoResponse
from odradek.broker.requests.pending_response import PendingResponse
from odradek.model.client_errors import UnsupportedVersion
from odradek.model.errors import BrokerError, ErrorCode, RemoteProtocolViolation
from odradek.net.api_versions import RequestBuilder
from odradek.store.port import Unavailable
from odradek.testing.clock import run_virtually
from odradek.wire.apis import API_BY_KEY
from odradek.wire.headers import RequestHeader
from odradek.wire.message_codecs import decoder, encoder, parts_encoder
from odradek.wire.messages.api_versions import ApiVersionsResponse
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.server_connection import Request

HEARTBEAT = 12
NO_CONTEXT: Any = SimpleNamespace(authorizer=None)
BODY = encoder(HeartbeatRequest, 0)(HeartbeatRequest("g", 1, "m"))


def error_response(request, code, message):
    return HeartbeatResponse(error_code=code)


class StubSession(Session):
    """Stub session that records responses and the close reason."""

    peer = "10.0.0.1:1"

    def __init__(self):
        self.responses, self.no_responses, self.close_reasons = [], [], []

    def send_response(self, request, parts):
        self.responses.append((request.correlation_id, b"".join(bytes(part) for part in parts)))

    def send_no_response(self, request):
        self.no_responses.append(request.correlation_id)

    def close_with_reason(self, reason, kind=""):
        self.close_reasons.append(reason)

    @property
    def codes(self):
        return [struct.unpack(">h", body)[0] for _, body in self.responses]


def make_request(api_key=HEARTBEAT, version=0, body=BODY, number=7):
    return Request(RequestHeader(api_key, version, number, "c"), memoryview(bytearray(body)), 0)


def make_dispatcher(handle, *, with_error_response=True, queue=None):
    handler = Handler(HEARTBEAT, range(1), lambda: (handle, error_response if with_error_response else None))
    return Dispatcher([handler], NO_CONTEXT, queue or RequestQueue(10))


def test_plain_response_is_sent_at_once():
    session = StubSession()
    make_dispatcher(lambda request, context: HeartbeatResponse(error_code=27)).dispatch(
        make_request(), session
    )
    assert session.codes == [27]


def test_handler_gets_request_and_request_context():
    contexts = []

    def handle(request, context):
        contexts.append((request.group_id, context.version, context.client_id, context.session))
        return HeartbeatResponse()

    session = StubSession()
    make_dispatcher(handle).dispatch(make_request(), session)
    assert contexts == [("g", 0, "c", session)]


def test_unknown_api_key_closes_the_connection():
    with pytest.raises(RemoteProtocolViolation, match="9999"):
        make_dispatcher(None).dispatch(make_request(api_key=9999), StubSession())


@pytest.mark.parametrize("version", [1, 5, -1, 32767])
def test_unsupported_version_closes_the_connection(version):
    with pytest.raises(RemoteProtocolViolation, match="Heartbeat"):
        make_dispatcher(None).dispatch(make_request(version=version), StubSession())


def test_undecodable_body_closes_the_connection():
    with pytest.raises(RemoteProtocolViolation):
        make_dispatcher(None).dispatch(make_request(body=BODY[:-1]), StubSession())


@pytest.mark.parametrize("version", [5, 100, 32767, -1])
def test_api_versions_in_an_unsupported_version_gets_a_version_0_response(version):
    """KIP-511: with the supported range of ApiVersions."""
    session: Any = StubSession()
    dispatcher = Dispatcher(HANDLERS, NO_CONTEXT, RequestQueue(10))
    dispatcher.dispatch(make_request(18, version, b"\xff\xff whatever \x80"), session)
    response, _ = decoder(ApiVersionsResponse, 0)(memoryview(session.responses[0][1]), 0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.api_key, key.min_version, key.max_version) for key in response.api_keys] == [(18, 0, 4)]


def test_broker_error_becomes_an_error_response():
    def handle(request, context):
        raise BrokerError(ErrorCode.ILLEGAL_GENERATION, "too old")

    session = StubSession()
    make_dispatcher(handle).dispatch(make_request(), session)
    assert session.codes == [ErrorCode.ILLEGAL_GENERATION]


def test_broker_error_without_an_error_response_is_a_defect():
    def handle(request, context):
        raise BrokerError(ErrorCode.ILLEGAL_GENERATION)

    with pytest.raises(AssertionError, match="Heartbeat"):
        make_dispatcher(handle, with_error_response=False).dispatch(make_request(), StubSession())


def test_pending_response_is_sent_on_completion():
    session = StubSession()
    pending: PendingResponse[Any] = PendingResponse()
    make_dispatcher(lambda request, context: pending).dispatch(make_request(), session)
    assert session.responses == []
    pending.complete(HeartbeatResponse(error_code=3))
    assert session.codes == [3]


def test_completed_pending_response_is_sent_at_once():
    session = StubSession()
    pending: PendingResponse[Any] = PendingResponse()
    pending.complete(HeartbeatResponse(error_code=3))
    make_dispatcher(lambda request, context: pending).dispatch(make_request(), session)
    assert session.codes == [3]


def test_pending_response_that_fails_to_encode_closes_only_its_own_connection():
    session = StubSession()
    pending: PendingResponse[Any] = PendingResponse()
    make_dispatcher(lambda request, context: pending).dispatch(make_request(), session)
    pending.complete("no message at all")
    assert session.responses == []
    assert len(session.close_reasons) == 1


def test_no_response_sends_nothing_and_may_close():
    session = StubSession()
    make_dispatcher(lambda request, context: NoResponse()).dispatch(make_request(number=1), session)
    assert (session.no_responses, session.close_reasons) == ([1], [])
    make_dispatcher(lambda request, context: NoResponse("not the leader")).dispatch(
        make_request(number=2), session
    )
    assert (session.no_responses, session.close_reasons) == ([1, 2], ["not the leader"])
    assert session.responses == []


def test_coroutine_response_is_awaited_by_drain():
    async def main():
        queue = RequestQueue(1)

        async def slow(request, context):
            await asyncio.sleep(5)
            return HeartbeatResponse(error_code=3)

        session, dispatcher = StubSession(), make_dispatcher(slow, queue=queue)
        dispatcher.dispatch(make_request(), session)
        assert session.responses == []
        assert queue.is_full
        await dispatcher.drain()
        assert session.codes == [3]
        assert not queue.is_full
        await dispatcher.drain()

    run_virtually(main)


def test_request_cancelled_before_its_first_step_is_closed():
    handled = []

    async def respond():
        return HeartbeatResponse()

    def handle(request, context):
        handled.append(respond())
        return handled[0]

    async def play():
        make_dispatcher(handle).dispatch(make_request(), StubSession())
        (task,) = asyncio.all_tasks() - {asyncio.current_task()}
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0)
        assert inspect.getcoroutinestate(handled[0]) == inspect.CORO_CLOSED

    run_virtually(play)


def test_broker_error_in_a_coroutine_becomes_an_error_response():
    async def main():
        async def slow(request, context):
            await asyncio.sleep(1)
            raise BrokerError(ErrorCode.NOT_CONTROLLER)

        session, dispatcher = StubSession(), make_dispatcher(slow)
        dispatcher.dispatch(make_request(), session)
        await dispatcher.drain()
        assert session.codes == [ErrorCode.NOT_CONTROLLER]

    run_virtually(main)


def test_exception_in_a_coroutine_closes_the_connection_and_leaves_the_queue():
    async def main():
        queue = RequestQueue(1)

        async def broken(request, context):
            raise ZeroDivisionError

        session, dispatcher = StubSession(), make_dispatcher(broken, queue=queue)
        dispatcher.dispatch(make_request(), session)
        await dispatcher.drain()
        assert session.responses == []
        assert session.close_reasons == ["Heartbeat failed inside the broker"]
        assert not queue.is_full

    run_virtually(main)


SERVED = [(handler, version) for handler in HANDLERS for version in handler.versions]


@pytest.mark.parametrize(
    ("handler", "version"), SERVED, ids=[f"{API_BY_KEY[h.api_key].name}-{v}" for h, v in SERVED]
)
def test_every_handler_has_an_error_response_for_every_version(handler, version):
    api = API_BY_KEY[handler.api_key]
    request = api.request()
    if handler.api_key == 0:
        request.acks = 1
    response = handler.load()[1](request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")
    body = b"".join(cast(list[bytes], parts_encoder(api.response, version)(response)))
    decoded, end = decoder(api.response, version)(memoryview(body), 0)
    assert end == len(body)
    assert type(decoded) is api.response


def test_every_api_has_one_handler_within_its_schema_versions():
    assert len({handler.api_key for handler in HANDLERS}) == len(HANDLERS)
    for handler in HANDLERS:
        api = API_BY_KEY[handler.api_key]
        assert handler.versions.start >= api.versions.start
        assert handler.versions.stop <= api.versions.stop
        assert handler.load()[1] is not None


def test_unavailable_store_fails_only_the_request():
    async def handle(request, context):
        raise Unavailable("/data/odradek-store.sqlite", "cannot be written: database or disk is full")

    async def main():
        session = StubSession()
        dispatcher = make_dispatcher(handle)
        dispatcher.dispatch(make_request(), session)
        await dispatcher.drain()
        assert session.codes == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert session.close_reasons == []

    run_virtually(main)


# Requests of this broker to itself.


def call_local(dispatcher, request, **options):
    session = LocalSession("broker-1", "PLAINTEXT")
    return asyncio.run(dispatcher.call(request, session, **options))


def test_local_call_returns_the_response_object():
    request = HeartbeatRequest("g")

    def handle(message, context):
        assert message is request
        assert (context.version, context.client_id, context.session.listener_name) == (
            0,
            "broker-1",
            "PLAINTEXT",
        )
        return HeartbeatResponse(error_code=27)

    assert call_local(make_dispatcher(handle), request).error_code == 27


def test_local_call_waits_for_pending_responses_and_coroutines():
    def handle(message, context):
        pending: PendingResponse[Any] = PendingResponse()

        async def later():
            return HeartbeatResponse(error_code=27)

        asyncio.get_running_loop().call_soon(lambda: pending.complete(later()))
        return pending

    assert call_local(make_dispatcher(handle), HeartbeatRequest("g")).error_code == 27


def test_local_call_returns_the_error_response():
    def handle(message, context):
        raise BrokerError(ErrorCode.ILLEGAL_GENERATION, "too old")

    async def handle_later(message, context):
        raise Unavailable("/node")

    request = HeartbeatRequest("g")
    assert call_local(make_dispatcher(handle), request).error_code == ErrorCode.ILLEGAL_GENERATION
    response = call_local(make_dispatcher(handle_later), request)
    assert response.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_local_call_uses_the_latest_version_up_to_the_limit():
    versions = []

    def handle(message, context):
        versions.append((context.version, message.group_id))
        return HeartbeatResponse()

    handler = Handler(HEARTBEAT, range(4), lambda: (handle, error_response))
    dispatcher = Dispatcher([handler], NO_CONTEXT, RequestQueue(10))
    builder = RequestBuilder(HeartbeatRequest, lambda version: HeartbeatRequest(f"g{version}"))
    call_local(dispatcher, builder)
    call_local(dispatcher, builder, version_max=2)
    assert versions == [(3, "g3"), (2, "g2")]
    with pytest.raises(UnsupportedVersion):
        call_local(dispatcher, builder, version_max=-1)
    with pytest.raises(UnsupportedVersion, match="ListGroups"):
        call_local(dispatcher, ListGroupsRequest())
