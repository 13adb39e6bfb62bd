"""Invalid batches and out-of-order producers."""

from __future__ import annotations

import gzip
import struct
import time
import zlib
from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.support.broker import IS_FOREIGN
from tests.support.kio_requests import (
    create_topic,
    fetch_request,
    fetched_partition,
    kio_requests,
    metadata_request,
    produce_request,
    produced_partition,
    stored_batches,
)
from tests.support.raw_connection import RawConnection, header_v1
from tests.support.record_batches import HandMadeBatch, batch_headers, record

UNKNOWN_SERVER_ERROR = -1
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
COORDINATOR_LOAD_IN_PROGRESS = 14
INVALID_REQUIRED_ACKS = 21
INVALID_TIMESTAMP = 32
OUT_OF_ORDER_SEQUENCE = 45
INVALID_PRODUCER_EPOCH = 47
INVALID_RECORD = 87
GZIP = 1
PRODUCE = 0


@pytest.fixture
def connection(bootstrap: str) -> Iterator[RawConnection]:
    """A connection that must still get responses at the end."""
    with RawConnection(bootstrap) as opened:
        yield opened
        assert opened.exchange(metadata_request()).brokers


def code_of(connection: RawConnection, topic: str, data: bytes | None, **options: int) -> int:
    return int(produced_partition(connection.exchange(produce_request(topic, data, **options))).error_code)


def test_valid_batch_is_stored_unchanged(connection: RawConnection, bootstrap: str, topic: str) -> None:
    create_topic(connection, topic)
    records = [record(number, timestamp_delta=number, headers=[("h", None)]) for number in range(5)]
    batch = HandMadeBatch(records=records, max_timestamp=1_700_000_000_004)
    assert code_of(connection, topic, batch.build()) == 0
    batch.leader_epoch = 0
    assert stored_batches(bootstrap, topic) == batch.build()


INVALID: dict[str, tuple[HandMadeBatch, int]] = {
    "wrong checksum": (HandMadeBatch(crc=12345), CORRUPT_MESSAGE),
    "length shorter than a batch": (HandMadeBatch(length=20), CORRUPT_MESSAGE),
    "count above the records": (HandMadeBatch(count=3, last_offset_delta=2), INVALID_RECORD),
    "count below the records": (
        HandMadeBatch(records=[record(0), record(1)], count=1, last_offset_delta=0),
        INVALID_RECORD,
    ),
    "count that disagrees with the last offset": (HandMadeBatch(last_offset_delta=5), INVALID_RECORD),
    "no records": (HandMadeBatch(records=[]), INVALID_RECORD),
    "negative count": (HandMadeBatch(count=-1), INVALID_RECORD),
    "record length beyond the batch": (HandMadeBatch(payload=b"\xfe\x7f" + record(0)[1:]), INVALID_RECORD),
    "bytes after the last record": (HandMadeBatch(payload=record(0) + b"\0\0\0"), INVALID_RECORD),
    "control batch": (HandMadeBatch(attributes=0x20), INVALID_RECORD),
    "magic of the future": (HandMadeBatch(magic=3), CORRUPT_MESSAGE),
}


@pytest.mark.parametrize("case", sorted(INVALID))
def test_invalid_batch_is_rejected_and_not_stored(
    connection: RawConnection, bootstrap: str, topic: str, case: str
) -> None:
    create_topic(connection, topic)
    batch, code = INVALID[case]
    assert code_of(connection, topic, batch.build()) == code
    assert stored_batches(bootstrap, topic) == b""


INVALID_GZIP = {
    "not gzip at all": b"this is not gzip",
    "gzip cut short": gzip.compress(record(0, b"v" * 1000))[:-20],
    "gzip of fewer records than said": gzip.compress(b""),
}


@pytest.mark.parametrize("case", sorted(INVALID_GZIP))
def test_corrupt_compressed_data_is_rejected(
    connection: RawConnection, bootstrap: str, topic: str, case: str
) -> None:
    create_topic(connection, topic)
    batch = HandMadeBatch(payload=INVALID_GZIP[case], attributes=GZIP)
    allowed = {CORRUPT_MESSAGE, INVALID_RECORD}
    if IS_FOREIGN:
        allowed.add(UNKNOWN_SERVER_ERROR)  # Kafka's response; some clients then write duplicates
    assert code_of(connection, topic, batch.build()) in allowed
    assert stored_batches(bootstrap, topic) == b""


def test_two_batches_for_one_partition_are_rejected(
    connection: RawConnection, bootstrap: str, topic: str
) -> None:
    create_topic(connection, topic)
    assert code_of(connection, topic, HandMadeBatch().build() * 2) == INVALID_RECORD
    assert stored_batches(bootstrap, topic) == b""


def test_empty_records_are_rejected(connection: RawConnection, topic: str) -> None:
    create_topic(connection, topic)
    assert code_of(connection, topic, b"") == INVALID_RECORD


@pytest.mark.skipif(IS_FOREIGN, reason="Kafka sends no response to this request")
def test_null_records_are_rejected(connection: RawConnection, topic: str) -> None:
    create_topic(connection, topic)
    assert code_of(connection, topic, None) == INVALID_RECORD


def test_batch_above_max_message_bytes_is_rejected(connection: RawConnection, topic: str) -> None:
    create_topic(connection, topic, {"max.message.bytes": "500"})
    assert (
        code_of(connection, topic, HandMadeBatch(records=[record(0, b"x" * 600)]).build())
        == MESSAGE_TOO_LARGE
    )


def test_compacted_topic_rejects_a_record_without_key(connection: RawConnection, topic: str) -> None:
    create_topic(connection, topic, {"cleanup.policy": "compact"})
    batch = HandMadeBatch(records=[record(0), record(1, key=None)])
    response = produced_partition(connection.exchange(produce_request(topic, batch.build())))
    assert response.error_code == INVALID_RECORD
    assert [error.batch_index for error in response.record_errors] == [1]
    assert response.error_message


def test_record_with_a_future_timestamp_is_rejected(connection: RawConnection, topic: str) -> None:
    create_topic(connection, topic, {"message.timestamp.after.max.ms": "3600000"})
    batch = HandMadeBatch(base_timestamp=2**45, max_timestamp=2**45)
    response = produced_partition(connection.exchange(produce_request(topic, batch.build())))
    assert response.error_code == INVALID_TIMESTAMP
    assert [error.batch_index for error in response.record_errors] == [0]


def test_unknown_topic_and_partition_are_rejected(connection: RawConnection, topic: str) -> None:
    valid = HandMadeBatch().build()
    assert code_of(connection, topic, valid) == UNKNOWN_TOPIC_OR_PARTITION
    create_topic(connection, topic)
    assert code_of(connection, topic, valid, partition=1) == UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(connection, topic, valid, partition=-1) == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("acks", [5, -2, 2, 32_767])
def test_invalid_acks_are_rejected(connection: RawConnection, bootstrap: str, topic: str, acks: int) -> None:
    create_topic(connection, topic)
    assert code_of(connection, topic, HandMadeBatch().build(), acks=acks) == INVALID_REQUIRED_ACKS
    assert stored_batches(bootstrap, topic) == b""


def test_valid_produce_with_acks_0_gets_no_response(
    connection: RawConnection, bootstrap: str, topic: str
) -> None:
    create_topic(connection, topic)
    for _ in range(3):
        connection.request(produce_request(topic, HandMadeBatch().build(), acks=0))
    # The next response on the connection belongs to the next request that expects one.
    sent = connection.request(fetch_request(topic))
    correlation_id, response = connection.response(fetch_request(topic))
    assert correlation_id == sent
    assert [base for base, *_ in batch_headers(fetched_partition(response).records)] == [0, 1, 2]


def test_invalid_produce_with_acks_0_closes_the_connection(bootstrap: str, topic: str) -> None:
    with RawConnection(bootstrap) as closing:
        create_topic(closing, topic)
        closing.request(produce_request(topic, HandMadeBatch(crc=1).build(), acks=0))
        assert closing.is_closed_by_broker()
    assert stored_batches(bootstrap, topic) == b""


def test_produce_v0_with_acks_0_gets_no_response(
    connection: RawConnection, bootstrap: str, topic: str
) -> None:
    create_topic(connection, topic)
    connection.send_frame(header_v1(PRODUCE, 0) + old_produce_body(topic, old_message(b"old")))
    connection.exchange(metadata_request())
    ((base, _, count, _),) = batch_headers(stored_batches(bootstrap, topic))
    assert (base, count) == (0, 1)


def old_message(value: bytes) -> bytes:
    """Build a message of magic 0 without key."""
    body = struct.pack(">bb", 0, 0) + struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def old_produce_body(topic: str, messages: bytes) -> bytes:
    """Build a Produce v0 body for partition 0 with acks=0."""
    name = topic.encode()
    return (
        struct.pack(">hiih", 0, 1000, 1, len(name))
        + name
        + struct.pack(">iii", 1, 0, len(messages))
        + messages
    )


def sequenced(producer_id: int, sequence: int, producer_epoch: int = 0, count: int = 1) -> bytes:
    records = [record(number, f"{sequence + number}".encode()) for number in range(count)]
    return HandMadeBatch(
        records=records, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence
    ).build()


@pytest.fixture
def producer_id(connection: RawConnection) -> int:
    request = kio_requests("init_producer_id", 4).InitProducerIdRequest(
        transactional_id=None, transaction_timeout=timedelta(seconds=60)
    )
    response = connection.exchange(request)
    while response.error_code == COORDINATOR_LOAD_IN_PROGRESS:
        time.sleep(0.05)
        response = connection.exchange(request)
    assert response.error_code == 0
    assert response.producer_epoch == 0
    return int(response.producer_id)


def test_duplicate_batch_gets_its_original_offset_and_is_stored_once(
    connection: RawConnection, bootstrap: str, topic: str, producer_id: int
) -> None:
    create_topic(connection, topic)
    for sequence in (0, 2, 4):
        assert code_of(connection, topic, sequenced(producer_id, sequence, count=2)) == 0
    for sequence in (0, 2, 4):
        again = produced_partition(
            connection.exchange(produce_request(topic, sequenced(producer_id, sequence, count=2)))
        )
        assert (again.error_code, again.base_offset) == (0, sequence)
    assert [base for base, *_ in batch_headers(stored_batches(bootstrap, topic))] == [0, 2, 4]


def test_sequence_gap_is_rejected(connection: RawConnection, topic: str, producer_id: int) -> None:
    create_topic(connection, topic)
    assert code_of(connection, topic, sequenced(producer_id, 0)) == 0
    assert code_of(connection, topic, sequenced(producer_id, 5)) == OUT_OF_ORDER_SEQUENCE
    assert code_of(connection, topic, sequenced(producer_id, 1)) == 0


def test_older_producer_epoch_is_fenced(connection: RawConnection, topic: str, producer_id: int) -> None:
    create_topic(connection, topic)
    assert code_of(connection, topic, sequenced(producer_id, 0, producer_epoch=3)) == 0
    assert code_of(connection, topic, sequenced(producer_id, 1, producer_epoch=2)) == INVALID_PRODUCER_EPOCH


def test_unknown_producer_may_start_with_any_sequence(
    connection: RawConnection, topic: str, producer_id: int
) -> None:
    create_topic(connection, topic)
    assert code_of(connection, topic, sequenced(producer_id, 41)) == 0
    assert code_of(connection, topic, sequenced(producer_id, 42)) == 0
