"""Long polling: a waiting consumer gets a record at once, not at the end of fetch.max.wait.ms."""

from __future__ import annotations

import statistics
import threading
import time

from tests.compat.clients.interface import LATEST, Client, Message, Received

WAIT_MS = 5_000
ROUNDS = 15


def test_record_reaches_a_waiting_consumer_in_milliseconds(client: Client, topic: str) -> None:
    client.create_topic(topic)
    reader = client.open_reader(topic, start=LATEST, wait_ms=WAIT_MS)
    try:
        client.produce(topic, [Message(b"warm")])
        assert len(reader.read(1)) == 1
        delays = [delay_of_one(client, topic, reader.read) for _ in range(ROUNDS)]
    finally:
        reader.close()
    # A broker that checks only at the deadline would need seconds.
    assert statistics.median(delays) < 0.1, delays


def delay_of_one(client: Client, topic: str, read: object) -> float:
    """Return the seconds from the acknowledgement of a record until a waiting consumer has it."""
    arrived: list[tuple[float, list[Received]]] = []

    def wait() -> None:
        assert callable(read)
        arrived.append((0.0, read(1)))
        arrived[0] = (time.monotonic(), arrived[0][1])

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.03)
    client.produce(topic, [Message(b"now")])
    sent = time.monotonic()
    waiting.join()
    assert [item.value for item in arrived[0][1]] == [b"now"]
    return arrived[0][0] - sent


def test_poll_of_an_empty_topic_waits_without_an_error(client: Client, topic: str) -> None:
    client.create_topic(topic)
    reader = client.open_reader(topic, start=LATEST, wait_ms=300)
    try:
        assert reader.read(1, within_seconds=1.2) == []
    finally:
        reader.close()
