"""SIGTERM: requests in progress are answered, acknowledged records are kept, shutdown is prompt."""

from __future__ import annotations

import time

import pytest
from tests.support.broker import IS_FOREIGN
from tests.support.fixtures import StartBroker
from tests.support.kio_requests import (
    create_topic,
    fetch_request,
    fetched_partition,
    produce_request,
    produced_partition,
    stored_batches,
    wait_until_led,
)
from tests.support.raw_connection import ConnectionEnded, RawConnection
from tests.support.record_batches import HandMadeBatch, batch_headers, record

STOP_SECONDS_MAX = 15


def test_acknowledged_records_survive_a_clean_restart(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker()
    with RawConnection(broker.bootstrap) as connection:
        create_topic(connection, topic)
        messages = [
            produce_request(topic, HandMadeBatch(records=[record(0, b"%d" % n)]).build()) for n in range(300)
        ]
        for message in messages:
            connection.request(message)
        offsets = [produced_partition(connection.response(messages[0])[1]).base_offset]
        broker.terminate()
        try:
            while True:
                response = produced_partition(connection.response(messages[0])[1])
                if response.error_code == 0:
                    offsets.append(response.base_offset)
        except (ConnectionEnded, ConnectionResetError):
            pass
    broker.wait()
    assert offsets == list(range(len(offsets)))
    broker.start()
    wait_until_led(broker.bootstrap, topic)
    kept = [base for base, *_ in batch_headers(stored_batches(broker.bootstrap, topic))]
    assert kept[: len(offsets)] == offsets
    assert kept == list(range(len(kept)))


def test_long_poll_does_not_delay_shutdown(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker()
    with RawConnection(broker.bootstrap) as connection:
        create_topic(connection, topic)
        connection.request(fetch_request(topic, 0, wait_ms=60_000))
        time.sleep(0.3)
        start = time.monotonic()
        broker.terminate()
        broker.wait()
        assert time.monotonic() - start < STOP_SECONDS_MAX


@pytest.mark.skipif(IS_FOREIGN, reason="Kafka closes the connection of a long poll without a response")
def test_long_poll_is_answered_on_shutdown(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker()
    with RawConnection(broker.bootstrap) as connection:
        create_topic(connection, topic)
        long_poll = fetch_request(topic, 0, wait_ms=60_000)
        sent = connection.request(long_poll)
        time.sleep(0.3)
        broker.terminate()
        correlation_id, response = connection.response(long_poll)
        assert correlation_id == sent
        assert bytes(fetched_partition(response).records or b"") == b""
        assert connection.is_closed_by_broker()


def test_second_broker_on_the_same_data_fails_to_start(start_broker: StartBroker, topic: str) -> None:
    first = start_broker()
    second = type(first)(first.directory, first.settings)
    assert second.port != first.port
    status, output = second.run_to_exit()
    assert status not in (0, None)
    if not IS_FOREIGN:
        assert "Traceback" not in output
        assert str(first.directory) in output
    with RawConnection(first.bootstrap) as connection:
        create_topic(connection, topic)
