"""Applications with our clients: they randomly send, transact, poll and commit until stopped."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.faults.clients.history import Assigned, ConsumerPart, Poll, ProducerPart, Send, Transaction

import odradek
import odradek.aio
from odradek import ClientError, ProducerFenced, TimedOut, TopicPartition

TOPIC = "histories"
BLOCKED_MS_MAX = 2_000
PAUSE_SECONDS_MAX = 0.02


class Actor(threading.Thread):
    """A thread that runs until ``stop``; unexpected errors are recorded in its history."""

    topic = TOPIC
    pause_seconds_max = PAUSE_SECONDS_MAX
    burst_max = 40
    """Records that are sent without a pause."""
    options: Mapping[str, Any] = {}
    """Options of all clients of this actor."""

    def __init__(self, part: ProducerPart | ConsumerPart, rng: random.Random) -> None:
        super().__init__(daemon=True, name=part.name)
        self.rng = rng
        self._part = part
        self._has_to_stop = threading.Event()

    def stop(self) -> None:
        self._has_to_stop.set()

    @property
    def is_wanted(self) -> bool:
        return not self._has_to_stop.is_set()

    def run(self) -> None:
        try:
            self.play()
        except Exception as wrong:  # noqa: BLE001 - whatever it is, the checker must see it
            self._part.problem = f"{type(wrong).__name__}: {wrong}"

    def play(self) -> None:
        raise NotImplementedError

    def rest(self) -> None:
        time.sleep(self.rng.random() * self.pause_seconds_max)


class Sender(Actor):
    """Sends without transactions; each record has exactly one result."""

    def __init__(
        self, bootstrap: str, part: ProducerPart, partitions: int, rng: random.Random, **options: Any
    ) -> None:
        super().__init__(part, rng)
        self.part = part
        self._partitions = partitions
        self._producer_options = {
            "bootstrap_servers": bootstrap,
            "linger_ms": 5,
            "batch_size": 2000,
            **options,
        }

    def play(self) -> None:
        self._producer = odradek.Producer(**{**self._producer_options, **self.options})
        with self._producer:
            while self.is_wanted:
                for _ in range(self.rng.randrange(1, self.burst_max)):
                    self._send()
                if self.rng.random() < 0.2:
                    self._producer.flush()
                self.rest()

    def _send(self) -> None:
        send = Send(f"{self.part.name}-{len(self.part.sends)}", self.rng.randrange(self._partitions))
        try:
            self._producer.send(
                self.topic, send.value.encode(), partition=send.partition, on_delivery=_noting(send)
            )
        except ClientError:
            return  # rejected by send: counts as never sent
        self.part.sends.append(send)


def _noting(send: Send) -> Any:
    def on_result(metadata: Any, error: BaseException | None) -> None:
        send.callbacks += 1
        if error is None and metadata is not None:
            send.acknowledge(metadata.offset)
        else:
            send.error = f"{type(error).__name__}: {error}"

    return on_result


class Transactor(Actor):
    """Sends in transactions, and aborts some; calls that time out are retried."""

    def __init__(self, bootstrap: str, part: ProducerPart, partitions: int, rng: random.Random) -> None:
        super().__init__(part, rng)
        self.part = part
        self._address = bootstrap
        self._partitions = partitions
        self.failures: list[str] = []
        """Reasons of aborted transactions."""

    def play(self) -> None:
        while self.is_wanted:
            self._live()

    def _live(self) -> None:
        """Run one producer for some transactions; the next one takes over its transactional id."""
        with self._made() as producer:
            self._again(producer.init_transactions)
            for _ in range(self.rng.randrange(1, 30)):
                if self.is_wanted:
                    self._transact(producer)
                    self.rest()
            self._be_fenced(producer)

    def _made(self) -> Any:
        return odradek.Producer(
            bootstrap_servers=self._address,
            transactional_id=self.part.name,
            max_block_ms=BLOCKED_MS_MAX,
            linger_ms=5,
            **self.options,
        )

    def _begun(self, producer: Any) -> Transaction:
        transaction = Transaction()
        self.part.transactions.append(transaction)
        producer.begin_transaction()
        return transaction

    def _be_fenced(self, producer: Any) -> None:
        """Fence the producer by another one during a transaction, which must then be aborted."""
        transaction = self._begun(producer)
        with self._made() as twin:
            try:
                self._send(producer, transaction)
                self._again(twin.init_transactions)
                self._send(producer, transaction)
                transaction.commit_began_s = time.monotonic()
                self._again(producer.commit_transaction)
            except ClientError as failed:
                transaction.outcome = "aborted"
                self.failures.append(str(failed))
                return
        raise AssertionError("a fenced producer has committed")

    def _transact(self, producer: Any) -> None:
        transaction = self._begun(producer)
        try:
            for _ in range(self.rng.randrange(1, 12)):
                self._send(producer, transaction)
            if self.rng.random() < 0.3:
                producer.flush()
            if self.rng.random() < 0.7:
                transaction.commit_began_s = time.monotonic()
                self._again(producer.commit_transaction)
                transaction.outcome = "committed"
                return
        except ProducerFenced:
            raise
        except ClientError as failed:
            self.failures.append(str(failed))
        self._again(producer.abort_transaction)
        transaction.outcome = "aborted"

    def _send(self, producer: Any, transaction: Transaction) -> None:
        send = Send(f"{self.part.name}-{len(self.part.sends)}", self.rng.randrange(self._partitions))
        producer.send(self.topic, send.value.encode(), partition=send.partition, on_delivery=_noting(send))
        self.part.sends.append(send)
        transaction.sends.append(send)

    def _again(self, call: Any) -> None:
        while True:
            try:
                return call()
            except TimedOut:
                continue


class Reader(Actor):
    """A read_committed group member that randomly leaves, rejoins and commits."""

    group = "readers"

    def __init__(self, bootstrap: str, part: ConsumerPart, rng: random.Random) -> None:
        super().__init__(part, rng)
        self.part = part
        self._address = bootstrap

    # Listener callbacks.

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.part.events.append(Assigned(tuple(partition.partition for partition in partitions)))

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Note a revocation: the next owner starts at the committed offset."""

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Note an assignment."""

    def play(self) -> None:
        while self.is_wanted:
            self._live()

    def _live(self) -> None:
        options: dict[str, Any] = {
            "bootstrap_servers": self._address,
            "group_id": self.group,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
            "enable_auto_commit": self.rng.random() < 0.5,
            "auto_commit_interval_ms": 200,
            "session_timeout_ms": 6_000,
            **self.options,
        }
        lasts = self.rng.randrange(20, 200)
        if self.rng.random() < 0.5:
            asyncio.run(self._live_asyncio(options, lasts))
            return
        with odradek.Consumer(**options) as consumer:
            consumer.subscribe([self.topic], listener=self)
            while self.is_wanted and (lasts := lasts - 1) > 0:
                self._poll(consumer)

    async def _live_asyncio(self, options: dict[str, Any], lasts: int) -> None:
        """The same with asyncio, where a poll or commit may be cancelled at any time."""
        async with odradek.aio.Consumer(**options) as consumer:
            consumer.subscribe([self.topic], listener=self)
            while self.is_wanted and (lasts := lasts - 1) > 0:
                try:
                    async with asyncio.timeout(self.rng.choice((0.001, 0.01, 60))):
                        self._note(await consumer.poll(0.1))
                        if self.rng.random() < 0.3:
                            await consumer.commit()
                            self.part.commits += 1
                except (ClientError, TimeoutError):
                    continue

    def _note(self, records: Sequence[Any]) -> None:
        self.part.events += [
            Poll(record.partition, record.offset, record.value.decode()) for record in records
        ]

    def _poll(self, consumer: Any) -> None:
        self._note(consumer.poll(0.1))
        if self.rng.random() < 0.3:
            try:
                consumer.commit()
                self.part.commits += 1
            except ClientError:
                return  # rebalance or unavailable broker: the records are read again
