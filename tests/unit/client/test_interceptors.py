"""Interceptors in a row, and those that fail."""

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
def test_an_interceptor_without_all_its_methods_is_refused_at_once(chain: Any) -> None:
    class Half:
        def close(self) -> None:
            return

    with pytest.raises(TypeError, match=r"Half has no on_\w+ and no on_\w+: inherit from"):
        chain([Half()])


class Marking(ProducerInterceptor, ConsumerInterceptor):
    """Adds a letter to what it sees, and remembers what it was told."""

    def __init__(self, letter: bytes) -> None:
        self.letter = letter
        self.told: list[object] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(value=record.value + self.letter)

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        self.told.append((metadata, error))

    def on_consume(self, records: list[Any]) -> list[Any]:
        return [record + self.letter for record in records]

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.told.append(offsets)

    def close(self) -> None:
        self.told.append("closed")


class Failing(Marking):
    """Raises whatever it is asked."""

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


class Idle(ProducerInterceptor, ConsumerInterceptor):
    """Leaves out everything."""


def chain() -> tuple[Marking, Marking, list[Marking]]:
    first, last = Marking(b"a"), Marking(b"b")
    return first, last, [first, Failing(b"x"), last]


def test_each_interceptor_sees_the_record_of_the_one_before_and_failures_are_passed_over() -> None:
    *_, row = chain()
    assert ProducerInterceptors(row).on_send(ProducerRecord("t", b"-")).value == b"-ab"


def test_each_interceptor_sees_the_records_of_the_one_before() -> None:
    *_, row = chain()
    assert ConsumerInterceptors(row).on_consume([b"1", b"2"]) == [b"1ab", b"2ab"]


def test_all_are_told_of_acknowledgements_and_the_end() -> None:
    first, last, row = chain()
    interceptors = ProducerInterceptors(row)
    interceptors.on_acknowledgement(METADATA, None)
    interceptors.close()
    assert first.told == last.told == [(METADATA, None), "closed"]


def test_all_are_told_of_commits_and_the_end() -> None:
    first, last, row = chain()
    interceptors = ConsumerInterceptors(row)
    interceptors.on_commit(OFFSETS)
    interceptors.close()
    assert first.told == last.told == [OFFSETS, "closed"]


@pytest.mark.parametrize(("partition", "told"), [(None, -1), (3, 3)])
def test_a_record_that_was_never_sent_is_acknowledged_as_failed(partition: int | None, told: int) -> None:
    marking, error = Marking(b"a"), ValueError()
    ProducerInterceptors([marking]).on_send_failed(ProducerRecord("t", partition=partition), error)
    assert marking.told == [(RecordMetadata("t", told, -1, -1, -1, -1), error)]


def test_a_failure_is_logged_with_its_interceptor(caplog: pytest.LogCaptureFixture) -> None:
    ProducerInterceptors([Failing(b"x")]).close()
    assert "interceptor_failed interceptor=Failing" in caplog.text


def test_what_an_interceptor_leaves_out_changes_nothing() -> None:
    record = ProducerRecord("t", b"v")
    producer, consumer = ProducerInterceptors([Idle()]), ConsumerInterceptors([Idle()])
    assert producer.on_send(record) is record
    assert consumer.on_consume([1]) == [1]
    producer.on_acknowledgement(METADATA, None)
    consumer.on_commit(OFFSETS)
    producer.close()


def test_an_empty_chain_is_false() -> None:
    assert not ProducerInterceptors()
    assert not ConsumerInterceptors()
    assert ProducerInterceptors([Idle()])
    assert ConsumerInterceptors([Idle()])
