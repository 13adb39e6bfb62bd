"""Quotas in the request path: what is recorded, the throttle time that is sent, and the muted session."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.broker.requests.test_dispatcher import StubSession

from odradek.broker.network.request_queue import RequestQueue
from odradek.broker.quotas.quota_entities import QuotaEntity
from odradek.broker.quotas.quota_managers import QuotaManagers
from odradek.broker.requests.dispatcher import Dispatcher, EncodedResponse, Handler, NoResponse
from odradek.broker.requests.metered_dispatch import enforce_quotas
from odradek.broker.requests.pending_response import PendingResponse
from odradek.broker.requests.request_meter import RequestMeter, RequestMeters, mutation_quota
from odradek.config.broker import BY_NAME
from odradek.config.definition import parse_settings
from odradek.model.errors import BrokerError, ErrorCode
from odradek.security.principal import user
from odradek.testing.clock import run_virtually
from odradek.wire.headers import RequestHeader
from odradek.wire.message_codecs import encoder, parts_encoder
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.wire.messages.produce import ProduceRequest, ProduceResponse
from odradek.wire.server_connection import Request

HEARTBEAT, PRODUCE = 12, 0
MS = 1_000_000
ALICE = QuotaEntity("alice", None)
NO_CONTEXT: Any = SimpleNamespace(authorizer=None)


class SlowSession(StubSession):
    """Session that takes time to send a response."""

    def __init__(self) -> None:
        super().__init__()
        self.on_send: Callable[[], None] = lambda: None

    def send_response(self, request: Request, parts: Any) -> None:
        self.on_send()
        super().send_response(request, parts)


class Setup:
    """Dispatcher with quotas, whose time the handlers advance."""

    def __init__(self, handle: Any, quotas: dict[str, float] | None, api_key: int = HEARTBEAT) -> None:
        self.now_ns = 10_000 * MS
        self.muted: list[int] = []
        self.quotas = QuotaManagers(parse_settings(BY_NAME, {}), lambda: self.now_ns // MS)
        self.session = SlowSession()
        self.session.principal = user("alice")
        self.handle = handle
        self.api_key = api_key
        self.meters: list[RequestMeter | None] = []
        handler = Handler(api_key, range(12), lambda: (self._handle, _error_response))
        self.dispatcher = Dispatcher([handler], NO_CONTEXT, RequestQueue(10))
        meters = RequestMeters(self.quotas, lambda session, ms: self.muted.append(ms), lambda: self.now_ns)
        enforce_quotas(self.dispatcher, NO_CONTEXT, meters)
        if quotas is not None:
            self.quotas.update(ALICE, quotas)

    def _handle(self, request: Any, context: Any) -> Any:
        self.meters.append(context.meter)
        return self.handle(self, context)

    def spend(self, millis: int) -> None:
        self.now_ns += millis * MS

    def dispatch(self, version: int = 1, body: bytes | None = None) -> None:
        content = encoder(HeartbeatRequest, version)(HeartbeatRequest("g", 1, "m")) if body is None else body
        header = RequestHeader(self.api_key, version, 7, "app")
        self.dispatcher.dispatch(Request(header, memoryview(bytearray(content)), 0), self.session)

    @property
    def throttle_times(self) -> list[int]:
        return [struct.unpack_from(">i", body)[0] for _, body in self.session.responses]


def _error_response(request: Any, code: ErrorCode, message: str | None) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


def respond_after(millis: int) -> Any:
    def handle(setup: Setup, context: Any) -> HeartbeatResponse:
        setup.spend(millis)
        return HeartbeatResponse()

    return handle


def test_nothing_is_measured_without_quotas() -> None:
    setup = Setup(respond_after(1000), None)
    setup.dispatch()
    setup.quotas.update(ALICE, {"request_percentage": 1})
    setup.dispatch()
    setup.quotas.update(ALICE, {})
    setup.dispatch()
    assert [meter is not None for meter in setup.meters] == [False, True, False]
    assert setup.throttle_times == [0, 1000, 0]


def test_request_time_throttles_the_client_and_is_in_the_response() -> None:
    setup = Setup(respond_after(50), {"request_percentage": 0.4})
    setup.dispatch()
    # 5 % in 10 s are 0.5 % per second: (0.5 - 0.4) / 0.4 * 10 s, but at most one sample.
    assert (setup.throttle_times, setup.muted) == ([1000], [1000])


def test_other_users_are_not_throttled() -> None:
    setup = Setup(respond_after(5000), {"request_percentage": 1})
    setup.session.principal = user("bob")
    setup.dispatch()
    assert (setup.throttle_times, setup.muted) == ([0], [])


def test_version_without_a_throttle_time_is_muted_too() -> None:
    setup = Setup(respond_after(5000), {"request_percentage": 1})
    setup.dispatch(version=0)
    assert setup.session.responses == [(7, b"\0\0")]
    assert setup.muted == [1000]


def test_time_of_sending_counts_for_the_next_request() -> None:
    setup = Setup(respond_after(0), {"request_percentage": 1})
    setup.session.on_send = lambda: setup.spend(5000)
    setup.dispatch()
    assert setup.muted == []
    setup.dispatch()
    assert setup.muted == [1000]


def test_time_in_which_a_request_waits_does_not_count() -> None:
    pending: PendingResponse[Any] = PendingResponse()

    def handle(setup: Setup, context: Any) -> PendingResponse[Any]:
        setup.spend(3)
        return pending

    setup = Setup(handle, {"request_percentage": 0.03})
    setup.dispatch()
    setup.spend(60_000)
    pending.complete(HeartbeatResponse())
    assert setup.throttle_times == [0]

    setup = Setup(respond_after(4), {"request_percentage": 0.03})
    setup.dispatch()
    assert setup.throttle_times == [1000]


def test_steps_of_a_coroutine_count_and_its_pauses_do_not() -> None:
    async def work(setup: Setup) -> HeartbeatResponse:
        setup.spend(2)
        await asyncio.sleep(0)
        setup.spend(2)
        return HeartbeatResponse()

    async def main(bound: float) -> list[int]:
        setup = Setup(lambda setup, context: work(setup), {"request_percentage": bound})
        setup.dispatch()
        setup.spend(60_000)
        await setup.dispatcher.drain()
        return setup.throttle_times

    assert run_virtually(lambda: main(0.041)) == [0]
    assert run_virtually(lambda: main(0.039)) == [256]


def test_errors_and_late_results_have_a_throttle_time() -> None:
    async def fail() -> HeartbeatResponse:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)

    async def main(handle: Any) -> None:
        setup = Setup(handle, {"request_percentage": 1})
        setup.dispatch()
        await setup.dispatcher.drain()
        [(_, body)] = setup.session.responses
        assert struct.unpack(">ih", body) == (1000, ErrorCode.UNKNOWN_MEMBER_ID)

    def raise_at_once(setup: Setup, context: Any) -> Any:
        setup.spend(1000)
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)

    def complete_with_a_coroutine(setup: Setup, context: Any) -> Any:
        setup.spend(1000)
        pending: PendingResponse[Any] = PendingResponse()
        pending.complete(fail())
        return pending

    def fail_later(setup: Setup, context: Any) -> Any:
        setup.spend(1000)
        return fail()

    for handle in (raise_at_once, complete_with_a_coroutine, fail_later):
        run_virtually(partial(main, handle))


def as_bytes(part: Any) -> bytes:
    return bytes(part)


def test_shared_encoded_response_is_not_modified() -> None:
    parts = parts_encoder(HeartbeatResponse, 1)(HeartbeatResponse(error_code=27))
    before = list(map(as_bytes, parts))

    def handle(setup: Setup, context: Any) -> EncodedResponse:
        setup.spend(1000)
        return EncodedResponse(parts)

    setup = Setup(handle, {"request_percentage": 1})
    setup.dispatch()
    assert struct.unpack(">ih", setup.session.responses[0][1]) == (1000, 27)
    assert list(map(as_bytes, parts)) == before


def test_shared_response_object_is_not_modified() -> None:
    shared = HeartbeatResponse()
    setup = Setup(lambda setup, context: setup.spend(1000) or shared, {"request_percentage": 1})
    setup.dispatch()
    assert setup.throttle_times == [1000]
    assert shared.throttle_time_ms == 0


def test_cluster_actions_are_exempt() -> None:
    setup = Setup(
        lambda setup, context: setup.spend(5000) or NoResponse(), {"request_percentage": 1}, api_key=27
    )
    body = b"\0\0\0\0"
    setup.dispatch(version=0, body=body)
    assert setup.muted == []


PRODUCED = encoder(ProduceRequest, 9)(ProduceRequest(None, 1, 1000, []))


def test_produce_request_counts_with_its_bytes() -> None:
    setup = Setup(lambda setup, context: ProduceResponse([]), {"producer_byte_rate": 1}, api_key=PRODUCE)
    setup.dispatch(version=9, body=PRODUCED + bytes(20 - len(PRODUCED)))
    assert setup.muted == [10_000]  # 20 bytes in 10 s are 2 per second: (2 - 1) / 1 * 10 s


@pytest.mark.parametrize(("result", "muted"), [(ProduceResponse([]), [1000]), (NoResponse(), [])])
def test_time_of_a_produce_request_without_acks_is_not_throttled(result: Any, muted: list[int]) -> None:
    setup = Setup(
        lambda setup, context: setup.spend(5000) or result, {"request_percentage": 1}, api_key=PRODUCE
    )
    setup.dispatch(version=9, body=PRODUCED)
    assert setup.muted == muted


def test_largest_throttle_time_counts() -> None:
    setup = Setup(
        lambda setup, context: setup.spend(5000) or ProduceResponse([]),
        {"request_percentage": 1, "producer_byte_rate": len(PRODUCED) / 20},
        api_key=PRODUCE,
    )
    setup.dispatch(version=9, body=PRODUCED)
    assert setup.muted == [10_000]


def test_throttled_fetch_is_not_recorded() -> None:
    def handle(setup: Setup, context: Any) -> HeartbeatResponse:
        responses = [(context.meter.throttle_fetch(count), count) for count in (900, 5000, 100)]
        assert responses == [(False, 900), (True, 5000), (False, 100)]
        return HeartbeatResponse()

    setup = Setup(handle, {"consumer_byte_rate": 100})
    setup.dispatch()
    assert setup.muted == []


def test_throttled_fetch_is_recorded_once() -> None:
    def handle(setup: Setup, context: Any) -> HeartbeatResponse:
        assert context.meter.throttle_fetch(2000)
        return HeartbeatResponse()

    setup = Setup(handle, {"consumer_byte_rate": 100, "request_percentage": 1000})
    setup.dispatch()
    assert (setup.throttle_times, setup.muted) == ([10_000], [10_000])


def test_request_over_its_time_returns_no_records() -> None:
    def handle(setup: Setup, context: Any) -> HeartbeatResponse:
        setup.spend(5000)
        assert context.meter.throttle_fetch(10)
        return HeartbeatResponse()

    setup = Setup(handle, {"consumer_byte_rate": 100, "request_percentage": 1})
    setup.dispatch()
    assert setup.muted == [1000]


def test_fetch_is_as_large_as_the_window_allows() -> None:
    sizes = []

    def handle(setup: Setup, context: Any) -> HeartbeatResponse:
        sizes.append(context.meter.fetch_bytes_max())
        return HeartbeatResponse()

    for quota in (100, 1e30, -1):
        Setup(handle, {"consumer_byte_rate": quota}).dispatch()
    Setup(handle, {"producer_byte_rate": 1}).dispatch()
    assert sizes == [1000, 2**31 - 1, 0, 2**31 - 1]


def test_controller_mutations_throttle_by_version() -> None:
    def handle(setup: Setup, context: Any) -> HeartbeatResponse:
        quota = mutation_quota(context.meter, is_strict=context.version >= 2)
        try:
            quota.record(20)
            quota.record(20)
        except BrokerError as error:
            return HeartbeatResponse(error_code=error.code)
        return HeartbeatResponse()

    for version, code in ((1, 0), (2, ErrorCode.THROTTLING_QUOTA_EXCEEDED)):
        setup = Setup(handle, {"controller_mutation_rate": 1})
        setup.dispatch(version=version)
        [(_, body)] = setup.session.responses
        assert struct.unpack(">ih", body) == ((29_000, 0) if version == 1 else (9000, code))
        assert setup.muted == [struct.unpack_from(">i", body)[0]]
