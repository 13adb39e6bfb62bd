"""What answers of brokers mean for batches; the answers are made up, everything else is real."""

from __future__ import annotations

import asyncio
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


class Answers:
    """Stands before a producer's network: the next Produce requests are answered as told, others for real."""

    def __init__(self, producer: Producer, *scripted: Any) -> None:
        self.scripted = list(scripted)
        self.asked: list[ProduceRequest] = []
        self.unanswered: list[asyncio.Future[Any]] = []
        self._network = producer._engine.network
        self._begin = self._network.send_if_ready
        self._network.send_if_ready = self.begin  # type: ignore[method-assign]

    def begin(self, node_id: int, request: Any, **how: Any) -> Any:
        if not isinstance(request, ProduceRequest) or not self.scripted:
            return self._begin(node_id, request, **how)
        self.asked.append(request)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        said = self.scripted.pop(0)
        if isinstance(said, ClientError):
            answer.set_exception(said)
        elif isinstance(said, ErrorCode):
            answer.set_result(refused(request, said))
        elif said is not None:
            answer.set_result(said)
        else:
            self.silent = answer
            self.unanswered.append(answer)
        return answer


def refused(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
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


def test_batches_that_cannot_even_be_written_down_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer()
        await (await producer.send("letters", b"early"))

        def begin(*given: Any, **how: Any) -> Any:
            raise MemoryError("no room for the request")

        monkeypatch.setattr(producer._engine.network, "send_if_ready", begin)
        delivery = await producer.send("letters", b"v")
        await asyncio.wait_for(producer.flush(), 10)
        with pytest.raises(ClientError, match="no room for the request"):
            await delivery
        monkeypatch.undo()
        await (await producer.send("letters", b"late"))

    run_with_producer(scenario)


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("code", RETRIABLE)
def test_what_may_pass_is_sent_again_after_a_rest(code: ErrorCode, idempotent: bool) -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(enable_idempotence=idempotent)
        await producer.partitions_for("letters")
        Answers(producer, code, code)
        began = studio.clock.monotonic_ms()
        assert (await (await producer.send("letters", b"v"))).offset == 0
        # 100 and 200 milliseconds, a fifth less at most.
        assert studio.clock.monotonic_ms() - began >= 240
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
def test_what_will_not_pass_is_told_at_once(code: ErrorCode, kind: type[ClientError]) -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer()
        await (await producer.send("letters", b"first"))
        Answers(producer, code)
        with pytest.raises(kind, match="letters-0") as told:
            await (await producer.send("letters", b"v"))
        assert told.value.code is code
        assert "broker" in str(told.value)
        assert (await (await producer.send("letters", b"after"))).offset == 1

    run_with_producer(scenario)


def test_retries_are_counted() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(enable_idempotence=False, retries=1)
        await producer.partitions_for("letters")
        answers = Answers(producer, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS)
        with pytest.raises(RequestRefused, match="NOT_ENOUGH_REPLICAS"):
            await (await producer.send("letters", b"v"))
        assert len(answers.asked) == 2

    run_with_producer(scenario)


def test_what_a_broker_has_already_counts_as_written() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer()
        await (await producer.send("letters", b"first"))
        Answers(producer, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        assert (await (await producer.send("letters", b"v"))).offset == -1

    run_with_producer(scenario)


def test_an_answer_that_leaves_a_partition_out_loses_no_record() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(enable_idempotence=False)
        await producer.partitions_for("letters")
        Answers(producer, ProduceResponse([]))
        with pytest.raises(RequestRefused, match="does not mention"):
            await (await producer.send("letters", b"v"))

    run_with_producer(scenario)


def test_memory_of_a_request_without_answer_is_not_used_again_before_it_ends() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(delivery_timeout_ms=3000, request_timeout_ms=2000, linger_ms=0)
        await producer.partitions_for("letters")
        answers = Answers(producer, None)
        with pytest.raises(TimedOut, match="not delivered within 300"):
            await (await producer.send("letters", b"v"))
        total = producer.metrics()["buffer-total-bytes"]
        assert producer.metrics()["buffer-available-bytes"] < total
        answers.silent.set_result(refused(answers.asked[0], ErrorCode.NONE))
        await asyncio.sleep(0.01)
        assert producer.metrics()["buffer-available-bytes"] == total

    run_with_producer(scenario)


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_batch_whose_answer_is_due_fails_when_its_time_is_up(is_idempotent: bool) -> None:
    """Its request need not end for that: the connection may be silent for longer."""

    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        how = {"delivery_timeout_ms": 3000, "request_timeout_ms": 2000, "linger_ms": 0}
        producer = studio.producer(enable_idempotence=is_idempotent, **how)
        await producer.partitions_for("letters")
        answers = Answers(producer, None)
        told: list[BaseException | None] = []
        delivery = await producer.send("letters", b"v", on_delivery=lambda _, error: told.append(error))
        await asyncio.sleep(2.9)
        assert told == []
        await asyncio.sleep(0.2)
        assert len(told) == 1
        assert not answers.silent.done()
        with pytest.raises(TimedOut, match="letters-0"):
            await delivery
        answers.silent.set_result(refused(answers.asked[0], ErrorCode.NONE))
        await asyncio.sleep(0.01)
        assert [type(error) for error in told] == [TimedOut]

    run_with_producer(scenario)


def test_the_last_error_is_told_when_time_is_up() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(delivery_timeout_ms=2000, request_timeout_ms=1000, linger_ms=0)
        await (await producer.send("letters", b"first"))
        Answers(producer, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 50)
        with pytest.raises(TimedOut, match=r"last attempt failed: .*NOT_ENOUGH_REPLICAS"):
            await (await producer.send("letters", b"v"))

    run_with_producer(scenario)


def test_a_broker_too_old_for_zstd_is_told_so() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(compression_type="zstd")
        await producer.partitions_for("letters")
        producer._engine.network.versions = lambda node_id: {0: range(7)}  # type: ignore[method-assign]
        with pytest.raises(UnsupportedVersion, match="Produce up to version 6"):
            await (await producer.send("letters", b"v"))

    run_with_producer(scenario)


def test_five_requests_that_fail_at_once_come_back_in_order() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(batch_size=100, linger_ms=0)
        await (await producer.send("letters", b"first"))
        answers = Answers(producer, *[None] * 5)
        sent = [bytes([number]) * 60 for number in range(12)]
        deliveries = []
        for number, value in enumerate(sent):
            deliveries.append(await producer.send("letters", value))
            if number < 5:
                await asyncio.sleep(0.01)
        assert len(answers.asked) == 5
        for request, answer in zip(answers.asked, answers.unanswered, strict=True):
            answer.set_result(refused(request, ErrorCode.NOT_LEADER_OR_FOLLOWER))
        assert [(await delivery).offset for delivery in deliveries] == list(range(1, 13))
        assert await studio.values("letters") == [b"first", *sent]

    run_with_producer(scenario)


def test_a_batch_that_comes_back_without_idempotence_goes_before_those_that_wait() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        one_at_a_time = {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1}
        producer = studio.producer(batch_size=100, linger_ms=0, **one_at_a_time)
        await (await producer.send("letters", b"first"))
        answers = Answers(producer, None)
        sent = [bytes([number]) * 60 for number in range(4)]
        deliveries = [await producer.send("letters", sent[0])]
        await asyncio.sleep(0.01)
        deliveries += [await producer.send("letters", value) for value in sent[1:]]
        await asyncio.sleep(0.01)
        assert len(answers.asked) == 1
        answers.silent.set_result(refused(answers.asked[0], ErrorCode.NOT_LEADER_OR_FOLLOWER))
        assert [(await delivery).offset for delivery in deliveries] == [1, 2, 3, 4]
        assert await studio.values("letters") == [b"first", *sent]

    run_with_producer(scenario)


def test_a_leader_that_is_named_in_passing_is_asked_at_once() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(retry_backoff_ms=20_000, retry_backoff_max_ms=20_000)
        await (await producer.send("letters", b"first"))
        part = PartitionProduceResponse(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        part.current_leader = LeaderIdAndEpoch(77, 5)
        moved = ProduceResponse([TopicProduceResponse("letters", [part])])
        # The same broker under another name: whoever asks there was told of it.
        moved.node_endpoints = [NodeEndpoint(77, BROKER_HOST, PORT)]
        Answers(producer, moved)
        began = studio.clock.monotonic_ms()
        assert (await (await producer.send("letters", b"v"))).offset == 1
        assert studio.clock.monotonic_ms() - began < 1000
        assert producer._engine.network.is_ready(77)

    run_with_producer(scenario)


def test_batches_given_up_together_are_told_in_the_order_of_sending() -> None:
    async def scenario(studio: ProducerFixture) -> None:
        await studio.create("letters")
        producer = studio.producer(
            batch_size=100, delivery_timeout_ms=3000, request_timeout_ms=2000, linger_ms=0
        )
        await (await producer.send("letters", b"first"))
        Answers(producer, None, ErrorCode.NOT_ENOUGH_REPLICAS, *[None] * 10)
        told: list[int] = []
        for number in range(12):
            await producer.send(
                "letters", bytes(60), on_delivery=lambda metadata, error, one=number: told.append(one)
            )
        await asyncio.sleep(10)
        assert told == list(range(12))

    run_with_producer(scenario)
