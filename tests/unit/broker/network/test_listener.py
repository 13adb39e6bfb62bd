"""Listeners: how many connections there may be, and which are idle."""

import pytest

from odradek.broker.network.connection_scheduler import Turns
from odradek.broker.network.listener import ConnectionLimits, Listener
from odradek.broker.network.memory_pool import RequestMemory
from odradek.broker.network.request_queue import RequestQueue
from odradek.broker.network.session import Session
from odradek.model.errors import RemoteProtocolViolation
from odradek.testing.clock import run_virtually
from odradek.testing.entropy import SeededEntropy
from odradek.testing.network import MemoryNetwork
from odradek.testing.network_contract import Collector, until


def make_listener(limits: ConnectionLimits, *, serves: bool = True) -> Listener:
    def make_session(connection, listener):
        return Session(
            connection,
            listener.name,
            lambda request, session: None,
            listener.session_ended,
            Turns(lambda: 0, lambda later: None),
            RequestQueue(10),
            RequestMemory(1 << 20),
            frame_bytes_max=1000,
            under_way_max=10,
        )

    listener = Listener("PLAINTEXT", limits, make_session)
    if serves:
        listener.serve()
    return listener


@pytest.fixture
def accept(new_connection):
    """Offer a connection to a listener; gives the connection and the session, if it was accepted."""

    def offer(listener, host="10.0.0.1"):
        connection = new_connection(host)
        connection.receiver = listener._accept(connection)
        return connection, connection.receiver

    return offer


def test_connections_beyond_the_total_are_refused(accept):
    listener = make_listener(ConnectionLimits(2, 100))
    _, one = accept(listener, "10.0.0.1")
    _, two = accept(listener, "10.0.0.2")
    _, three = accept(listener, "10.0.0.3")
    assert listener.sessions == {one, two}
    assert three is None


def test_sessions_are_held_until_the_listener_serves(accept):
    listener = make_listener(ConnectionLimits(10, 10), serves=False)
    _, early = accept(listener)
    assert early._under_way_max == 0
    listener.serve()
    _, late = accept(listener)
    assert (early._under_way_max, late._under_way_max) == (10, 10)


def test_all_listeners_share_the_total(accept):
    limits = ConnectionLimits(2, 100)
    one, other = make_listener(limits), make_listener(limits)
    accept(one)
    accept(other)
    assert accept(one)[1] is None
    assert accept(other)[1] is None


def test_connections_of_one_host_are_bounded_apart(accept):
    listener = make_listener(ConnectionLimits(100, 2))
    accept(listener, "10.0.0.1")
    accept(listener, "10.0.0.1")
    assert accept(listener, "10.0.0.1")[1] is None
    assert accept(listener, "10.0.0.2")[1] is not None


def test_overrides_replace_the_bound_of_a_host(accept):
    listener = make_listener(ConnectionLimits(100, 1, {"10.0.0.1": 2, "10.0.0.9": 0}))
    accept(listener, "10.0.0.1")
    assert accept(listener, "10.0.0.1")[1] is not None
    assert accept(listener, "10.0.0.1")[1] is None
    assert accept(listener, "10.0.0.9")[1] is None
    accept(listener, "10.0.0.2")
    assert accept(listener, "10.0.0.2")[1] is None


def test_a_place_is_free_again_once_its_connection_is_gone(accept):
    limits = ConnectionLimits(1, 1)
    listener = make_listener(limits)
    _, session = accept(listener)
    assert accept(listener)[1] is None
    session.connection_lost("reset")
    assert not listener.sessions
    assert accept(listener)[1] is not None
    assert limits.total == 1


def test_hosts_without_connections_are_not_remembered(accept):
    limits = ConnectionLimits(10, 10)
    listener = make_listener(limits)
    for number in range(50):
        accept(listener, f"10.0.0.{number}")[0].close()
    assert limits.total == 0
    assert not limits.by_host
    limits = ConnectionLimits(10, 0)
    accept(make_listener(limits), "10.0.0.1")
    assert not limits.by_host, "refusals leave nothing behind either"


def test_a_silent_connection_is_closed_after_the_idle_time_and_not_before(accept):
    listener = make_listener(ConnectionLimits(10, 10))
    connection, _ = accept(listener)
    listener.close_idle(1000, 500)
    listener.close_idle(1500, 500)
    assert not connection.closed
    listener.close_idle(1501, 500)
    assert connection.closed
    assert not listener.sessions


def test_a_connection_with_a_request_under_way_is_not_idle(accept, make_frame):
    listener = make_listener(ConnectionLimits(10, 10))
    connection, session = accept(listener)
    buffer = session.receive_buffer()
    data = make_frame(0)
    buffer[: len(data)] = data
    session.bytes_received(len(data))
    for now_ms in (1000, 2000, 3000):
        listener.close_idle(now_ms, 500)
    assert not connection.closed


def test_a_connection_that_speaks_now_and_then_is_not_idle(accept, make_frame):
    listener = make_listener(ConnectionLimits(10, 10))
    connection, session = accept(listener)
    for now_ms in range(0, 5000, 400):
        session.receive_buffer()[:1] = b"\0"
        session.active = True
        listener.close_idle(now_ms, 500)
    assert not connection.closed


def test_a_peer_that_takes_its_answer_slowly_is_not_idle(accept):
    listener = make_listener(ConnectionLimits(10, 10))
    connection, _ = accept(listener)
    for left in range(20, 0, -1):
        connection.queued_bytes = left * 1000
        listener.close_idle((20 - left) * 1000, 500)
    assert not connection.closed


def test_a_peer_that_stopped_taking_its_answer_is_cut_off(accept):
    """Waiting until all of it is sent would be waiting for ever."""
    listener = make_listener(ConnectionLimits(10, 10))
    connection, _ = accept(listener)
    connection.queued_bytes = 5000
    for now_ms in (1000, 1400, 1800, 2200):
        listener.close_idle(now_ms, 500)
    assert connection.closed == [False]


def test_a_listener_serves_its_port_until_it_stops_accepting():
    async def main():
        network = MemoryNetwork(SeededEntropy())
        listener = make_listener(ConnectionLimits(1, 1))
        listener.use(await listener.bind(network.host("broker"), "broker", 9092))
        assert listener.port == 9092
        first, second = Collector(), Collector()
        dialler = network.host("client")
        await dialler.dial("broker", 9092, lambda _: first, 1000)
        await dialler.dial("broker", 9092, lambda _: second, 1000)
        await until(lambda: bool(second.lost))
        assert not first.lost, "the one over the limit was refused"
        listener.stop_accepting()
        with pytest.raises(ConnectionRefusedError):
            await dialler.dial("broker", 9092, lambda _: Collector(), 1000)
        assert len(listener.sessions) == 1

    run_virtually(main)


def test_a_peer_that_takes_nothing_is_cut_off_after_a_violation_too(accept, make_frame):
    """Its session waits for its last answers to be taken; the request at fault is not under way for ever."""
    listener = make_listener(ConnectionLimits(10, 10))
    connection, session = accept(listener)
    connection.ends_at_once = False

    def begin(request, session):
        raise RemoteProtocolViolation("garbage")

    session._begin_request = begin
    data = make_frame(0)
    session.receive_buffer()[: len(data)] = data
    session.bytes_received(len(data))
    assert connection.closed == [True]
    connection.queued_bytes = 5000
    for now_ms in (1000, 1400, 1800, 2200):
        listener.close_idle(now_ms, 500)
    assert connection.closed == [True, False]
