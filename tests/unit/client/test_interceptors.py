"""Interceptor chains, and failing interceptors."""

from collections.abc import Mapping
from typing import Any

import pytest

from odradek.client.interceptors import (
    ConsumerInterceptor,
    ConsumerInterceptors,
    ProducerInterceptor,
    ProducerInterceptors,
    ProducerRecord,
)
from odradek.client.values import OffsetAndMetadata, RecordMetadata
from odradek.model.ids import TopicPartition

METADATA = RecordMetadata("t", 0, 7, 1000, -1, 3)
OFFSETS = {TopicPartition("t", 0): OffsetAndMetadata(7)}


@pytest.mark.parametrize("chain", [ProducerInterceptors, ConsumerInterceptors])
def test_interceptor_with_missing_methods_is_rejected(chain: Any) -> None:
    class IncompleteInterceptor:
        def close(self) -> None:
            return

    with pytest.raises(TypeError, match=r"got IncompleteInterceptor without on_\w+, on_\w+; inherit from"):
        chain([IncompleteInterceptor()])


class AppendingInterceptor(ProducerInterceptor, ConsumerInterceptor):
    """Appends a letter to values, and records its calls."""

    def __init__(self, letter: bytes) -> None:
        self.letter = letter
        self.calls: list[object] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(value=record.value + self.letter)

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        self.calls.append((metadata, error))

    def on_consume(self, records: list[Any]) -> list[Any]:
        return [record + self.letter for record in records]

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.calls.append(offsets)

    def close(self) -> None:
        self.calls.append("closed")


class FailingInterceptor(AppendingInterceptor):
    """Raises in every method."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise RuntimeError("on_send")

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        raise RuntimeError("on_acknowledgement")

    def on_consume(self, records: list[Any]) -> list[Any]:
        raise RuntimeError("on_consume")

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        raise RuntimeError("on_commit")

    def close(self) -> None:
        raise RuntimeError("close")


class EmptyInterceptor(ProducerInterceptor, ConsumerInterceptor):
    """Defines no method."""


def chain() -> tuple[AppendingInterceptor, AppendingInterceptor, list[AppendingInterceptor]]:
    first, last = AppendingInterceptor(b"a"), AppendingInterceptor(b"b")
    return first, last, [first, FailingInterceptor(b"x"), last]


def test_on_send_chains_interceptors_and_skips_failing_ones() -> None:
    *_, interceptors = chain()
    assert ProducerInterceptors(interceptors).on_send(ProducerRecord("t", b"-")).value == b"-ab"


def test_on_consume_chains_interceptors() -> None:
    *_, interceptors = chain()
    assert ConsumerInterceptors(interceptors).on_consume([b"1", b"2"]) == [b"1ab", b"2ab"]


def test_all_interceptors_get_acknowledgements_and_close() -> None:
    first, last, interceptors = chain()
    chained = ProducerInterceptors(interceptors)
    chained.on_acknowledgement(METADATA, None)
    chained.close()
    assert first.calls == last.calls == [(METADATA, None), "closed"]


def test_all_interceptors_get_commits_and_close() -> None:
    first, last, interceptors = chain()
    chained = ConsumerInterceptors(interceptors)
    chained.on_commit(OFFSETS)
    chained.close()
    assert first.calls == last.calls == [OFFSETS, "closed"]


@pytest.mark.parametrize(("partition", "acknowledged"), [(None, -1), (3, 3)])
def test_record_that_was_never_sent_is_acknowledged_with_an_error(
    partition: int | None, acknowledged: int
) -> None:
    interceptor, error = AppendingInterceptor(b"a"), ValueError()
    ProducerInterceptors([interceptor]).on_send_failed(ProducerRecord("t", partition=partition), error)
    assert interceptor.calls == [(RecordMetadata("t", acknowledged, -1, -1, -1, -1), error)]


def test_failure_is_logged_with_the_interceptor_name(caplog: pytest.LogCaptureFixture) -> None:
    ProducerInterceptors([FailingInterceptor(b"x")]).close()
    assert "interceptor_failed interceptor=FailingInterceptor" in caplog.text


def test_default_methods_change_nothing() -> None:
    record = ProducerRecord("t", b"v")
    producer, consumer = (
        ProducerInterceptors([EmptyInterceptor()]),
        ConsumerInterceptors([EmptyInterceptor()]),
    )
    assert producer.on_send(record) is record
    assert consumer.on_consume([1]) == [1]
    producer.on_acknowledgement(METADATA, None)
    consumer.on_commit(OFFSETS)
    producer.close()


def test_empty_interceptor_chain_is_false() -> None:
    assert not ProducerInterceptors()
    assert not ConsumerInterceptors()
    assert ProducerInterceptors([EmptyInterceptor()])
    assert ConsumerInterceptors([EmptyInterceptor()])
