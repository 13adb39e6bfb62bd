"""Turns: no connection keeps others waiting, however many requests it pipelines."""

import pytest

from odradek.broker.network.connection_scheduler import PASS_NS, TURN_NS, Turns
from odradek.broker.network.session import OUTPUT_BYTES_MAX
from odradek.wire.server_connection import FRAMES_MAX

MS = 1_000_000
IN_ONE_TURN = TURN_NS // MS


class Clock:
    now_ns = 0


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def passes():
    """Callbacks that are due in the next passes of the event loop."""
    return []


@pytest.fixture
def turns(clock, passes):
    return Turns(lambda: clock.now_ns, passes.append)


@pytest.fixture
def slow_bench(new_bench, turns, clock):
    """A session whose requests take a millisecond each, and are answered at once."""

    def make(answer_bytes=10):
        bench = new_bench(under_way_max=100, turns=turns)

        def begin(request, session):
            clock.now_ns += MS
            session.answer(request, [bytes(answer_bytes)])

        bench.on_begin = begin
        return bench

    return make


def run_pass(passes):
    due, passes[:] = list(passes), []
    for callback in due:
        callback()


def test_pipelined_requests_are_begun_for_one_turn_and_then_line_up(slow_bench, make_frame, passes):
    bench = slow_bench()
    bench.receive(b"".join(make_frame(number) for number in range(20)))
    assert len(bench.begun) == IN_ONE_TURN
    run_pass(passes)
    assert IN_ONE_TURN < len(bench.begun) < 20
    while passes:
        run_pass(passes)
    assert bench.numbers == list(range(20))
    assert [number for number, _ in bench.connection.answers] == list(range(20))


def test_a_single_request_is_served_as_it_is_read_whoever_waits(slow_bench, make_frame):
    greedy, modest = slow_bench(), slow_bench()
    greedy.receive(b"".join(make_frame(number) for number in range(20)))
    modest.receive(make_frame(0))
    assert modest.numbers == [0]
    assert len(greedy.begun) == IN_ONE_TURN


def test_sessions_take_turns_in_the_order_they_lined_up(slow_bench, make_frame, passes):
    benches = [slow_bench() for _ in range(3)]
    for bench in benches:
        bench.receive(b"".join(make_frame(number) for number in range(5)))
    assert [len(bench.begun) for bench in benches] == [1, 0, 0], "two lined up behind the first"
    most = 0
    while passes:
        run_pass(passes)
        counts = [len(bench.begun) for bench in benches]
        most = max(most, max(counts) - min(counts))
    assert most <= 2 * IN_ONE_TURN
    assert counts == [5, 5, 5]


def test_the_turns_of_one_pass_are_bounded_however_many_sessions_wait(slow_bench, make_frame, passes, clock):
    for _ in range(50):
        slow_bench().receive(b"".join(make_frame(number) for number in range(5)))
    before_ns = clock.now_ns
    run_pass(passes)
    assert clock.now_ns - before_ns <= PASS_NS
    assert passes, "the others come in the next pass"


def test_a_session_stops_at_the_first_full_output_and_goes_on_when_it_is_taken(
    slow_bench, make_frame, passes, clock
):
    bench = slow_bench(answer_bytes=OUTPUT_BYTES_MAX // 4)
    bench.connection.stuck = True
    bench.receive(b"".join(make_frame(number) for number in range(40)))
    while passes:
        run_pass(passes)
    assert len(bench.begun) <= 6
    assert bench.connection.queued_bytes <= OUTPUT_BYTES_MAX + 2 * (OUTPUT_BYTES_MAX // 4 + 8)
    assert bench.connection.paused
    bench.connection.drain()
    while passes:
        run_pass(passes)
    assert bench.numbers == list(range(40))
    assert not bench.connection.paused


def test_requests_of_a_connection_that_is_gone_are_not_begun(slow_bench, make_frame, passes):
    bench = slow_bench()
    bench.receive(b"".join(make_frame(number) for number in range(20)))
    bench.session.connection_lost("reset")
    while passes:
        run_pass(passes)
    assert len(bench.begun) == IN_ONE_TURN
    assert bench.memory.used == 0


def test_requests_before_garbage_are_served_in_their_turns_and_then_the_connection_ends(
    slow_bench, make_frame, passes
):
    bench = slow_bench()
    bench.connection.ends_at_once = False
    bench.receive(b"".join(make_frame(number) for number in range(6)) + b"\xff\xff\xff\xff")
    assert bench.connection.closed == []
    assert bench.connection.paused, "nothing is read behind it"
    while passes:
        run_pass(passes)
    assert bench.numbers == list(range(6))
    assert bench.connection.closed == [True]


def test_thousands_of_requests_in_one_read_are_taken_a_few_at_a_time(slow_bench, make_frame, passes):
    bench = slow_bench()
    count = 5 * FRAMES_MAX + 3
    data = b"".join(make_frame(number) for number in range(count))
    bench.receive(data[:-5])
    assert bench.session._wire.in_flight <= FRAMES_MAX
    assert bench.connection.paused, "nothing is received before the others are taken"
    while passes:
        run_pass(passes)
    assert bench.numbers == list(range(count - 1))
    assert not bench.connection.paused
    bench.receive(data[-5:])
    while passes:
        run_pass(passes)
    assert bench.numbers == list(range(count))
    assert bench.memory.used == 0


def test_garbage_behind_thousands_of_requests_ends_the_connection_behind_them(slow_bench, make_frame, passes):
    bench = slow_bench()
    bench.connection.ends_at_once = False
    count = 2 * FRAMES_MAX
    bench.receive(b"".join(make_frame(number) for number in range(count)) + b"\xff\xff\xff\xff")
    while passes:
        run_pass(passes)
    assert bench.numbers == list(range(count))
    assert bench.connection.closed == [True]


def test_what_was_not_taken_yet_goes_with_its_connection(slow_bench, make_frame, passes):
    bench = slow_bench()
    bench.receive(b"".join(make_frame(number) for number in range(5 * FRAMES_MAX)))
    bench.session.connection_lost("reset")
    while passes:
        run_pass(passes)
    assert len(bench.begun) == IN_ONE_TURN
    assert bench.memory.used == 0


class Taker:
    """Works for so long at each of its turns."""

    def __init__(self, clock, took_ns):
        self.clock, self.took_ns = clock, took_ns
        self.is_in_line = False
        self.turns = 0

    def take_turn(self):
        self.turns += 1
        self.clock.now_ns += self.took_ns


def test_one_that_lines_up_twice_has_one_turn(turns, clock, passes):
    taker = Taker(clock, MS)
    turns.add(taker)
    turns.add(taker)
    run_pass(passes)
    assert (taker.turns, passes, turns.is_idle) == (1, [], True)
    turns.add(taker)
    run_pass(passes)
    assert taker.turns == 2


def test_a_pass_serves_as_many_as_it_has_time_for_and_the_next_serves_the_others(turns, clock, passes):
    takers = [Taker(clock, PASS_NS // 2) for _ in range(5)]
    for taker in takers:
        turns.add(taker)
    for served in (2, 4, 5):
        assert len(passes) == 1
        run_pass(passes)
        assert sum(taker.turns for taker in takers) == served
    assert passes == []


def test_large_answers_stop_a_turn_though_it_has_time_left(new_bench, make_frame, turns):
    bench = new_bench(under_way_max=100, turns=turns)
    bench.on_begin = lambda request, session: session.answer(request, [bytes(OUTPUT_BYTES_MAX)])
    bench.connection.stuck = True
    bench.receive(b"".join(make_frame(number) for number in range(10)))
    assert bench.numbers == [0]
    bench.connection.stuck = False


def test_what_was_not_taken_yet_is_not_begun_once_the_session_has_ended(slow_bench, make_frame, passes):
    bench = slow_bench()
    bench.connection.ends_at_once = False
    bench.receive(b"".join(make_frame(number) for number in range(5 * FRAMES_MAX)))
    bench.session.end("for a reason")
    while passes:
        run_pass(passes)
    assert len(bench.begun) == IN_ONE_TURN
    bench.session.connection_lost(None)
    assert bench.memory.used == 0
