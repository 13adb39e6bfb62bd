"""Listeners: connection quotas and idle connections."""

import pytest

from odradek.broker.network.connection_scheduler import ConnectionScheduler
from odradek.broker.network.listener import (
    DELAYED_CLOSES_MAX,
    ConnectionQuotas,
    ConnectionThrottling,
    Listener,
)
from odradek.broker.network.memory_pool import RequestMemoryPool
from odradek.broker.network.request_queue import RequestQueue
from odradek.broker.network.session import Session
from odradek.broker.network.session_muter import SessionMuter
from odradek.broker.quotas.connection_rates import ConnectionRates
from odradek.config.broker import BY_NAME
from odradek.config.definition import parse_settings
from odradek.model.errors import RemoteProtocolViolation
from odradek.testing.clock import run_virtually
from odradek.testing.contracts.network_contract import Collector, until
from odradek.testing.entropy import SeededEntropy
from odradek.testing.network import MemoryNetwork
from odradek.timers.timing_wheel import TimingWheel


def make_listener(
    quotas: ConnectionQuotas,
    *,
    serves: bool = True,
    throttling: ConnectionThrottling | None = None,
    is_protected: bool = False,
) -> Listener:
    def make_session(connection, listener):
        return Session(
            connection,
            listener.name,
            lambda request, session: None,
            listener.on_session_closed,
            ConnectionScheduler(lambda: 0, lambda later: None),
            RequestQueue(10),
            RequestMemoryPool(1 << 20),
            frame_bytes_max=1000,
            in_flight_max=10,
        )

    listener = Listener("PLAINTEXT", quotas, make_session, throttling, lambda: is_protected)
    if serves:
        listener.serve()
    return listener


@pytest.fixture
def accept(new_connection):
    """Offer a connection to a listener; return it and its session, if accepted."""

    def offer(listener, host="10.0.0.1"):
        connection = new_connection(host)
        connection.receiver = listener._accept(connection)
        return connection, connection.receiver

    return offer


def test_connections_beyond_max_connections_are_rejected(accept):
    listener = make_listener(ConnectionQuotas(2, 100))
    _, first = accept(listener, "10.0.0.1")
    _, second = accept(listener, "10.0.0.2")
    _, three = accept(listener, "10.0.0.3")
    assert list(listener.sessions) == [first, second]
    assert three is None


def test_sessions_are_held_until_the_listener_serves(accept):
    listener = make_listener(ConnectionQuotas(10, 10), serves=False)
    _, early = accept(listener)
    assert early._in_flight_max == 0
    listener.serve()
    _, late = accept(listener)
    assert (early._in_flight_max, late._in_flight_max) == (10, 10)


def test_listeners_share_max_connections(accept):
    quotas = ConnectionQuotas(2, 100)
    first, second = make_listener(quotas), make_listener(quotas)
    accept(first)
    accept(second)
    assert accept(first)[1] is None
    assert accept(second)[1] is None


def test_clients_that_use_up_all_connections_do_not_cut_off_brokers(accept):
    quotas = ConnectionQuotas(2, 100, listener_max={"plaintext": 3})
    clients, brokers = make_listener(quotas), make_listener(quotas, is_protected=True)
    accept(clients)
    accept(clients)
    assert accept(clients)[1] is None
    assert [accept(brokers)[1] is not None for _ in range(4)] == [True, True, True, False]


def test_connections_per_host_are_limited(accept):
    listener = make_listener(ConnectionQuotas(100, 2))
    accept(listener, "10.0.0.1")
    accept(listener, "10.0.0.1")
    assert accept(listener, "10.0.0.1")[1] is None
    assert accept(listener, "10.0.0.2")[1] is not None


def test_overrides_replace_the_limit_of_a_host(accept):
    listener = make_listener(ConnectionQuotas(100, 1, {"10.0.0.1": 2, "10.0.0.9": 0}))
    accept(listener, "10.0.0.1")
    assert accept(listener, "10.0.0.1")[1] is not None
    assert accept(listener, "10.0.0.1")[1] is None
    assert accept(listener, "10.0.0.9")[1] is None
    accept(listener, "10.0.0.2")
    assert accept(listener, "10.0.0.2")[1] is None


def test_closed_connection_frees_its_slot(accept):
    quotas = ConnectionQuotas(1, 1)
    listener = make_listener(quotas)
    _, session = accept(listener)
    assert accept(listener)[1] is None
    session.connection_lost("reset")
    assert not listener.sessions
    assert accept(listener)[1] is not None
    assert quotas.total == 1


def test_host_counts_are_dropped_with_the_last_connection(accept):
    quotas = ConnectionQuotas(10, 10)
    listener = make_listener(quotas)
    for number in range(50):
        accept(listener, f"10.0.0.{number}")[0].close()
    assert quotas.total == 0
    assert not quotas.by_host
    quotas = ConnectionQuotas(10, 0)
    accept(make_listener(quotas), "10.0.0.1")
    assert not quotas.by_host, "rejected connections are not counted"


def test_idle_connection_is_closed_after_connections_max_idle_ms(accept):
    listener = make_listener(ConnectionQuotas(10, 10))
    connection, _ = accept(listener)
    listener.close_idle(1000, 500)
    listener.close_idle(1500, 500)
    assert not connection.closed
    listener.close_idle(1501, 500)
    assert connection.closed
    assert not listener.sessions


def test_connection_with_an_in_flight_request_is_not_idle(accept, make_frame):
    listener = make_listener(ConnectionQuotas(10, 10))
    connection, session = accept(listener)
    buffer = session.receive_buffer()
    data = make_frame(0)
    buffer[: len(data)] = data
    session.bytes_received(len(data))
    for now_ms in (1000, 2000, 3000):
        listener.close_idle(now_ms, 500)
    assert not connection.closed


def test_connection_with_occasional_requests_is_not_idle(accept, make_frame):
    listener = make_listener(ConnectionQuotas(10, 10))
    connection, session = accept(listener)
    for now_ms in range(0, 5000, 400):
        session.receive_buffer()[:1] = b"\0"
        session.active = True
        listener.close_idle(now_ms, 500)
    assert not connection.closed


def test_client_reading_its_response_slowly_is_not_idle(accept):
    listener = make_listener(ConnectionQuotas(10, 10))
    connection, _ = accept(listener)
    for left in range(20, 0, -1):
        connection.queued_bytes = left * 1000
        listener.close_idle((20 - left) * 1000, 500)
    assert not connection.closed


def test_client_that_stopped_reading_its_response_is_disconnected(accept):
    """Flushing would wait forever."""
    listener = make_listener(ConnectionQuotas(10, 10))
    connection, _ = accept(listener)
    connection.queued_bytes = 5000
    for now_ms in (1000, 1400, 1800, 2200):
        listener.close_idle(now_ms, 500)
    assert connection.closed == [False]


def test_listener_accepts_until_stopped():
    async def main():
        network = MemoryNetwork(SeededEntropy())
        listener = make_listener(ConnectionQuotas(1, 1))
        listener.replace_socket(await listener.bind(network.host("broker"), "broker", 9092))
        assert listener.port == 9092
        first, second = Collector(), Collector()
        dialler = network.host("client")
        await dialler.dial("broker", 9092, lambda _: first, 1000)
        await dialler.dial("broker", 9092, lambda _: second, 1000)
        await until(lambda: bool(second.lost))
        assert not first.lost, "the connection over the limit was rejected"
        listener.stop_accepting()
        with pytest.raises(ConnectionRefusedError):
            await dialler.dial("broker", 9092, lambda _: Collector(), 1000)
        assert len(listener.sessions) == 1

    run_virtually(main)


def test_client_that_reads_nothing_is_disconnected_after_a_protocol_violation(accept, make_frame):
    """Its session waits for the last responses to be read; the invalid request is not in flight."""
    listener = make_listener(ConnectionQuotas(10, 10))
    connection, session = accept(listener)
    connection.ends_at_once = False

    def begin(request, session):
        raise RemoteProtocolViolation("garbage")

    session.handle_request = begin
    data = make_frame(0)
    session.receive_buffer()[: len(data)] = data
    session.bytes_received(len(data))
    assert connection.closed == [True]
    connection.queued_bytes = 5000
    for now_ms in (1000, 1400, 1800, 2200):
        listener.close_idle(now_ms, 500)
    assert connection.closed == [True, False]


class FakeSocket:
    """Listening socket that records whether it accepts."""

    port = 9092

    def __init__(self) -> None:
        self.calls: list[str] = []

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")

    def close(self) -> None:
        self.calls.append("close")


class Throttled:
    """Listener with connection rates, on a time that the test advances."""

    def __init__(self, **settings: str) -> None:
        self.wheel, self.now = TimingWheel(0), 0
        raw_values = {name.replace("_", "."): value for name, value in settings.items()}
        self.rates = ConnectionRates(parse_settings(BY_NAME, {"quota.window.num": "2", **raw_values}))
        muter = SessionMuter(lambda: self.now, self.wheel, lambda deadline_ms: None)
        throttling = ConnectionThrottling(self.rates, muter, lambda: self.now)
        self.quotas = ConnectionQuotas(10_000, 10_000)
        self.listener = make_listener(self.quotas, throttling=throttling)
        self.socket = FakeSocket()
        self.listener.replace_socket(self.socket)

    def advance(self, now_ms: int) -> None:
        self.now = now_ms
        self.wheel.advance(now_ms)


def test_connection_above_the_rate_waits_and_so_does_the_listener(accept, make_frame):
    throttled = Throttled(max_connection_creation_rate="1")
    assert accept(throttled.listener)[1]._in_flight_max == 10
    assert throttled.socket.calls == []
    _, late = accept(throttled.listener)
    assert late._in_flight_max == 0
    assert throttled.socket.calls == ["pause"]
    throttled.advance(999)
    assert (late._in_flight_max, throttled.socket.calls) == (0, ["pause"])
    throttled.advance(1000)
    assert (late._in_flight_max, throttled.socket.calls) == (10, ["pause", "resume"])


def test_connection_above_the_rate_of_its_address_is_closed_after_a_delay(accept):
    throttled = Throttled()
    throttled.rates.set_ip_rate("10.0.0.1", 1)
    assert accept(throttled.listener)[1] is not None
    connection, receiver = accept(throttled.listener)
    assert receiver is not None, "the connection stays open"
    assert not isinstance(receiver, Session)
    assert throttled.quotas.total == 1
    receiver.bytes_received(1)
    assert connection.paused
    throttled.advance(999)
    assert not connection.closed
    throttled.advance(1000)
    assert connection.closed
    assert accept(throttled.listener, "10.0.0.2")[1] is not None


def test_connections_that_wait_for_their_close_are_bounded(accept):
    throttled = Throttled()
    throttled.rates.set_ip_rate("10.0.0.1", 0)
    waiting = [accept(throttled.listener) for _ in range(DELAYED_CLOSES_MAX + 5)]
    assert sum(receiver is not None for _, receiver in waiting) == DELAYED_CLOSES_MAX
    waiting[0][0].close()
    assert accept(throttled.listener)[1] is not None
    throttled.advance(1000)
    assert all(connection.closed for connection, receiver in waiting if receiver is not None)
    assert accept(throttled.listener)[1] is not None
