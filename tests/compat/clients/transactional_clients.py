"""Transactional producers and their consumers, one class per client, with one interface."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

import confluent_kafka as confluent
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import ProducerFenced
from tests.compat.clients.aiokafka import LoopThread
from tests.compat.clients.interface import ErrorResponse
from tests.support.aiokafka_consumer import stop_consumer
from tests.support.kio_requests import transaction_state

import odradek

with warnings.catch_warnings():
    # The client reads its schemas with a call that Python 3.11 deprecates; warnings are errors here.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.errors import KafkaError, ProducerFencedError
    from kafka.structs import OffsetAndMetadata
    from kafka.structs import TopicPartition as KafkaPartition

SECONDS_MAX: Final = 40
TIMEOUT_MS: Final = 60_000
COMPLETE: Final = ("Empty", "CompleteCommit", "CompleteAbort")
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


class Fenced(Exception):
    """Raised when a newer instance has fenced this producer."""


class TransactionalClient(Protocol):
    """Initialized transactional producer: earlier transactions are completed."""

    def begin(self) -> None: ...

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        """Send a record and wait for its acknowledgement."""

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        """Add the committed offset of a group for partition 0 to the transaction."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def committed(self, group: str, topic: str) -> int:
        """Return the committed offset of a group for partition 0; 0 if there is none."""

    def read(self, topic: str, isolation: str, partitions: Sequence[int] = (0,)) -> list[bytes]:
        """Return all values that a new consumer reads, by partition."""

    def close(self) -> None:
        """Close; an open transaction stays open if the client allows it."""


class ConfluentTransactor:
    def __init__(self, bootstrap: str, name: str, timeout_ms: int = TIMEOUT_MS) -> None:
        self._to: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "reconnect.backoff.max.ms": 200,
            # By default the client raises fatal errors within other callbacks.
            "error_cb": lambda error: None,
        }
        self._producer = confluent.Producer(
            {**self._to, "transactional.id": name, "transaction.timeout.ms": timeout_ms, "linger.ms": 0}
        )
        self._run(lambda: self._producer.init_transactions(SECONDS_MAX))

    @staticmethod
    def _run(work: Callable[[], Any]) -> Any:
        try:
            return work()
        except confluent.KafkaException as failed:
            error = failed.args[0]
            if error.code() in (confluent.KafkaError._FENCED, confluent.KafkaError.PRODUCER_FENCED):
                raise Fenced from failed
            raise ErrorResponse(error.code(), error.str()) from failed

    def begin(self) -> None:
        self._run(self._producer.begin_transaction)

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        failures: list[Any] = []

        def on_delivery(error: Any, _: Any) -> None:
            if error is not None:
                failures.append(error)

        self._producer.produce(topic, value, partition=partition, on_delivery=on_delivery)
        assert self._producer.flush(SECONDS_MAX) == 0
        if failures:
            self._run(lambda: self._raise(failures[0]))

    @staticmethod
    def _raise(error: Any) -> None:
        raise confluent.KafkaException(error)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        consumer = confluent.Consumer({**self._to, "group.id": group})
        try:
            metadata = consumer.consumer_group_metadata()
            offsets = [confluent.TopicPartition(topic, 0, offset)]
            self._run(lambda: self._producer.send_offsets_to_transaction(offsets, metadata, SECONDS_MAX))
        finally:
            consumer.close()

    def commit(self) -> None:
        self._run(lambda: self._producer.commit_transaction(SECONDS_MAX))

    def abort(self) -> None:
        self._run(lambda: self._producer.abort_transaction(SECONDS_MAX))

    def committed(self, group: str, topic: str) -> int:
        consumer = confluent.Consumer({**self._to, "group.id": group})
        try:
            [result] = consumer.committed([confluent.TopicPartition(topic, 0)], SECONDS_MAX)
            return max(result.offset, 0)
        finally:
            consumer.close()

    def read(self, topic: str, isolation: str, partitions: Sequence[int] = (0,)) -> list[bytes]:
        consumer = confluent.Consumer(
            {
                **self._to,
                "group.id": "nobody",
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        result: dict[int, list[bytes]] = {partition: [] for partition in partitions}
        consumer.assign([confluent.TopicPartition(topic, partition, 0) for partition in partitions])
        left, deadline = set(partitions), time.monotonic() + SECONDS_MAX
        while left:
            assert time.monotonic() < deadline, (left, result)
            message = consumer.poll(1)
            if message is None:
                continue
            error, partition, value = message.error(), message.partition(), message.value()
            if error is None:
                assert partition is not None
                assert value is not None
                result[partition].append(value)
            elif error.code() == confluent.KafkaError._PARTITION_EOF:
                left.discard(message.partition())
        consumer.close()
        return [value for partition in partitions for value in result[partition]]

    def close(self) -> None:
        with suppress(confluent.KafkaException):  # a fenced producer rejects even this
            self._producer.purge()
            self._producer.flush(1)


class KafkaPythonTransactor:
    def __init__(self, bootstrap: str, name: str, timeout_ms: int = TIMEOUT_MS) -> None:
        self._to = {"bootstrap_servers": bootstrap}
        self._producer = KafkaProducer(
            **self._to, transactional_id=name, transaction_timeout_ms=timeout_ms, reconnect_backoff_max_ms=200
        )
        self._run(self._producer.init_transactions)

    @staticmethod
    def _run(work: Callable[[], Any]) -> Any:
        try:
            return work()
        except ProducerFencedError as failed:
            raise Fenced from failed
        except KafkaError as failed:
            raise ErrorResponse(getattr(failed, "errno", -1000), repr(failed)) from failed

    def begin(self) -> None:
        self._run(self._producer.begin_transaction)

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        sent = self._run(lambda: self._producer.send(topic, value, partition=partition))
        self._run(lambda: sent.get(SECONDS_MAX))

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        offsets = {KafkaPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        self._run(lambda: self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction)

    def abort(self) -> None:
        self._run(self._producer.abort_transaction)

    def committed(self, group: str, topic: str) -> int:
        consumer = KafkaConsumer(**self._to, group_id=group, isolation_level=COMMITTED)
        try:
            return self._run(lambda: consumer.committed(KafkaPartition(topic, 0))) or 0
        finally:
            consumer.close(autocommit=False)

    def read(self, topic: str, isolation: str, partitions: Sequence[int] = (0,)) -> list[bytes]:
        consumer = KafkaConsumer(**self._to, isolation_level=isolation, enable_auto_commit=False)
        result: list[bytes] = []
        for partition in partitions:
            at = KafkaPartition(topic, partition)
            consumer.assign([at])
            consumer.seek_to_beginning(at)
            end, deadline = consumer.end_offsets([at])[at], time.monotonic() + SECONDS_MAX
            while consumer.position(at) < end:
                assert time.monotonic() < deadline, (consumer.position(at), end)
                for records in consumer.poll(500).values():
                    result += [record.value for record in records]
        consumer.close(autocommit=False)
        return result

    def close(self) -> None:
        self._producer.close(timeout=1)


class AiokafkaTransactor:
    def __init__(self, bootstrap: str, name: str, timeout_ms: int = TIMEOUT_MS) -> None:
        self._to = {"bootstrap_servers": bootstrap}
        self._name = name
        self._loop = LoopThread()
        self._producer = self._run(self._start(name, timeout_ms))

    async def _start(self, name: str, timeout_ms: int) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            **self._to, transactional_id=name, transaction_timeout_ms=timeout_ms, retry_backoff_ms=50
        )
        await producer.start()
        return producer

    def _run(self, work: Any) -> Any:
        try:
            return self._loop.run(work)
        except ErrorResponse as error:
            if isinstance(error.__cause__, ProducerFenced):
                raise Fenced from error
            raise

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._run(self._producer.send_and_wait(topic, value, partition=partition))

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        self._run(self._producer.send_offsets_to_transaction({AioPartition(topic, 0): offset}, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())
        self._wait_until_complete()

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())
        self._wait_until_complete()

    def _wait_until_complete(self) -> None:
        """Wait for the markers: this client reads committed offsets without waiting for pending ones.

        The coordinator answers once the outcome is stored, and then writes markers to other brokers.
        """
        deadline = time.monotonic() + SECONDS_MAX
        while transaction_state(self._to["bootstrap_servers"], self._name) not in COMPLETE:
            assert time.monotonic() < deadline, f"{self._name} must complete in {SECONDS_MAX} s"
            time.sleep(0.02)

    def committed(self, group: str, topic: str) -> int:
        return self._run(self._committed(group, topic)) or 0

    async def _committed(self, group: str, topic: str) -> int | None:
        consumer = AIOKafkaConsumer(**self._to, group_id=group, isolation_level=COMMITTED)
        await consumer.start()
        try:
            return await consumer.committed(AioPartition(topic, 0))
        finally:
            await stop_consumer(consumer)

    def read(self, topic: str, isolation: str, partitions: Sequence[int] = (0,)) -> list[bytes]:
        return self._run(self._read(topic, isolation, partitions))

    async def _read(self, topic: str, isolation: str, partitions: Sequence[int]) -> list[bytes]:
        consumer = AIOKafkaConsumer(**self._to, isolation_level=isolation, enable_auto_commit=False)
        await consumer.start()
        result: list[bytes] = []
        for partition in partitions:
            at = AioPartition(topic, partition)
            consumer.assign([at])
            await consumer.seek_to_beginning(at)
            end, deadline = (await consumer.end_offsets([at]))[at], time.monotonic() + SECONDS_MAX
            while await consumer.position(at) < end:
                assert time.monotonic() < deadline, (await consumer.position(at), end)
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    result += [record.value for record in records]
        await stop_consumer(consumer)
        return result

    def close(self) -> None:
        with suppress(ErrorResponse):
            self._loop.run(self._producer.stop())
        self._loop.close()


class OdradekTransactor:
    def __init__(self, bootstrap: str, name: str, timeout_ms: int = TIMEOUT_MS) -> None:
        self._to: dict[str, Any] = {"bootstrap_servers": bootstrap, "reconnect_backoff_max_ms": 200}
        self._producer = odradek.Producer(
            **self._to, transactional_id=name, transaction_timeout_ms=timeout_ms, max_block_ms=40_000
        )
        self._run(self._producer.init_transactions)

    @staticmethod
    def _run(work: Callable[..., Any], *specified: Any) -> Any:
        try:
            return work(*specified)
        except odradek.ProducerFenced as failed:
            raise Fenced from failed
        except odradek.ClientError as failed:
            raise ErrorResponse(failed.code or -1, failed) from failed

    def begin(self) -> None:
        self._run(self._producer.begin_transaction)

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._run(lambda: self._producer.send(topic, value, partition=partition).result(SECONDS_MAX))

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        offsets = {odradek.TopicPartition(topic, 0): odradek.OffsetAndMetadata(offset)}
        self._run(self._producer.send_offsets_to_transaction, offsets, group)

    def commit(self) -> None:
        self._run(self._producer.commit_transaction)

    def abort(self) -> None:
        self._run(self._producer.abort_transaction)

    def committed(self, group: str, topic: str) -> int:
        at = odradek.TopicPartition(topic, 0)
        with odradek.Consumer(**self._to, group_id=group) as consumer:
            result = consumer.committed(at)[at]
        return 0 if result is None else result.offset

    def read(self, topic: str, isolation: Any, partitions: Sequence[int] = (0,)) -> list[bytes]:
        assigned = [odradek.TopicPartition(topic, partition) for partition in partitions]
        result: dict[int, list[bytes]] = {partition: [] for partition in partitions}
        with odradek.Consumer(**self._to, isolation_level=isolation) as consumer:
            ends = consumer.end_offsets(assigned)
            consumer.assign(assigned)
            consumer.seek_to_beginning(*assigned)
            deadline = time.monotonic() + SECONDS_MAX
            while any(consumer.position(item) < ends[item] for item in assigned):
                assert time.monotonic() < deadline, result
                for record in consumer.poll(1):
                    result[record.partition].append(record.value or b"")
        return [value for partition in partitions for value in result[partition]]

    def close(self) -> None:
        self._producer.close(0)


TRANSACTIONAL_CLIENTS: Final[dict[str, Callable[..., TransactionalClient]]] = {
    "aiokafka": AiokafkaTransactor,
    "confluent-kafka": ConfluentTransactor,
    "kafka-python": KafkaPythonTransactor,
    "odradek": OdradekTransactor,
}
