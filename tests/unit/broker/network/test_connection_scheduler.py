"""Connection scheduler: no connection delays others, however many requests it pipelines."""

import pytest

from odradek.broker.network.connection_scheduler import LOOP_PASS_NS, TIME_SLICE_NS, ConnectionScheduler
from odradek.broker.network.session import OUTPUT_BYTES_MAX
from odradek.wire.server_connection import FRAMES_MAX

MS = 1_000_000
IN_ONE_TURN = TIME_SLICE_NS // MS


class Clock:
    now_ns = 0


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def passes():
    """Callbacks deferred to the next event loop iterations."""
    return []


@pytest.fixture
def scheduler(clock, passes):
    return ConnectionScheduler(lambda: clock.now_ns, passes.append)


@pytest.fixture
def slow_harness(new_harness, scheduler, clock):
    """Session whose requests take a millisecond each and complete at once."""

    def make(response_bytes=10):
        harness = new_harness(in_flight_max=100, scheduler=scheduler)

        def begin(request, session):
            clock.now_ns += MS
            session.send_response(request, [bytes(response_bytes)])

        harness.on_start = begin
        return harness

    return make


def run_pass(passes):
    due, passes[:] = list(passes), []
    for callback in due:
        callback()


def test_pipelined_requests_run_for_one_time_slice_and_then_queue(slow_harness, make_frame, passes):
    harness = slow_harness()
    harness.receive(b"".join(make_frame(number) for number in range(20)))
    assert len(harness.started) == IN_ONE_TURN
    run_pass(passes)
    assert IN_ONE_TURN < len(harness.started) < 20
    while passes:
        run_pass(passes)
    assert harness.correlation_ids == list(range(20))
    assert [number for number, _ in harness.connection.responses] == list(range(20))


def test_single_request_is_served_as_it_is_read(slow_harness, make_frame):
    greedy, modest = slow_harness(), slow_harness()
    greedy.receive(b"".join(make_frame(number) for number in range(20)))
    modest.receive(make_frame(0))
    assert modest.correlation_ids == [0]
    assert len(greedy.started) == IN_ONE_TURN


def test_sessions_run_in_queue_order(slow_harness, make_frame, passes):
    harnesses = [slow_harness() for _ in range(3)]
    for harness in harnesses:
        harness.receive(b"".join(make_frame(number) for number in range(5)))
    assert [len(harness.started) for harness in harnesses] == [1, 0, 0], "two are queued behind the first"
    most = 0
    while passes:
        run_pass(passes)
        counts = [len(harness.started) for harness in harnesses]
        most = max(most, max(counts) - min(counts))
    assert most <= 2 * IN_ONE_TURN
    assert counts == [5, 5, 5]


def test_time_of_one_loop_pass_is_bounded(slow_harness, make_frame, passes, clock):
    for _ in range(50):
        slow_harness().receive(b"".join(make_frame(number) for number in range(5)))
    before_ns = clock.now_ns
    run_pass(passes)
    assert clock.now_ns - before_ns <= LOOP_PASS_NS
    assert passes, "the others run in the next pass"


def test_session_stops_at_a_full_output_buffer_and_resumes_when_drained(
    slow_harness, make_frame, passes, clock
):
    harness = slow_harness(response_bytes=OUTPUT_BYTES_MAX // 4)
    harness.connection.stuck = True
    harness.receive(b"".join(make_frame(number) for number in range(40)))
    while passes:
        run_pass(passes)
    assert len(harness.started) <= 6
    assert harness.connection.queued_bytes <= OUTPUT_BYTES_MAX + 2 * (OUTPUT_BYTES_MAX // 4 + 8)
    assert harness.connection.paused
    harness.connection.drain()
    while passes:
        run_pass(passes)
    assert harness.correlation_ids == list(range(40))
    assert not harness.connection.paused


def test_requests_of_a_closed_connection_do_not_start(slow_harness, make_frame, passes):
    harness = slow_harness()
    harness.receive(b"".join(make_frame(number) for number in range(20)))
    harness.session.connection_lost("reset")
    while passes:
        run_pass(passes)
    assert len(harness.started) == IN_ONE_TURN
    assert harness.memory.used == 0


def test_requests_before_garbage_are_served_and_then_the_connection_closes(slow_harness, make_frame, passes):
    harness = slow_harness()
    harness.connection.ends_at_once = False
    harness.receive(b"".join(make_frame(number) for number in range(6)) + b"\xff\xff\xff\xff")
    assert harness.connection.closed == []
    assert harness.connection.paused, "nothing after it is read"
    while passes:
        run_pass(passes)
    assert harness.correlation_ids == list(range(6))
    assert harness.connection.closed == [True]


def test_thousands_of_requests_in_one_read_are_parsed_in_small_batches(slow_harness, make_frame, passes):
    harness = slow_harness()
    count = 5 * FRAMES_MAX + 3
    data = b"".join(make_frame(number) for number in range(count))
    harness.receive(data[:-5])
    assert harness.session._wire.in_flight <= FRAMES_MAX
    assert harness.connection.paused, "nothing is received before the others are parsed"
    while passes:
        run_pass(passes)
    assert harness.correlation_ids == list(range(count - 1))
    assert not harness.connection.paused
    harness.receive(data[-5:])
    while passes:
        run_pass(passes)
    assert harness.correlation_ids == list(range(count))
    assert harness.memory.used == 0


def test_garbage_after_thousands_of_requests_closes_the_connection_after_them(
    slow_harness, make_frame, passes
):
    harness = slow_harness()
    harness.connection.ends_at_once = False
    count = 2 * FRAMES_MAX
    harness.receive(b"".join(make_frame(number) for number in range(count)) + b"\xff\xff\xff\xff")
    while passes:
        run_pass(passes)
    assert harness.correlation_ids == list(range(count))
    assert harness.connection.closed == [True]


def test_unparsed_requests_are_dropped_with_the_connection(slow_harness, make_frame, passes):
    harness = slow_harness()
    harness.receive(b"".join(make_frame(number) for number in range(5 * FRAMES_MAX)))
    harness.session.connection_lost("reset")
    while passes:
        run_pass(passes)
    assert len(harness.started) == IN_ONE_TURN
    assert harness.memory.used == 0


class Taker:
    """Uses a fixed time in each of its slices."""

    def __init__(self, clock, took_ns):
        self.clock, self.took_ns = clock, took_ns
        self.is_scheduled = False
        self.run_count = 0

    def run_time_slice(self):
        self.run_count += 1
        self.clock.now_ns += self.took_ns


def test_session_added_twice_runs_once(scheduler, clock, passes):
    taker = Taker(clock, MS)
    scheduler.add(taker)
    scheduler.add(taker)
    run_pass(passes)
    assert (taker.run_count, passes, scheduler.is_idle) == (1, [], True)
    scheduler.add(taker)
    run_pass(passes)
    assert taker.run_count == 2


def test_sessions_left_over_from_one_pass_run_in_the_next(scheduler, clock, passes):
    takers = [Taker(clock, LOOP_PASS_NS // 2) for _ in range(5)]
    for taker in takers:
        scheduler.add(taker)
    for served in (2, 4, 5):
        assert len(passes) == 1
        run_pass(passes)
        assert sum(taker.run_count for taker in takers) == served
    assert passes == []


def test_large_responses_end_a_time_slice_early(new_harness, make_frame, scheduler):
    harness = new_harness(in_flight_max=100, scheduler=scheduler)
    harness.on_start = lambda request, session: session.send_response(request, [bytes(OUTPUT_BYTES_MAX)])
    harness.connection.stuck = True
    harness.receive(b"".join(make_frame(number) for number in range(10)))
    assert harness.correlation_ids == [0]
    harness.connection.stuck = False


def test_unparsed_requests_do_not_start_after_the_session_is_closed(slow_harness, make_frame, passes):
    harness = slow_harness()
    harness.connection.ends_at_once = False
    harness.receive(b"".join(make_frame(number) for number in range(5 * FRAMES_MAX)))
    harness.session.close_with_reason("for a reason")
    while passes:
        run_pass(passes)
    assert len(harness.started) == IN_ONE_TURN
    harness.session.connection_lost(None)
    assert harness.memory.used == 0
