"""Request memory pool: its limit, and the sessions that may read at the limit."""

import pytest

from odradek.broker.network.memory_pool import (
    BYTES_MAX_DEFAULT,
    PRIORITY_MS_MAX,
    SHARE_BYTES,
    RequestMemoryPool,
    memory_limit,
)


class Reader:
    def __init__(self, memory: RequestMemoryPool, held_bytes: int, partial: bool = True) -> None:
        self.memory = memory
        self.held_bytes = held_bytes
        self.has_partial_request = partial
        self.paused = False
        self.ended: list[str] = []
        memory.used += held_bytes

    def look(self) -> None:
        """Decide whether to pause, as a session does after each read."""
        self.paused = not self.memory.may_read(self)
        if self.paused:
            self.memory.wait(self)

    def receive(self, count: int) -> None:
        assert not self.paused
        self.held_bytes += count
        self.memory.used += count
        self.look()

    def complete(self) -> None:
        self.has_partial_request = False
        self.look()

    def respond(self) -> None:
        self.memory.used -= self.held_bytes
        self.held_bytes = 0
        if self.memory.waiting:
            self.memory.wake()

    def try_resume(self) -> None:
        self.look()

    def close_with_reason(self, reason: str) -> None:
        self.ended.append(reason)
        self.memory.used -= self.held_bytes
        self.memory.remove(self)


LIMIT = 10 * SHARE_BYTES


@pytest.fixture
def memory() -> RequestMemoryPool:
    return RequestMemoryPool(LIMIT)


def held(memory: RequestMemoryPool, count: int, each: int = 2 * SHARE_BYTES) -> list[Reader]:
    readers = [Reader(memory, each) for _ in range(count)]
    for reader in readers:
        reader.look()
    return readers


def test_all_sessions_read_below_the_limit(memory):
    assert not any(reader.paused for reader in held(memory, 4))


def test_at_the_limit_all_but_one_large_holder_stop_reading(memory):
    readers = held(memory, 6)
    assert [reader.paused for reader in readers] == [False] + [True] * 5


def test_small_requests_are_read_at_the_limit(memory):
    held(memory, 6)
    modest = Reader(memory, 100)
    modest.look()
    assert not modest.paused


def test_at_twice_the_limit_only_the_priority_session_reads(memory):
    readers = held(memory, 10)
    modest = Reader(memory, 100, partial=False)
    modest.look()
    assert modest.paused
    assert sum(not reader.paused for reader in readers) == 1


def test_waiting_sessions_resume_when_memory_is_released(memory):
    readers = held(memory, 6)
    readers[0].complete()
    readers[0].respond()
    readers[1].complete()
    readers[1].respond()
    assert not any(reader.paused for reader in readers)


def test_next_session_gets_priority_once_the_first_completes_its_request(memory):
    readers = held(memory, 8)
    readers[0].receive(SHARE_BYTES)
    assert not readers[0].paused, "it reads until its request is complete"
    readers[0].complete()
    assert [reader.paused for reader in readers[:3]] == [True, False, True]


def test_next_session_gets_priority_when_the_first_was_answered_at_once(memory):
    readers = held(memory, 10)
    readers[0].has_partial_request = False
    readers[0].respond()
    assert [reader.paused for reader in readers[1:4]] == [False, True, True]


def test_all_requests_complete_eventually(memory):
    readers = held(memory, 30)
    for _ in range(100):
        for reader in readers:
            if not reader.paused and reader.has_partial_request:
                reader.receive(SHARE_BYTES // 2)
                reader.complete()
                reader.respond()
    assert not any(reader.has_partial_request for reader in readers)


def test_priority_session_that_never_completes_its_request_is_closed(memory):
    readers = held(memory, 7)
    memory.close_stalled_session(0)
    memory.close_stalled_session(PRIORITY_MS_MAX - 1)
    assert readers[0].ended == []
    memory.close_stalled_session(PRIORITY_MS_MAX)
    assert "must be complete within" in readers[0].ended[0]
    assert not readers[1].paused, "the next one has priority"
    memory.close_stalled_session(PRIORITY_MS_MAX + 1)
    assert readers[1].ended == []


def test_closed_session_gets_no_priority_and_no_wakeup(memory):
    readers = held(memory, 7)
    memory.remove(readers[1])
    readers[0].complete()
    assert readers[1].paused
    assert not readers[2].paused


@pytest.mark.parametrize(
    ("queued", "largest", "expected"),
    [(-1, 100, BYTES_MAX_DEFAULT), (5000, 100, 5000), (5000, 9000, 9000), (-1, 1 << 31, 1 << 31)],
)
def test_limit_is_the_setting_and_fits_the_largest_request(queued, largest, expected):
    assert memory_limit(queued, largest) == expected


def test_session_holds_request_bytes_until_the_response(harness, make_frame):
    data = make_frame(0) + make_frame(1) + make_frame(2)[:5]
    harness.receive(data)
    assert harness.memory.used == len(data) == harness.session.held_bytes
    harness.respond(0)
    assert harness.memory.used == len(make_frame(1)) + 5
    harness.session.connection_lost(None)
    assert harness.memory.used == len(make_frame(1)), "it is still in flight"
    harness.respond(1)
    assert harness.memory.used == 0


def test_queued_request_bytes_are_released_with_the_connection(harness, make_frame):
    harness.receive(b"".join(make_frame(number) for number in range(10)))
    harness.session.connection_lost("reset")
    assert harness.memory.used == 3 * len(make_frame(0))


def test_session_within_its_share_reads_at_the_limit(memory):
    held(memory, 6)
    for held_bytes, may_read in ((SHARE_BYTES, True), (SHARE_BYTES + 1, False)):
        assert memory.may_read(Reader(memory, held_bytes)) is may_read


def test_resumed_sessions_have_no_priority_when_the_limit_is_reached_again(memory):
    readers = held(memory, 6)
    memory.used -= 6 * SHARE_BYTES
    memory.wake()
    assert not any(reader.paused for reader in readers)
    (late,) = held(memory, 1, 4 * SHARE_BYTES)
    assert memory.used >= memory.limit
    assert not late.paused, "it is the first that stopped since"


def test_priority_session_keeps_priority_while_others_are_answered(memory):
    readers = held(memory, 7)
    memory.wake()
    assert [reader.paused for reader in readers] == [False] + [True] * 6
    memory.used -= 2 * SHARE_BYTES
    memory.wake()
    assert [reader.paused for reader in readers] == [False] + [True] * 6


def test_wake_without_a_priority_session_does_nothing(memory):
    complete = Reader(memory, 2 * LIMIT, partial=False)
    complete.look()
    memory.wake()
    assert (complete.paused, memory.waiting) == (True, {complete})
    memory.remove(complete)
    assert memory.waiting == set()


def test_no_session_is_closed_below_the_limit_or_without_a_priority_session(memory):
    for now_ms in (0, PRIORITY_MS_MAX):
        memory.close_stalled_session(now_ms)
    readers = held(memory, 6)
    memory.used -= 5 * SHARE_BYTES
    for now_ms in (0, PRIORITY_MS_MAX):
        memory.close_stalled_session(now_ms)
    memory.used += 5 * SHARE_BYTES
    memory.close_stalled_session(2 * PRIORITY_MS_MAX)
    assert not any(reader.ended for reader in readers), "the time restarts"


@pytest.mark.parametrize("ends", ["response", "no response", "loss"])
def test_session_resumes_once_other_requests_release_memory(new_harness, make_frame, ends):
    memory = RequestMemoryPool(4 * len(make_frame(0)))
    first, other = new_harness(memory=memory), new_harness(memory=memory)
    first.receive(make_frame(0) + make_frame(1))
    memory.used += 2 * memory.limit
    other.receive(make_frame(0))
    assert other.connection.paused
    memory.used -= 2 * memory.limit
    if ends == "response":
        first.respond(0)
    elif ends == "no response":
        first.session.send_no_response(first.started[0])
    else:
        first.receive(make_frame(2)[:-1])
        first.session.connection_lost("reset")
    assert not other.connection.paused


def test_closed_session_releases_queued_requests(harness, make_frame):
    harness.connection.ends_at_once = False
    harness.receive(b"".join(make_frame(number) for number in range(10)))
    harness.session.close_with_reason("for a reason")
    assert harness.memory.used == 3 * len(make_frame(0))


def test_session_has_a_partial_request_until_its_last_byte(harness, make_frame):
    complete = make_frame(0)
    assert not harness.session.has_partial_request
    harness.receive(complete[:1])
    assert harness.session.has_partial_request
    harness.receive(complete[1:-1])
    assert harness.session.has_partial_request
    harness.receive(complete[-1:])
    assert not harness.session.has_partial_request
