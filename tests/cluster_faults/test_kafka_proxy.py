"""The Kafka proxy before a server that records: without a rule nothing is changed, and each rule works."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Iterator

import pytest
from tests.cluster_faults.harness.kafka_proxy import KafkaProxy
from tests.cluster_faults.harness.proxy_rule import Action, Rule, Source
from tests.cluster_faults.harness.recording_server import RecordingServer
from tests.cluster_faults.harness.request_header import Api, RequestHeader
from tests.support.raw_connection import ConnectionEnded, RawConnection

BROKER = 1
SECONDS = 0.3
SILENCE_SECONDS = 0.3


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with RecordingServer() as server:
        yield server


@pytest.fixture
def proxy(server: RecordingServer) -> Iterator[KafkaProxy]:
    proxy = KafkaProxy({BROKER: server.port})
    yield proxy
    proxy.close()


@pytest.fixture
def connection(proxy: KafkaProxy) -> Iterator[RawConnection]:
    with connect(proxy) as connection:
        yield connection


def connect(proxy: KafkaProxy) -> RawConnection:
    return RawConnection(f"127.0.0.1:{proxy.ports[BROKER]}")


def request(api: int, number: int, client_id: str = "app", content: bytes = b"") -> bytes:
    name = client_id.encode()
    return struct.pack(">hhih", api, 3, number, len(name)) + name + content


def seconds_of_exchange(connection: RawConnection, frame: bytes) -> float:
    began = time.monotonic()
    connection.send_frame(frame)
    assert connection.receive_frame() == frame[4:]
    return time.monotonic() - began


def is_silent(connection: RawConnection) -> bool:
    """Return whether nothing comes, not even an end."""
    connection._socket.settimeout(SILENCE_SECONDS)
    try:
        connection.receive(1)
    except TimeoutError:
        return True
    return False


def test_header_is_parsed() -> None:
    frame = b"\x00\x00\x00\x11" + request(26, 7, "broker-2")
    assert RequestHeader.parse(frame) == (26, 3, 7, "broker-2")
    assert RequestHeader.parse(frame).is_of_broker
    nameless = struct.pack(">ihhih", 10, 0, 9, 1, -1)
    assert RequestHeader.parse(nameless) == (0, 9, 1, "")


def test_without_rules_every_byte_is_passed_on(
    server: RecordingServer, proxy: KafkaProxy, connection: RawConnection
) -> None:
    rng = random.Random(7)
    frames = [request(rng.randrange(60), number, content=rng.randbytes(number**3)) for number in range(60)]
    for frame in frames:
        connection.send_frame(frame)
    assert [connection.receive_frame() for _ in frames] == [frame[4:] for frame in frames]
    assert server.frames == frames
    connection.finish_sending()
    assert server.wait_for_end() == "closed"
    assert connection.is_closed_by_broker()


def test_rule_concerns_only_what_it_names(
    server: RecordingServer, proxy: KafkaProxy, connection: RawConnection
) -> None:
    rule = Rule(Action.DOUBLE, (Api.END_TXN,), (BROKER,), Source.BROKERS, count=1)
    with proxy.rule(rule) as in_force, proxy.rule(Rule(Action.DOUBLE, brokers=(2,))) as other:
        for number, (api, client_id) in enumerate(
            [
                (Api.END_TXN, "app"),
                (Api.FETCH, "broker-1"),
                (Api.END_TXN, "broker-1"),
                (Api.END_TXN, "broker-1"),
            ]
        ):
            seconds_of_exchange(connection, request(api, number, client_id))
        assert (in_force.hits, other.hits) == (1, 0)
    seconds_of_exchange(connection, request(Api.END_TXN, 9, "broker-1"))
    assert [RequestHeader.parse(b"1234" + frame).correlation_id for frame in server.frames] == [
        0,
        1,
        2,
        2,
        3,
        9,
    ]
    assert in_force.hits == 1


def test_every_other_request_is_changed(proxy: KafkaProxy, connection: RawConnection) -> None:
    with proxy.rule(Rule(Action.DOUBLE, every=2)) as in_force:
        for number in range(5):
            seconds_of_exchange(connection, request(0, number))
        assert in_force.hits == 2


@pytest.mark.parametrize("action", [Action.DELAY_REQUEST, Action.DELAY_RESPONSE])
def test_delays(
    action: Action, server: RecordingServer, proxy: KafkaProxy, connection: RawConnection
) -> None:
    with proxy.rule(Rule(action, (Api.PRODUCE,), seconds=SECONDS)):
        assert seconds_of_exchange(connection, request(Api.FETCH, 0)) < SECONDS
        began = time.monotonic()
        connection.send_frame(request(Api.PRODUCE, 1))
        server.wait_for_frames(2)
        assert (time.monotonic() - began >= SECONDS) == (action is Action.DELAY_REQUEST)
        connection.receive_frame()
        assert time.monotonic() - began >= SECONDS
    assert seconds_of_exchange(connection, request(Api.PRODUCE, 2)) < SECONDS


def test_delayed_request_arrives_after_its_sender_has_gone(
    server: RecordingServer, proxy: KafkaProxy
) -> None:
    with proxy.rule(Rule(Action.DELAY_REQUEST, seconds=SECONDS)) as in_force:
        with connect(proxy) as connection:
            connection.send_frame(request(Api.PRODUCE, 1))
            in_force.wait_for_hits()
        assert server.frames == []
        server.wait_for_frames(1)


def test_replay_has_a_connection_of_its_own(
    server: RecordingServer, proxy: KafkaProxy, connection: RawConnection
) -> None:
    frame = request(Api.PRODUCE, 1)
    with proxy.rule(Rule(Action.REPLAY, seconds=SECONDS, count=1)):
        seconds_of_exchange(connection, frame)
        assert len(server.frames) == 1
        server.wait_for_frames(2)
    assert [len(data) for data in server.received] == [4 + len(frame)] * 2
    seconds_of_exchange(connection, request(Api.PRODUCE, 2))


def test_dropped_response_closes_the_connection(
    server: RecordingServer, proxy: KafkaProxy, connection: RawConnection
) -> None:
    with proxy.rule(Rule(Action.DROP_RESPONSE)):
        connection.send_frame(request(Api.PRODUCE, 1))
        assert connection.is_closed_by_broker()
    assert len(server.frames) == 1


@pytest.mark.parametrize(("action", "arrived"), [(Action.LOSE_RESPONSE, 1), (Action.STALL, 0)])
def test_half_open_connection_is_silent_until_the_rule_ends(
    action: Action, arrived: int, server: RecordingServer, proxy: KafkaProxy, connection: RawConnection
) -> None:
    seconds_of_exchange(connection, request(Api.FETCH, 0))
    with proxy.rule(Rule(action, (Api.PRODUCE,))) as in_force:
        connection.send_frame(request(Api.PRODUCE, 1))
        in_force.wait_for_hits()
        assert is_silent(connection)
        connection.send_frame(request(Api.FETCH, 2))
        assert is_silent(connection)
        assert len(server.frames) == 1 + arrived
        assert server.ends == [""]
    assert connection.is_closed_by_broker()
    server.wait_for_end()


def test_reset_comes_amid_a_request(
    server: RecordingServer, proxy: KafkaProxy, connection: RawConnection
) -> None:
    frame = request(Api.PRODUCE, 1, content=bytes(1_000))
    with proxy.rule(Rule(Action.RESET)):
        connection.send_frame(frame)
        with pytest.raises(ConnectionResetError):
            connection._socket.recv(1)
        assert server.wait_for_end() == "reset"
    assert len(server.received[0]) == (4 + len(frame)) // 2


def test_limited_bandwidth(proxy: KafkaProxy, connection: RawConnection) -> None:
    frame = request(Api.PRODUCE, 1, content=bytes(5_000))
    with proxy.rule(Rule(Action.LIMIT, bytes_per_second=50_000)):
        assert 2 * len(frame) / 50_000 <= seconds_of_exchange(connection, frame) < 2.0
    assert seconds_of_exchange(connection, frame) < 0.1


def test_server_that_is_away_closes_the_connection(proxy: KafkaProxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    other = KafkaProxy({BROKER: port})
    try:
        with connect(other) as connection, pytest.raises((ConnectionEnded, ConnectionResetError)):
            connection.receive_frame()
    finally:
        other.close()
