"""Two thousand partitions on one broker: described, written to, read back."""

from __future__ import annotations

import pytest
from tests.compat.clients.interface import Client, Message
from tests.compat.conftest import Clients
from tests.support.fixtures import new_topic_name

PARTITIONS = 2_000


@pytest.fixture(scope="module")
def wide(clients: Clients) -> str:
    """A topic of two thousand partitions, one for all clients."""
    name = new_topic_name("wide")
    clients["confluent-kafka"].create_topic(name, partitions=PARTITIONS)
    return name


@pytest.mark.timeout(180)
def test_two_thousand_partitions_are_described_written_and_read(client: Client, wide: str) -> None:
    assert client.partitions_of(wide) == list(range(PARTITIONS))
    before = client.offsets(wide, PARTITIONS - 1)[1]
    mark = f"{client.name} ".encode()
    messages = [Message(mark + str(number).encode(), partition=number) for number in range(PARTITIONS)]
    client.produce(wide, messages)
    assert client.offsets(wide, PARTITIONS - 1)[1] == before + 1
    reader = client.open_reader(wide, range(PARTITIONS), start=before)
    try:
        received = reader.read(PARTITIONS, within_seconds=90)
    finally:
        reader.close()
    assert sorted((item.partition, item.value) for item in received) == [
        (message.partition, message.value) for message in messages
    ]
