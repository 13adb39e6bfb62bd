"""Sender: retries, failures and timeouts, with scripted Produce responses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.simulation.producer_fixture import ProducerFixture, run_with_producer

from odradek.client.producer.producer import Producer
from odradek.model.client_errors import (
    AuthorizationFailed,
    ClientError,
    RequestRefused,
    TimedOut,
    UnsupportedVersion,
)
from odradek.model.errors import ErrorCode
from odradek.testing.broker import BROKER_HOST, PORT
from odradek.wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)


class ScriptedResponses:
    """Replaces ``send_if_ready``: the next Produce requests get scripted responses, others real ones."""

    def __init__(self, producer: Producer, *scripted: Any) -> None:
        self.scripted = list(scripted)
        self.requests: list[ProduceRequest] = []
        self.all_pending: list[asyncio.Future[Any]] = []
        self._network = producer._engine.network
        self._send_if_ready = self._network.send_if_ready
        self._network.send_if_ready = self.send_if_ready  # type: ignore[method-assign]

    def send_if_ready(self, node_id: int, request: Any, **options: Any) -> Any:
        if not isinstance(request, ProduceRequest) or not self.scripted:
            return self._send_if_ready(node_id, request, **options)
        self.requests.append(request)
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        scripted = self.scripted.pop(0)
        if isinstance(scripted, ClientError):
            response.set_exception(scripted)
        elif isinstance(scripted, ErrorCode):
            response.set_result(error_response(request, scripted))
        elif scripted is not None:
            response.set_result(scripted)
        else:
            self.pending = response
            self.all_pending.append(response)
        return response


def error_response(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    return ProduceResponse(
        [
            TopicProduceResponse(
                topic.name, [PartitionProduceResponse(part.index, code, -1) for part in topic.partition_data]
            )
            for topic in request.topic_data
        ]
    )


RETRIABLE = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
]


def test_batches_fail_when_the_request_cannot_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer()
        await (await producer.send("letters", b"early"))

        def fail(*args: Any, **options: Any) -> Any:
            raise MemoryError("no room for the request")

        monkeypatch.setattr(producer._engine.network, "send_if_ready", fail)
        delivery = await producer.send("letters", b"v")
        await asyncio.wait_for(producer.flush(), 10)
        with pytest.raises(ClientError, match="no room for the request"):
            await delivery
        monkeypatch.undo()
        await (await producer.send("letters", b"late"))

    run_with_producer(scenario)


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("code", RETRIABLE)
def test_retriable_errors_are_retried_after_the_backoff(code: ErrorCode, idempotent: bool) -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(enable_idempotence=idempotent)
        await producer.partitions_for("letters")
        ScriptedResponses(producer, code, code)
        started = fixture.clock.monotonic_ms()
        assert (await (await producer.send("letters", b"v"))).offset == 0
        # 100 and 200 milliseconds, with 20% jitter.
        assert fixture.clock.monotonic_ms() - started >= 240
        assert producer.metrics()["record-retry-total"] == 2

    run_with_producer(scenario)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationFailed),
        (ErrorCode.INVALID_REQUIRED_ACKS, RequestRefused),
        (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, RequestRefused),
    ],
)
def test_non_retriable_errors_fail_immediately(code: ErrorCode, kind: type[ClientError]) -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer()
        await (await producer.send("letters", b"first"))
        ScriptedResponses(producer, code)
        with pytest.raises(kind, match="letters-0") as raised:
            await (await producer.send("letters", b"v"))
        assert raised.value.code is code
        assert "broker" in str(raised.value)
        assert (await (await producer.send("letters", b"after"))).offset == 1

    run_with_producer(scenario)


def test_retries_limits_attempts() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(enable_idempotence=False, retries=1)
        await producer.partitions_for("letters")
        responses = ScriptedResponses(producer, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS)
        with pytest.raises(RequestRefused, match="NOT_ENOUGH_REPLICAS"):
            await (await producer.send("letters", b"v"))
        assert len(responses.requests) == 2

    run_with_producer(scenario)


def test_duplicate_sequence_number_counts_as_written() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer()
        await (await producer.send("letters", b"first"))
        ScriptedResponses(producer, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        assert (await (await producer.send("letters", b"v"))).offset == -1

    run_with_producer(scenario)


def test_partition_missing_in_the_response_fails_its_batch() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(enable_idempotence=False)
        await producer.partitions_for("letters")
        ScriptedResponses(producer, ProduceResponse([]))
        with pytest.raises(RequestRefused, match="has no entry for this partition"):
            await (await producer.send("letters", b"v"))

    run_with_producer(scenario)


def test_memory_in_flight_is_not_reused_before_the_request_ends() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(delivery_timeout_ms=3000, request_timeout_ms=2000, linger_ms=0)
        await producer.partitions_for("letters")
        responses = ScriptedResponses(producer, None)
        with pytest.raises(TimedOut, match="not delivered within 300"):
            await (await producer.send("letters", b"v"))
        total = producer.metrics()["buffer-total-bytes"]
        assert producer.metrics()["buffer-available-bytes"] < total
        responses.pending.set_result(error_response(responses.requests[0], ErrorCode.NONE))
        await asyncio.sleep(0.01)
        assert producer.metrics()["buffer-available-bytes"] == total

    run_with_producer(scenario)


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_batch_in_flight_fails_after_delivery_timeout(is_idempotent: bool) -> None:
    """Without waiting for its request, which may take longer."""

    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        timeouts = {"delivery_timeout_ms": 3000, "request_timeout_ms": 2000, "linger_ms": 0}
        producer = fixture.producer(enable_idempotence=is_idempotent, **timeouts)
        await producer.partitions_for("letters")
        responses = ScriptedResponses(producer, None)
        completed: list[BaseException | None] = []
        delivery = await producer.send("letters", b"v", on_delivery=lambda _, error: completed.append(error))
        await asyncio.sleep(2.9)
        assert completed == []
        await asyncio.sleep(0.2)
        assert len(completed) == 1
        assert not responses.pending.done()
        with pytest.raises(TimedOut, match="letters-0"):
            await delivery
        responses.pending.set_result(error_response(responses.requests[0], ErrorCode.NONE))
        await asyncio.sleep(0.01)
        assert [type(error) for error in completed] == [TimedOut]

    run_with_producer(scenario)


def test_delivery_timeout_reports_the_last_error() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(delivery_timeout_ms=2000, request_timeout_ms=1000, linger_ms=0)
        await (await producer.send("letters", b"first"))
        ScriptedResponses(producer, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 50)
        with pytest.raises(TimedOut, match=r"last attempt failed: .*NOT_ENOUGH_REPLICAS"):
            await (await producer.send("letters", b"v"))

    run_with_producer(scenario)


def test_zstd_with_an_old_broker_raises_unsupported_version() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(compression_type="zstd")
        await producer.partitions_for("letters")
        producer._engine.network.versions = lambda node_id: {0: range(7)}  # type: ignore[method-assign]
        with pytest.raises(UnsupportedVersion, match="Produce version 7, got up to 6"):
            await (await producer.send("letters", b"v"))

    run_with_producer(scenario)


def test_five_requests_failing_together_are_retried_in_order() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(batch_size=100, linger_ms=0)
        await (await producer.send("letters", b"first"))
        responses = ScriptedResponses(producer, *[None] * 5)
        sent = [bytes([number]) * 60 for number in range(12)]
        deliveries = []
        for number, value in enumerate(sent):
            deliveries.append(await producer.send("letters", value))
            if number < 5:
                await asyncio.sleep(0.01)
        assert len(responses.requests) == 5
        for request, response in zip(responses.requests, responses.all_pending, strict=True):
            response.set_result(error_response(request, ErrorCode.NOT_LEADER_OR_FOLLOWER))
        assert [(await delivery).offset for delivery in deliveries] == list(range(1, 13))
        assert await fixture.values("letters") == [b"first", *sent]

    run_with_producer(scenario)


def test_retried_batch_without_idempotence_goes_before_queued_ones() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        one_at_a_time = {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1}
        producer = fixture.producer(batch_size=100, linger_ms=0, **one_at_a_time)
        await (await producer.send("letters", b"first"))
        responses = ScriptedResponses(producer, None)
        sent = [bytes([number]) * 60 for number in range(4)]
        deliveries = [await producer.send("letters", sent[0])]
        await asyncio.sleep(0.01)
        deliveries += [await producer.send("letters", value) for value in sent[1:]]
        await asyncio.sleep(0.01)
        assert len(responses.requests) == 1
        responses.pending.set_result(error_response(responses.requests[0], ErrorCode.NOT_LEADER_OR_FOLLOWER))
        assert [(await delivery).offset for delivery in deliveries] == [1, 2, 3, 4]
        assert await fixture.values("letters") == [b"first", *sent]

    run_with_producer(scenario)


def test_current_leader_in_the_response_is_used_immediately() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(retry_backoff_ms=20_000, retry_backoff_max_ms=20_000)
        await (await producer.send("letters", b"first"))
        part = PartitionProduceResponse(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        part.current_leader = LeaderIdAndEpoch(77, 5)
        moved = ProduceResponse([TopicProduceResponse("letters", [part])])
        # The same broker with another node id, which is only in this response.
        moved.node_endpoints = [NodeEndpoint(77, BROKER_HOST, PORT)]
        ScriptedResponses(producer, moved)
        started = fixture.clock.monotonic_ms()
        assert (await (await producer.send("letters", b"v"))).offset == 1
        assert fixture.clock.monotonic_ms() - started < 1000
        assert producer._engine.network.is_ready(77)

    run_with_producer(scenario)


def test_batches_expiring_together_fail_in_send_order() -> None:
    async def scenario(fixture: ProducerFixture) -> None:
        await fixture.create("letters")
        producer = fixture.producer(
            batch_size=100, delivery_timeout_ms=3000, request_timeout_ms=2000, linger_ms=0
        )
        await (await producer.send("letters", b"first"))
        ScriptedResponses(producer, None, ErrorCode.NOT_ENOUGH_REPLICAS, *[None] * 10)
        completed: list[int] = []

        def completes(number: int) -> Callable[[object, object], None]:
            return lambda metadata, error: completed.append(number)

        for number in range(12):
            await producer.send("letters", bytes(60), on_delivery=completes(number))
        await asyncio.sleep(10)
        assert completed == list(range(12))

    run_with_producer(scenario)
