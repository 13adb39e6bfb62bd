"""Sessions: response order, limits, back-pressure, close."""

import struct

import pytest

from odradek.broker.network.request_queue import RequestQueue
from odradek.broker.network.session import OUTPUT_BYTES_MAX
from odradek.model.errors import RemoteProtocolViolation


def test_pipelined_requests_start_in_arrival_order(harness, make_frame):
    harness.receive(b"".join(make_frame(number) for number in range(3)))
    assert harness.correlation_ids == [0, 1, 2]


def test_request_received_in_pieces_starts_once_complete(harness, make_frame):
    request_frame = make_frame(7)
    for index in range(len(request_frame) - 1):
        harness.receive(request_frame[index : index + 1])
    assert harness.correlation_ids == []
    harness.receive(request_frame[-1:])
    assert harness.correlation_ids == [7]


def test_responses_are_sent_in_request_order(harness, make_frame):
    harness.receive(b"".join(make_frame(number) for number in range(3)))
    harness.respond(2, b"two")
    harness.respond(1, b"one")
    assert harness.connection.responses == []
    harness.respond(0, b"zero")
    assert harness.connection.responses == [(0, b"zero"), (1, b"one"), (2, b"two")]


def test_request_without_a_response_does_not_block_the_next(harness, make_frame):
    harness.receive(make_frame(0) + make_frame(1))
    harness.respond(1, b"one")
    harness.session.send_no_response(harness.started[0])
    assert harness.connection.responses == [(1, b"one")]


def test_responses_to_one_read_are_sent_together(harness, make_frame):
    sends = []
    harness.connection.send = lambda parts: sends.append(b"".join(bytes(part) for part in parts))
    harness.on_start = lambda request, session: session.send_response(request, [b"now"])
    harness.receive(make_frame(0) + make_frame(1))
    assert len(sends) == 1


def test_requests_received_during_start_up_run_in_order_once_serving(harness, make_frame):
    harness.session.hold()
    harness.receive(make_frame(0) + make_frame(1))
    assert (harness.correlation_ids, harness.connection.paused) == ([], True)
    harness.session.release()
    assert (harness.correlation_ids, harness.connection.paused) == ([0, 1], False)
    harness.receive(make_frame(2))
    assert harness.correlation_ids == [0, 1, 2]


def test_session_stops_reading_at_the_in_flight_limit(harness, make_frame):
    harness.receive(make_frame(0) + make_frame(1))
    assert not harness.connection.paused
    harness.receive(make_frame(2))
    assert harness.connection.paused
    harness.respond(0)
    assert not harness.connection.paused


def test_requests_beyond_the_in_flight_limit_wait_in_order(harness, make_frame):
    harness.receive(b"".join(make_frame(number) for number in range(6)))
    assert harness.correlation_ids == [0, 1, 2]
    harness.respond(1)
    assert harness.correlation_ids == [0, 1, 2, 3]
    harness.respond(0)
    harness.respond(2)
    assert harness.correlation_ids == [0, 1, 2, 3, 4, 5]
    assert harness.connection.paused, "three are in flight"
    for number in (5, 4, 3):
        harness.respond(number, b"late")
    assert [number for number, _ in harness.connection.responses] == list(range(6))
    assert not harness.connection.paused


def test_session_resumes_reading_once_its_backlog_has_started(harness, make_frame):
    harness.receive(b"".join(make_frame(number) for number in range(5)))
    harness.respond(0)
    assert harness.connection.paused
    harness.respond(1)
    assert harness.connection.paused
    harness.respond(2)
    assert harness.correlation_ids == [0, 1, 2, 3, 4]
    assert not harness.connection.paused


def test_in_flight_never_exceeds_its_limit(new_harness, make_frame):
    harness = new_harness(in_flight_max=1)
    most = []
    harness.on_start = lambda request, session: most.append(session.in_flight)
    harness.receive(b"".join(make_frame(number) for number in range(4)))
    for number in range(4):
        harness.respond(number)
    assert most == [1, 1, 1, 1]
    assert harness.session.in_flight == 0


def test_full_request_queue_pauses_reading_until_there_is_room(new_harness, make_frame):
    queue = RequestQueue(1)
    first, second = new_harness(queue), new_harness(queue)
    queue.task_started()
    first.receive(make_frame(0))
    second.receive(make_frame(0))
    assert first.connection.paused
    assert second.connection.paused
    queue.task_finished()
    assert not first.connection.paused
    assert not second.connection.paused


def test_session_paused_by_its_own_limit_is_woken_by_a_queue_that_filled_meanwhile(new_harness, make_frame):
    queue = RequestQueue(1)
    harness = new_harness(queue, in_flight_max=1)
    harness.receive(make_frame(0))
    assert harness.connection.paused
    queue.task_started()
    harness.respond(0)
    assert harness.connection.paused, "others fill the queue"
    queue.task_finished()
    assert not harness.connection.paused, "nothing else would wake this session"


def test_closed_session_is_not_woken_by_the_queue(new_harness, make_frame):
    queue = RequestQueue(1)
    harness = new_harness(queue)
    queue.task_started()
    harness.receive(make_frame(0))
    harness.session.connection_lost("reset")
    queue.task_finished()
    assert harness.connection.paused


def test_session_stops_reading_from_a_client_that_does_not_read(harness, make_frame):
    harness.connection.stuck = True
    harness.receive(make_frame(0))
    harness.respond(0, bytes(OUTPUT_BYTES_MAX))
    assert not harness.connection.paused, "detected with the next bytes"
    harness.receive(make_frame(1))
    assert harness.connection.paused
    harness.respond(1)
    assert harness.connection.paused
    harness.connection.drain()
    assert not harness.connection.paused


@pytest.mark.parametrize("size", [-1, 1001, 2**31 - 1])
def test_frame_with_an_invalid_size_closes_the_connection(harness, size):
    harness.receive(struct.pack(">i", size))
    assert harness.connection.closed == [True]
    assert harness.ended == [harness.session]


def test_protocol_violation_closes_only_its_own_connection(new_harness, make_frame):
    queue = RequestQueue(10)
    bad, good = new_harness(queue), new_harness(queue)
    bad.receive(struct.pack(">i", -5))
    good.receive(make_frame(0))
    good.respond(0, b"fine")
    assert bad.connection.closed
    assert good.connection.responses == [(0, b"fine")]
    assert not good.connection.closed


def test_earlier_responses_are_sent_before_a_violation_closes_the_connection(harness, make_frame):
    def begin(request, session):
        if request.correlation_id == 1:
            raise RemoteProtocolViolation("no such API")
        session.send_response(request, [b"ok"])

    harness.on_start = begin
    harness.receive(make_frame(0) + make_frame(1) + make_frame(2))
    assert harness.connection.responses == [(0, b"ok")]
    assert harness.correlation_ids == [0, 1], "later requests are not started"
    assert harness.connection.closed == [True]


def test_request_followed_by_garbage_is_served_before_the_connection_closes(harness, make_frame):
    harness.on_start = lambda request, session: session.send_response(request, [b"ok"])
    harness.receive(make_frame(0) + struct.pack(">i", -5))
    assert harness.connection.responses == [(0, b"ok")]
    assert harness.connection.closed == [True]


def test_exception_in_a_handler_closes_only_its_own_connection(harness, make_frame):
    def begin(request, session):
        raise ZeroDivisionError

    harness.on_start = begin
    harness.receive(make_frame(0))
    assert harness.connection.closed == [True]
    assert harness.ended == [harness.session]


def test_requests_queued_behind_a_violation_are_dropped(new_harness, make_frame):
    harness = new_harness(in_flight_max=1)

    def begin(request, session):
        raise RemoteProtocolViolation("garbage")

    harness.on_start = begin
    harness.receive(b"".join(make_frame(number) for number in range(5)))
    harness.run_deferred()
    harness.session.output_drained()
    assert harness.correlation_ids == [0]


def test_late_responses_to_a_lost_connection_are_dropped(harness, make_frame):
    harness.receive(make_frame(0) + make_frame(1))
    harness.session.connection_lost("Connection reset by peer")
    harness.respond(0, b"nobody hears")
    harness.session.send_no_response(harness.started[1])
    assert harness.connection.sent == b""
    assert harness.session.in_flight == 0
    assert harness.ended == [harness.session]


def test_lost_connection_starts_no_more_requests(harness, make_frame):
    harness.receive(b"".join(make_frame(number) for number in range(5)))
    harness.session.connection_lost(None)
    harness.respond(0)
    harness.session.output_drained()
    assert harness.correlation_ids == [0, 1, 2]


def test_closing_twice_closes_once(harness):
    harness.connection.ends_at_once = False
    harness.session.close_with_reason("first")
    harness.session.close_with_reason("second")
    assert harness.connection.closed == [True]


def test_graceful_stop_completes_in_flight_requests_and_starts_no_more(harness, make_frame):
    harness.receive(b"".join(make_frame(number) for number in range(5)))
    harness.session.stop_reading()
    assert harness.connection.paused
    harness.respond(0, b"zero")
    harness.respond(1, b"one")
    harness.respond(2, b"two")
    assert [number for number, _ in harness.connection.responses] == [0, 1, 2]
    assert harness.correlation_ids == [0, 1, 2]
    assert harness.connection.paused
    harness.session.close()
    assert harness.connection.closed == [True]


def test_received_bytes_make_a_session_active(harness, make_frame):
    harness.session.active = False
    harness.receive(make_frame(0)[:3])
    assert harness.session.active


def test_draining_session_closes_after_its_last_response(harness, make_frame):
    harness.receive(make_frame(0) + make_frame(1))
    harness.session.drain()
    assert harness.connection.paused
    harness.respond(1, b"one")
    assert not harness.connection.closed
    harness.respond(0, b"zero")
    assert harness.connection.responses == [(0, b"zero"), (1, b"one")]
    assert harness.connection.closed


def test_draining_session_with_nothing_in_flight_closes_at_once(harness):
    harness.session.drain()
    assert harness.connection.closed


def test_session_with_nothing_in_flight_and_nothing_queued_is_inactive(harness, make_frame):
    harness.receive(make_frame(0))
    assert harness.session.was_active()
    assert harness.session.was_active(), "a request is in flight"
    harness.respond(0)
    assert not harness.session.was_active()
    harness.connection.queued_bytes = 7
    assert harness.session.was_active(), "its client reads queued bytes"
    assert not harness.session.was_active()
