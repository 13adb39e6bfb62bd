"""Start positions of consumers, and offset resets."""

from __future__ import annotations

import pytest
from tests.compat.clients.interface import EARLIEST, LATEST, Client, ErrorResponse, Message, read_all

OFFSET_OUT_OF_RANGE = 1
TIME = 1_700_000_000_000


@pytest.fixture
def ten(client: Client, topic: str) -> str:
    """A topic with ten records, a second apart."""
    client.create_topic(topic)
    messages = [Message(str(number).encode(), timestamp_ms=TIME + 1000 * number) for number in range(10)]
    client.produce(topic, messages)
    return topic


def test_earliest_reads_all_records(client: Client, ten: str) -> None:
    assert [item.offset for item in read_all(client, ten, 10, start=EARLIEST)] == list(range(10))


def test_latest_reads_only_new_records(client: Client, ten: str) -> None:
    reader = client.open_reader(ten, start=LATEST)
    try:
        client.produce(ten, [Message(b"after")])
        assert [(record.offset, record.value) for record in reader.read(1)] == [(10, b"after")]
    finally:
        reader.close()


@pytest.mark.parametrize("offset", [1, 5, 9])
def test_reading_starts_at_an_offset_within_a_batch(client: Client, ten: str, offset: int) -> None:
    assert [item.offset for item in read_all(client, ten, 10 - offset, start=offset)] == list(
        range(offset, 10)
    )


def test_offset_for_timestamp_is_the_first_record_not_older(client: Client, ten: str) -> None:
    assert client.offset_at(ten, 0, TIME - 5) == 0
    assert client.offset_at(ten, 0, TIME + 3000) == 3
    assert client.offset_at(ten, 0, TIME + 3001) == 4
    assert client.offset_at(ten, 0, TIME + 10_000) is None


def test_reading_from_a_timestamp_starts_at_its_record(client: Client, ten: str) -> None:
    start = client.offset_at(ten, 0, TIME + 6500)
    assert start == 7
    assert [item.timestamp_ms for item in read_all(client, ten, 3, start=start)] == [
        TIME + 1000 * n for n in (7, 8, 9)
    ]


def test_beginning_and_end_offsets_are_listed(client: Client, ten: str) -> None:
    assert client.offsets(ten) == (0, 10)


def test_delete_records_moves_the_beginning_offset(client: Client, ten: str) -> None:
    assert client.delete_records(ten, 0, 4) == 4
    assert client.offsets(ten) == (4, 10)
    assert [item.offset for item in read_all(client, ten, 6)] == [4, 5, 6, 7, 8, 9]


def test_deleting_all_records_keeps_the_end_offset(client: Client, ten: str) -> None:
    assert client.delete_records(ten, 0, -1) == 10
    assert client.offsets(ten) == (10, 10)
    assert client.produce(ten, [Message(b"next")]) == [10]


def test_deleting_beyond_the_end_fails(client: Client, ten: str) -> None:
    with pytest.raises(ErrorResponse) as error:
        client.delete_records(ten, 0, 11)
    assert error.value.code == OFFSET_OUT_OF_RANGE
    assert client.offsets(ten) == (0, 10)


def test_offset_beyond_the_end_resets_to_earliest(client: Client, ten: str) -> None:
    reader = client.open_reader(ten, start=5_000, reset="earliest")
    try:
        assert [record.offset for record in reader.read(10)] == list(range(10))
    finally:
        reader.close()


def test_offset_before_the_beginning_resets_to_earliest(client: Client, ten: str) -> None:
    client.delete_records(ten, 0, 6)
    reader = client.open_reader(ten, start=2, reset="earliest")
    try:
        assert [record.offset for record in reader.read(4)] == [6, 7, 8, 9]
    finally:
        reader.close()


def test_offset_beyond_the_end_resets_to_latest(client: Client, ten: str) -> None:
    reader = client.open_reader(ten, start=5_000, reset="latest")
    try:
        assert reader.read(1, within_seconds=1.5) == []
        client.produce(ten, [Message(b"after")])
        assert [record.offset for record in reader.read(1)] == [10]
    finally:
        reader.close()


def test_offset_out_of_range_without_reset_raises(client: Client, ten: str) -> None:
    reader = client.open_reader(ten, start=5_000, reset="none")
    try:
        with pytest.raises(ErrorResponse) as error:
            reader.read(1, within_seconds=10)
        assert error.value.code == OFFSET_OUT_OF_RANGE
    finally:
        reader.close()
