"""Many requests on one connection, many connections on one broker: order, fairness and limits."""

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
            kinds = (
                produce_request(topic, HandMadeBatch(records=[record(0, b"%d" % number)]).build()),
                metadata_request(topic),
                fetch_request(topic, 0),
            )
            messages.append(kinds[number % 3])
        sent = [connection.request(message) for message in messages]
        answered = [connection.response(message) for message in messages]
    assert [correlation_id for correlation_id, _ in answered] == sent
    assert [produced_partition(body).base_offset for _, body in answered[::3]] == list(range(20))


def test_answer_behind_a_long_poll_waits_for_its_turn(bootstrap: str, topic: str) -> None:
    with RawConnection(bootstrap) as connection, RawConnection(bootstrap) as other:
        create_topic(connection, topic)
        polling = fetch_request(topic, 0, wait_ms=10_000)
        first = connection.request(polling)
        second = connection.request(metadata_request())
        assert (
            produced_partition(other.exchange(produce_request(topic, HandMadeBatch().build()))).error_code
            == 0
        )
        correlation_id, answer = connection.response(polling)
        assert correlation_id == first
        assert fetched_partition(answer).records
        assert connection.response(metadata_request())[0] == second


def test_long_poll_of_one_connection_holds_up_no_other(bootstrap: str, topic: str) -> None:
    with RawConnection(bootstrap) as waiting, RawConnection(bootstrap) as other:
        create_topic(waiting, topic)
        waiting.request(fetch_request(topic, 0, wait_ms=10_000))
        began = time.monotonic()
        for _ in range(20):
            other.exchange(metadata_request(topic))
        assert time.monotonic() - began < 5


def test_long_poll_without_data_ends_when_its_time_is_up(bootstrap: str, topic: str) -> None:
    with RawConnection(bootstrap) as connection:
        create_topic(connection, topic)
        began = time.monotonic()
        answer = fetched_partition(connection.exchange(fetch_request(topic, 0, wait_ms=400)))
        waited = time.monotonic() - began
    assert (answer.error_code, bytes(answer.records or b"")) == (0, b"")
    assert 0.35 < waited < 5


def test_long_poll_waits_for_the_bytes_it_asked_for(bootstrap: str, topic: str) -> None:
    with RawConnection(bootstrap) as waiting, RawConnection(bootstrap) as other:
        create_topic(waiting, topic)
        batch = HandMadeBatch(records=[record(0, b"x" * 1000)]).build()
        polling = fetch_request(topic, 0, wait_ms=10_000, bytes_min=2_500)
        waiting.request(polling)
        for _ in range(3):
            other.exchange(produce_request(topic, batch))
        answer = fetched_partition(waiting.response(polling)[1])
    assert len(answer.records) >= 2_500


def test_reader_that_does_not_read_holds_up_no_other(bootstrap: str, topic: str) -> None:
    with RawConnection(bootstrap, receive_buffer_bytes=4096) as slow, RawConnection(bootstrap) as quick:
        create_topic(slow, topic)
        batch = HandMadeBatch(records=[record(0, b"x" * 900_000)]).build()
        for _ in range(8):
            assert produced_partition(quick.exchange(produce_request(topic, batch))).error_code == 0
        asked = [slow.request(fetch_request(topic, 0)) for _ in range(30)]
        began = time.monotonic()
        for _ in range(20):
            assert len(fetched_partition(quick.exchange(fetch_request(topic, 7))).records) > 900_000
        assert time.monotonic() - began < 10
        for correlation_id in asked[:3]:
            answered, body = slow.response(fetch_request(topic, 0))
            assert answered == correlation_id
            assert len(fetched_partition(body).records) > 7_000_000


def test_connection_that_breaks_off_in_mid_request_disturbs_no_other(bootstrap: str, topic: str) -> None:
    with RawConnection(bootstrap) as good:
        create_topic(good, topic)
        for size in range(1, 60):
            with RawConnection(bootstrap) as broken:
                broken.send((b"\x00\x00\x00\x50" + b"\x00\x03\x00\x01" + bytes(80))[:size])
            assert (
                produced_partition(good.exchange(produce_request(topic, HandMadeBatch().build()))).error_code
                == 0
            )


def test_connection_that_is_half_closed_is_let_go(bootstrap: str) -> None:
    with RawConnection(bootstrap) as connection:
        connection.request(metadata_request())
        connection.finish_sending()
        try:
            connection.response(metadata_request())
        except ConnectionEnded:
            pass
        else:
            assert connection.is_closed_by_broker()


def answers(connection: RawConnection) -> bool:
    try:
        return bool(connection.exchange(metadata_request()).brokers)
    except (ConnectionEnded, BrokenPipeError, ConnectionResetError):
        return False


def test_connections_of_one_address_are_limited(start_broker: StartBroker) -> None:
    limit = 6
    broker = start_broker({"max.connections.per.ip": str(limit)})
    opened = [RawConnection(broker.bootstrap) for _ in range(12)]
    try:
        alive = [connection for connection in opened if answers(connection)]
        # A broker may use a few connections to itself; none may go beyond the limit.
        assert limit - 3 <= len(alive) <= limit
        alive.pop().close()
        deadline = time.monotonic() + 10
        while True:
            fresh = RawConnection(broker.bootstrap)
            opened.append(fresh)
            if answers(fresh):
                break
            assert time.monotonic() < deadline, "no connection was let in after one was closed"
            time.sleep(0.1)
    finally:
        for connection in opened:
            connection.close()


def test_idle_connection_is_closed_and_a_busy_one_is_not(start_broker: StartBroker) -> None:
    broker = start_broker({"connections.max.idle.ms": "1500"})
    with RawConnection(broker.bootstrap) as idle, RawConnection(broker.bootstrap) as busy:
        assert answers(idle)
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            assert answers(busy)
            time.sleep(0.2)
        assert idle.is_closed_by_broker(within_seconds=10)
        assert answers(busy)


def test_request_above_the_size_limit_closes_the_connection(start_broker: StartBroker) -> None:
    broker = start_broker({"socket.request.max.bytes": "20000"})
    with RawConnection(broker.bootstrap) as connection:
        assert answers(connection)
        connection.send_frame(bytes(20_001))
        assert connection.is_closed_by_broker()
    with RawConnection(broker.bootstrap) as connection:
        assert answers(connection)


def test_hundreds_of_connections_are_answered(bootstrap: str) -> None:
    opened = [RawConnection(bootstrap) for _ in range(300)]
    try:
        for connection in opened:
            connection.request(metadata_request())
        for connection in reversed(opened):
            assert connection.response(metadata_request())[1].brokers
    finally:
        for connection in opened:
            connection.close()
