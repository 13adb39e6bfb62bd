"""Pipelining and many connections: order, fairness and limits."""

from __future__ import annotations

import time

from tests.support.fixtures import StartBroker
from tests.support.kio_requests import (
    create_topic,
    fetch_request,
    fetched_partition,
    metadata_request,
    produce_request,
    produced_partition,
)
from tests.support.raw_connection import ConnectionEnded, RawConnection
from tests.support.record_batches import HandMadeBatch, record


def test_pipelined_requests_are_answered_in_order(bootstrap: str, topic: str) -> None:
    with RawConnection(bootstrap) as connection:
        create_topic(connection, topic)
        messages = []
        for number in range(60):
            requests = (
                produce_request(topic, HandMadeBatch(records=[record(0, b"%d" % number)]).build()),
                metadata_request(topic),
                fetch_request(topic, 0),
            )
            messages.append(requests[number % 3])
        sent = [connection.request(message) for message in messages]
        responses = [connection.response(message) for message in messages]
    assert [correlation_id for correlation_id, _ in responses] == sent
    assert [produced_partition(body).base_offset for _, body in responses[::3]] == list(range(20))


def test_response_after_a_long_poll_keeps_request_order(bootstrap: str, topic: str) -> None:
    with RawConnection(bootstrap) as connection, RawConnection(bootstrap) as other:
        create_topic(connection, topic)
        long_poll = fetch_request(topic, 0, wait_ms=10_000)
        first = connection.request(long_poll)
        second = connection.request(metadata_request())
        assert (
            produced_partition(other.exchange(produce_request(topic, HandMadeBatch().build()))).error_code
            == 0
        )
        correlation_id, response = connection.response(long_poll)
        assert correlation_id == first
        assert fetched_partition(response).records
        assert connection.response(metadata_request())[0] == second


def test_long_poll_does_not_block_other_connections(bootstrap: str, topic: str) -> None:
    with RawConnection(bootstrap) as waiting, RawConnection(bootstrap) as other:
        create_topic(waiting, topic)
        waiting.request(fetch_request(topic, 0, wait_ms=10_000))
        start = time.monotonic()
        for _ in range(20):
            other.exchange(metadata_request(topic))
        assert time.monotonic() - start < 5


def test_long_poll_without_data_ends_after_max_wait(bootstrap: str, topic: str) -> None:
    with RawConnection(bootstrap) as connection:
        create_topic(connection, topic)
        start = time.monotonic()
        response = fetched_partition(connection.exchange(fetch_request(topic, 0, wait_ms=400)))
        waited = time.monotonic() - start
    assert (response.error_code, bytes(response.records or b"")) == (0, b"")
    assert 0.35 < waited < 5


def test_long_poll_waits_for_min_bytes(bootstrap: str, topic: str) -> None:
    with RawConnection(bootstrap) as waiting, RawConnection(bootstrap) as other:
        create_topic(waiting, topic)
        batch = HandMadeBatch(records=[record(0, b"x" * 1000)]).build()
        long_poll = fetch_request(topic, 0, wait_ms=10_000, bytes_min=2_500)
        waiting.request(long_poll)
        for _ in range(3):
            other.exchange(produce_request(topic, batch))
        response = fetched_partition(waiting.response(long_poll)[1])
    assert len(response.records) >= 2_500


def test_slow_reader_does_not_block_other_connections(bootstrap: str, topic: str) -> None:
    with RawConnection(bootstrap, receive_buffer_bytes=4096) as slow, RawConnection(bootstrap) as quick:
        create_topic(slow, topic)
        batch = HandMadeBatch(records=[record(0, b"x" * 900_000)]).build()
        for _ in range(8):
            assert produced_partition(quick.exchange(produce_request(topic, batch))).error_code == 0
        correlation_ids = [slow.request(fetch_request(topic, 0)) for _ in range(30)]
        start = time.monotonic()
        for _ in range(20):
            assert len(fetched_partition(quick.exchange(fetch_request(topic, 7))).records) > 900_000
        assert time.monotonic() - start < 10
        for correlation_id in correlation_ids[:3]:
            responses, body = slow.response(fetch_request(topic, 0))
            assert responses == correlation_id
            assert len(fetched_partition(body).records) > 7_000_000


def test_connection_lost_mid_request_does_not_affect_others(bootstrap: str, topic: str) -> None:
    with RawConnection(bootstrap) as good:
        create_topic(good, topic)
        for size in range(1, 60):
            with RawConnection(bootstrap) as broken:
                broken.send((b"\x00\x00\x00\x50" + b"\x00\x03\x00\x01" + bytes(80))[:size])
            assert (
                produced_partition(good.exchange(produce_request(topic, HandMadeBatch().build()))).error_code
                == 0
            )


def test_half_closed_connection_is_closed(bootstrap: str) -> None:
    with RawConnection(bootstrap) as connection:
        connection.request(metadata_request())
        connection.finish_sending()
        try:
            connection.response(metadata_request())
        except ConnectionEnded:
            pass
        else:
            assert connection.is_closed_by_broker()


def is_answered(connection: RawConnection) -> bool:
    try:
        return bool(connection.exchange(metadata_request()).brokers)
    except (ConnectionEnded, BrokenPipeError, ConnectionResetError):
        return False


def test_connections_per_address_are_limited(start_broker: StartBroker) -> None:
    limit = 6
    broker = start_broker({"max.connections.per.ip": str(limit)})
    connections = [RawConnection(broker.bootstrap) for _ in range(12)]
    try:
        accepted = [connection for connection in connections if is_answered(connection)]
        # A broker may use a few connections to itself; none may exceed the limit.
        assert limit - 3 <= len(accepted) <= limit
        accepted.pop().close()
        deadline = time.monotonic() + 10
        while True:
            new_connection = RawConnection(broker.bootstrap)
            connections.append(new_connection)
            if is_answered(new_connection):
                break
            assert time.monotonic() < deadline, "no connection was accepted after one was closed"
            time.sleep(0.1)
    finally:
        for connection in connections:
            connection.close()


def test_idle_connection_is_closed_and_a_busy_one_is_not(start_broker: StartBroker) -> None:
    broker = start_broker({"connections.max.idle.ms": "1500"})
    with RawConnection(broker.bootstrap) as idle, RawConnection(broker.bootstrap) as busy:
        assert is_answered(idle)
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            assert is_answered(busy)
            time.sleep(0.2)
        assert idle.is_closed_by_broker(within_seconds=10)
        assert is_answered(busy)


def test_request_above_the_size_limit_closes_the_connection(start_broker: StartBroker) -> None:
    broker = start_broker({"socket.request.max.bytes": "20000"})
    with RawConnection(broker.bootstrap) as connection:
        assert is_answered(connection)
        connection.send_frame(bytes(20_001))
        assert connection.is_closed_by_broker()
    with RawConnection(broker.bootstrap) as connection:
        assert is_answered(connection)


def test_hundreds_of_connections_are_answered(bootstrap: str) -> None:
    connections = [RawConnection(bootstrap) for _ in range(300)]
    try:
        for connection in connections:
            connection.request(metadata_request())
        for connection in reversed(connections):
            assert connection.response(metadata_request())[1].brokers
    finally:
        for connection in connections:
            connection.close()
