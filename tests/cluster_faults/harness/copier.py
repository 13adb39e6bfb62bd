"""A consumer and a transactional producer that copy a topic, offsets included: exactly once, in order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.faults.clients.actors import BLOCKED_MS_MAX, Actor
from tests.faults.clients.history import Log, ProducerPart

import odradek
from odradek import ClientError, OffsetAndMetadata, TimedOut, TopicPartition

POLL_SECONDS = 0.1


class Copier(Actor):
    """Copies records of ``topic`` to the same partitions of ``target``; a later one continues."""

    def __init__(self, bootstrap: str, name: str, target: str, rng: random.Random) -> None:
        super().__init__(ProducerPart(name), rng)
        self._address = bootstrap
        self._id = name
        self._target = target
        self.transactions = 0
        """Committed ones."""

    @property
    def problem(self) -> str:
        return self._part.problem

    def play(self) -> None:
        while self.is_wanted:
            try:
                self._live()
            except ClientError:
                continue  # begins again at the committed offsets, in a new epoch

    def _live(self) -> None:
        common = {"bootstrap_servers": self._address, **self.options}
        with (
            odradek.Producer(
                transactional_id=self._id, max_block_ms=BLOCKED_MS_MAX, linger_ms=5, **common
            ) as producer,
            odradek.Consumer(
                group_id=self._id,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                enable_auto_commit=False,
                session_timeout_ms=6_000,
                **common,
            ) as consumer,
        ):
            self._again(producer.init_transactions)
            consumer.subscribe([self.topic])
            while self.is_wanted:
                if records := consumer.poll(POLL_SECONDS):
                    self._copy(producer, consumer, records)

    def _copy(self, producer: Any, consumer: Any, records: Any) -> None:
        offsets = {
            TopicPartition(record.topic, record.partition): OffsetAndMetadata(record.offset + 1)
            for record in records
        }
        producer.begin_transaction()
        for record in records:
            producer.send(self._target, record.value, partition=record.partition)
        self._again(lambda: producer.send_offsets_to_transaction(offsets, consumer.group_metadata()))
        self._again(producer.commit_transaction)
        self.transactions += 1

    @staticmethod
    def _again(call: Any) -> None:
        while True:
            try:
                return call()
            except TimedOut:
                continue


def wrong_copies(source: Log, copies: Log) -> Iterator[str]:
    """Yield partitions whose copy is not a beginning of the source, each record once and in order."""
    for partition, records in copies.items():
        values = [value for _, value in records]
        expected = [value for _, value in source[partition]][: len(values)]
        if values == expected:
            continue
        twice = [value for value in dict.fromkeys(values) if values.count(value) > 1]
        missing = [value for value in expected if value not in values]
        name = "duplicate" if twice else "lost-write" if missing else "nonmonotonic-send"
        yield f"{name}: copy of partition {partition} has {twice[:3]} twice and misses {missing[:3]}"
