"""Sessions: order of answers, bounds, back-pressure, ends."""

import struct

import pytest

from odradek.broker.network.request_queue import RequestQueue
from odradek.broker.network.session import OUTPUT_BYTES_MAX
from odradek.model.errors import RemoteProtocolViolation


def test_pipelined_requests_are_begun_in_the_order_they_came(bench, make_frame):
    bench.receive(b"".join(make_frame(number) for number in range(3)))
    assert bench.numbers == [0, 1, 2]


def test_a_request_that_comes_in_pieces_is_begun_once_it_is_whole(bench, make_frame):
    whole = make_frame(7)
    for index in range(len(whole) - 1):
        bench.receive(whole[index : index + 1])
    assert bench.numbers == []
    bench.receive(whole[-1:])
    assert bench.numbers == [7]


def test_answers_leave_in_the_order_of_their_requests(bench, make_frame):
    bench.receive(b"".join(make_frame(number) for number in range(3)))
    bench.answer(2, b"two")
    bench.answer(1, b"one")
    assert bench.connection.answers == []
    bench.answer(0, b"zero")
    assert bench.connection.answers == [(0, b"zero"), (1, b"one"), (2, b"two")]


def test_a_request_without_an_answer_does_not_hold_back_the_next(bench, make_frame):
    bench.receive(make_frame(0) + make_frame(1))
    bench.answer(1, b"one")
    bench.session.answer_nothing(bench.begun[0])
    assert bench.connection.answers == [(1, b"one")]


def test_answers_given_while_requests_are_begun_leave_in_one_send(bench, make_frame):
    sends = []
    bench.connection.send = lambda parts: sends.append(b"".join(bytes(part) for part in parts))
    bench.on_begin = lambda request, session: session.answer(request, [b"now"])
    bench.receive(make_frame(0) + make_frame(1))
    assert len(sends) == 1


def test_requests_that_come_while_the_broker_starts_are_begun_in_order_once_it_serves(bench, make_frame):
    bench.session.hold()
    bench.receive(make_frame(0) + make_frame(1))
    assert (bench.numbers, bench.connection.paused) == ([], True)
    bench.session.release()
    assert (bench.numbers, bench.connection.paused) == ([0, 1], False)
    bench.receive(make_frame(2))
    assert bench.numbers == [0, 1, 2]


def test_at_the_bound_on_unanswered_requests_the_session_stops_reading(bench, make_frame):
    bench.receive(make_frame(0) + make_frame(1))
    assert not bench.connection.paused
    bench.receive(make_frame(2))
    assert bench.connection.paused
    bench.answer(0)
    assert not bench.connection.paused


def test_requests_read_beyond_the_bound_wait_and_are_begun_in_order(bench, make_frame):
    bench.receive(b"".join(make_frame(number) for number in range(6)))
    assert bench.numbers == [0, 1, 2]
    bench.answer(1)
    assert bench.numbers == [0, 1, 2, 3]
    bench.answer(0)
    bench.answer(2)
    assert bench.numbers == [0, 1, 2, 3, 4, 5]
    assert bench.connection.paused, "three are under way"
    for number in (5, 4, 3):
        bench.answer(number, b"late")
    assert [number for number, _ in bench.connection.answers] == list(range(6))
    assert not bench.connection.paused


def test_the_session_reads_on_only_once_its_backlog_is_begun(bench, make_frame):
    bench.receive(b"".join(make_frame(number) for number in range(5)))
    bench.answer(0)
    assert bench.connection.paused
    bench.answer(1)
    assert bench.connection.paused
    bench.answer(2)
    assert bench.numbers == [0, 1, 2, 3, 4]
    assert not bench.connection.paused


def test_under_way_never_goes_beyond_the_bound_however_requests_are_answered(new_bench, make_frame):
    bench = new_bench(under_way_max=1)
    most = []
    bench.on_begin = lambda request, session: most.append(session.under_way)
    bench.receive(b"".join(make_frame(number) for number in range(4)))
    for number in range(4):
        bench.answer(number)
    assert most == [1, 1, 1, 1]
    assert bench.session.under_way == 0


def test_a_full_queue_stops_reading_and_lets_it_go_on_once_there_is_room(new_bench, make_frame):
    queue = RequestQueue(1)
    one, two = new_bench(queue), new_bench(queue)
    queue.entered()
    one.receive(make_frame(0))
    two.receive(make_frame(0))
    assert one.connection.paused
    assert two.connection.paused
    queue.left()
    assert not one.connection.paused
    assert not two.connection.paused


def test_a_session_held_for_its_own_bound_is_not_forgotten_when_the_queue_is_full_by_then(
    new_bench, make_frame
):
    queue = RequestQueue(1)
    bench = new_bench(queue, under_way_max=1)
    bench.receive(make_frame(0))
    assert bench.connection.paused
    queue.entered()
    bench.answer(0)
    assert bench.connection.paused, "others fill the queue"
    queue.left()
    assert not bench.connection.paused, "nothing else would ever wake this session"


def test_a_session_that_is_gone_is_not_woken_by_the_queue(new_bench, make_frame):
    queue = RequestQueue(1)
    bench = new_bench(queue)
    queue.entered()
    bench.receive(make_frame(0))
    bench.session.connection_lost("reset")
    queue.left()
    assert bench.connection.paused


def test_a_peer_that_does_not_read_is_not_read_from(bench, make_frame):
    bench.connection.stuck = True
    bench.receive(make_frame(0))
    bench.answer(0, bytes(OUTPUT_BYTES_MAX))
    assert not bench.connection.paused, "known only when more comes"
    bench.receive(make_frame(1))
    assert bench.connection.paused
    bench.answer(1)
    assert bench.connection.paused
    bench.connection.drain()
    assert not bench.connection.paused


@pytest.mark.parametrize("size", [-1, 1001, 2**31 - 1])
def test_a_frame_of_an_impossible_size_ends_the_connection(bench, size):
    bench.receive(struct.pack(">i", size))
    assert bench.connection.closed == [True]
    assert bench.ended == [bench.session]


def test_a_violation_ends_only_its_own_connection(new_bench, make_frame):
    queue = RequestQueue(10)
    bad, good = new_bench(queue), new_bench(queue)
    bad.receive(struct.pack(">i", -5))
    good.receive(make_frame(0))
    good.answer(0, b"fine")
    assert bad.connection.closed
    assert good.connection.answers == [(0, b"fine")]
    assert not good.connection.closed


def test_earlier_answers_are_sent_before_a_violation_ends_the_connection(bench, make_frame):
    def begin(request, session):
        if request.correlation_id == 1:
            raise RemoteProtocolViolation("no such API")
        session.answer(request, [b"ok"])

    bench.on_begin = begin
    bench.receive(make_frame(0) + make_frame(1) + make_frame(2))
    assert bench.connection.answers == [(0, b"ok")]
    assert bench.numbers == [0, 1], "what came after it is not begun"
    assert bench.connection.closed == [True]


def test_a_request_with_garbage_behind_it_in_one_read_is_served_before_the_connection_ends(bench, make_frame):
    bench.on_begin = lambda request, session: session.answer(request, [b"ok"])
    bench.receive(make_frame(0) + struct.pack(">i", -5))
    assert bench.connection.answers == [(0, b"ok")]
    assert bench.connection.closed == [True]


def test_a_defect_in_a_handler_ends_only_its_own_connection(bench, make_frame):
    def begin(request, session):
        raise ZeroDivisionError

    bench.on_begin = begin
    bench.receive(make_frame(0))
    assert bench.connection.closed == [True]
    assert bench.ended == [bench.session]


def test_what_waits_behind_a_violation_is_dropped_with_the_connection(new_bench, make_frame):
    bench = new_bench(under_way_max=1)

    def begin(request, session):
        raise RemoteProtocolViolation("garbage")

    bench.on_begin = begin
    bench.receive(b"".join(make_frame(number) for number in range(5)))
    bench.run_deferred()
    bench.session.output_drained()
    assert bench.numbers == [0]


def test_late_answers_to_a_lost_connection_are_passed_over(bench, make_frame):
    bench.receive(make_frame(0) + make_frame(1))
    bench.session.connection_lost("Connection reset by peer")
    bench.answer(0, b"nobody hears")
    bench.session.answer_nothing(bench.begun[1])
    assert bench.connection.sent == b""
    assert bench.session.under_way == 0
    assert bench.ended == [bench.session]


def test_a_lost_connection_begins_nothing_more(bench, make_frame):
    bench.receive(b"".join(make_frame(number) for number in range(5)))
    bench.session.connection_lost(None)
    bench.answer(0)
    bench.session.output_drained()
    assert bench.numbers == [0, 1, 2]


def test_ending_twice_closes_once(bench):
    bench.connection.ends_at_once = False
    bench.session.end("first")
    bench.session.end("second")
    assert bench.connection.closed == [True]


def test_a_graceful_stop_answers_what_is_under_way_and_begins_nothing_more(bench, make_frame):
    bench.receive(b"".join(make_frame(number) for number in range(5)))
    bench.session.stop_reading()
    assert bench.connection.paused
    bench.answer(0, b"zero")
    bench.answer(1, b"one")
    bench.answer(2, b"two")
    assert [number for number, _ in bench.connection.answers] == [0, 1, 2]
    assert bench.numbers == [0, 1, 2]
    assert bench.connection.paused
    bench.session.close()
    assert bench.connection.closed == [True]


def test_bytes_make_a_session_active(bench, make_frame):
    bench.session.active = False
    bench.receive(make_frame(0)[:3])
    assert bench.session.active


def test_a_session_that_finishes_reads_no_more_and_closes_after_its_last_answer(bench, make_frame):
    bench.receive(make_frame(0) + make_frame(1))
    bench.session.finish()
    assert bench.connection.paused
    bench.answer(1, b"one")
    assert not bench.connection.closed
    bench.answer(0, b"zero")
    assert bench.connection.answers == [(0, b"zero"), (1, b"one")]
    assert bench.connection.closed


def test_a_session_that_finishes_with_nothing_under_way_closes_at_once(bench):
    bench.session.finish()
    assert bench.connection.closed


def test_a_session_with_nothing_under_way_and_nothing_queued_is_not_active(bench, make_frame):
    bench.receive(make_frame(0))
    assert bench.session.was_active()
    assert bench.session.was_active(), "a request is under way"
    bench.answer(0)
    assert not bench.session.was_active()
    bench.connection.queued_bytes = 7
    assert bench.session.was_active(), "its peer takes what is queued"
    assert not bench.session.was_active()
