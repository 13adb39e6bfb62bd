"""From requests to handlers and back: routes, refusals, late answers, defects."""

import asyncio
import struct

import pytest

from odradek.broker.handlers import HANDLERS
from odradek.broker.network.request_queue import RequestQueue
from odradek.broker.requests.dispatcher import Dispatcher, Handler, NoAnswer
from odradek.broker.requests.pending_response import Pending
from odradek.model.errors import BrokerError, ErrorCode, RemoteProtocolViolation
from odradek.store.port import Unavailable
from odradek.testing.clock import run_virtually
from odradek.wire.apis import API_BY_KEY
from odradek.wire.message_codecs import decoder, encoder, parts_encoder
from odradek.wire.messages.api_versions import ApiVersionsResponse
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.wire.server_connection import Request

HEARTBEAT = 12
BODY = encoder(HeartbeatRequest, 0)(HeartbeatRequest("g", 1, "m"))


def refuse(request, code, message):
    return HeartbeatResponse(error_code=code)


class Witness:
    """Stands for a session: keeps the answers, and why it was ended."""

    peer = "10.0.0.1:1"

    def __init__(self):
        self.answers, self.nothing, self.ends = [], [], []

    def answer(self, request, parts):
        self.answers.append((request.correlation_id, b"".join(bytes(part) for part in parts)))

    def answer_nothing(self, request):
        self.nothing.append(request.correlation_id)

    def end(self, reason):
        self.ends.append(reason)

    @property
    def codes(self):
        return [struct.unpack(">h", body)[0] for _, body in self.answers]


def make_request(api_key=HEARTBEAT, version=0, body=BODY, number=7):
    return Request((api_key, version, number, "c"), memoryview(bytearray(body)), 0)


def dispatch(handle, *, with_refuse=True, queue=None):
    handler = Handler(HEARTBEAT, range(1), lambda: (handle, refuse if with_refuse else None))
    return Dispatcher([handler], None, queue or RequestQueue(10))


def test_a_plain_answer_is_given_at_once():
    witness = Witness()
    dispatch(lambda request, call: HeartbeatResponse(error_code=27)).begin(make_request(), witness)
    assert witness.codes == [27]


def test_a_handler_is_told_of_the_request_and_its_surroundings():
    seen = []

    def handle(request, call):
        seen.append((request.group_id, call.version, call.client_id, call.session))
        return HeartbeatResponse()

    witness = Witness()
    dispatch(handle).begin(make_request(), witness)
    assert seen == [("g", 0, "c", witness)]


def test_an_unknown_api_can_only_be_answered_by_closing():
    with pytest.raises(RemoteProtocolViolation, match="9999"):
        dispatch(None).begin(make_request(api_key=9999), Witness())


@pytest.mark.parametrize("version", [1, 5, -1, 32767])
def test_a_version_that_is_not_served_can_only_be_answered_by_closing(version):
    with pytest.raises(RemoteProtocolViolation, match="Heartbeat"):
        dispatch(None).begin(make_request(version=version), Witness())


def test_a_body_that_is_not_the_message_can_only_be_answered_by_closing():
    with pytest.raises(RemoteProtocolViolation):
        dispatch(None).begin(make_request(body=BODY[:-1]), Witness())


@pytest.mark.parametrize("version", [5, 100, 32767, -1])
def test_api_versions_in_a_version_nobody_knows_is_answered_in_version_0(version):
    """KIP-511: with the one range the client needs to go on."""
    witness = Witness()
    dispatcher = Dispatcher(HANDLERS, None, RequestQueue(10))
    dispatcher.begin(make_request(18, version, b"\xff\xff whatever \x80"), witness)
    answer, _ = decoder(ApiVersionsResponse, 0)(memoryview(witness.answers[0][1]), 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(one.api_key, one.min_version, one.max_version) for one in answer.api_keys] == [(18, 0, 4)]


def test_a_refusal_is_turned_into_an_answer():
    def handle(request, call):
        raise BrokerError(ErrorCode.ILLEGAL_GENERATION, "too old")

    witness = Witness()
    dispatch(handle).begin(make_request(), witness)
    assert witness.codes == [ErrorCode.ILLEGAL_GENERATION]


def test_a_refusal_without_a_form_is_a_defect():
    def handle(request, call):
        raise BrokerError(ErrorCode.ILLEGAL_GENERATION)

    with pytest.raises(AssertionError, match="Heartbeat"):
        dispatch(handle, with_refuse=False).begin(make_request(), Witness())


def test_a_pending_answer_is_given_when_it_comes():
    witness, pending = Witness(), Pending()
    dispatch(lambda request, call: pending).begin(make_request(), witness)
    assert witness.answers == []
    pending.complete(HeartbeatResponse(error_code=3))
    assert witness.codes == [3]


def test_a_pending_answer_that_is_there_already_is_given_at_once():
    witness, pending = Witness(), Pending()
    pending.complete(HeartbeatResponse(error_code=3))
    dispatch(lambda request, call: pending).begin(make_request(), witness)
    assert witness.codes == [3]


def test_a_pending_answer_that_cannot_be_encoded_ends_its_connection_and_disturbs_nobody_else():
    witness, pending = Witness(), Pending()
    dispatch(lambda request, call: pending).begin(make_request(), witness)
    pending.complete("no message at all")
    assert witness.answers == []
    assert len(witness.ends) == 1


def test_no_answer_answers_nothing_and_may_close():
    witness = Witness()
    dispatch(lambda request, call: NoAnswer()).begin(make_request(number=1), witness)
    assert (witness.nothing, witness.ends) == ([1], [])
    dispatch(lambda request, call: NoAnswer("not the leader")).begin(make_request(number=2), witness)
    assert (witness.nothing, witness.ends) == ([1, 2], ["not the leader"])
    assert witness.answers == []


def test_a_coroutine_is_finished_later_and_settled_for():
    async def main():
        queue = RequestQueue(1)

        async def slow(request, call):
            await asyncio.sleep(5)
            return HeartbeatResponse(error_code=3)

        witness, dispatcher = Witness(), dispatch(slow, queue=queue)
        dispatcher.begin(make_request(), witness)
        assert witness.answers == []
        assert queue.is_full
        await dispatcher.settle()
        assert witness.codes == [3]
        assert not queue.is_full
        await dispatcher.settle()

    run_virtually(main)


def test_a_coroutine_may_refuse():
    async def main():
        async def slow(request, call):
            await asyncio.sleep(1)
            raise BrokerError(ErrorCode.NOT_CONTROLLER)

        witness, dispatcher = Witness(), dispatch(slow)
        dispatcher.begin(make_request(), witness)
        await dispatcher.settle()
        assert witness.codes == [ErrorCode.NOT_CONTROLLER]

    run_virtually(main)


def test_a_defect_in_a_coroutine_ends_its_connection_and_leaves_the_queue():
    async def main():
        queue = RequestQueue(1)

        async def broken(request, call):
            raise ZeroDivisionError

        witness, dispatcher = Witness(), dispatch(broken, queue=queue)
        dispatcher.begin(make_request(), witness)
        await dispatcher.settle()
        assert witness.answers == []
        assert witness.ends == ["Heartbeat failed inside the broker"]
        assert not queue.is_full

    run_virtually(main)


SERVED = [(handler, version) for handler in HANDLERS for version in handler.versions]


@pytest.mark.parametrize(
    ("handler", "version"), SERVED, ids=[f"{API_BY_KEY[h.api_key].name}-{v}" for h, v in SERVED]
)
def test_every_handler_can_refuse_a_whole_request_in_every_version(handler, version):
    api = API_BY_KEY[handler.api_key]
    request = api.request()
    if handler.api_key == 0:
        request.acks = 1
    response = handler.load()[1](request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")
    body = b"".join(bytes(part) for part in parts_encoder(api.response, version)(response))
    again, end = decoder(api.response, version)(memoryview(body), 0)
    assert end == len(body)
    assert type(again) is api.response


def test_every_api_is_served_once_and_within_what_its_message_knows():
    assert len({handler.api_key for handler in HANDLERS}) == len(HANDLERS)
    for handler in HANDLERS:
        api = API_BY_KEY[handler.api_key]
        assert handler.versions.start >= api.versions.start
        assert handler.versions.stop <= api.versions.stop
        assert handler.load()[1] is not None


def test_a_store_that_cannot_be_written_refuses_the_request_and_no_more():
    async def handle(request, call):
        raise Unavailable("/data/odradek-store.sqlite", "cannot be written: database or disk is full")

    async def main():
        witness = Witness()
        dispatcher = dispatch(handle)
        dispatcher.begin(make_request(), witness)
        await dispatcher.settle()
        assert witness.codes == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert witness.ends == []

    run_virtually(main)
