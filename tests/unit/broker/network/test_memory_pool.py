"""Memory of requests over all connections: its bound, and who may read at the bound."""

import pytest

from odradek.broker.network.memory_pool import (
    BYTES_MAX_DEFAULT,
    FAVOUR_MS_MAX,
    SHARE_BYTES,
    RequestMemory,
    bound_of,
)


class Reader:
    def __init__(self, memory: RequestMemory, held_bytes: int, partial: bool = True) -> None:
        self.memory = memory
        self.held_bytes = held_bytes
        self.has_partial_request = partial
        self.paused = False
        self.ended: list[str] = []
        memory.used += held_bytes

    def look(self) -> None:
        """Decide whether to read on, as a session does after each read."""
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

    def answered(self) -> None:
        self.memory.used -= self.held_bytes
        self.held_bytes = 0
        if self.memory.waiting:
            self.memory.wake()

    def read_on(self) -> None:
        self.look()

    def end(self, reason: str) -> None:
        self.ended.append(reason)
        self.memory.used -= self.held_bytes
        self.memory.forget(self)


LIMIT = 10 * SHARE_BYTES


@pytest.fixture
def memory() -> RequestMemory:
    return RequestMemory(LIMIT)


def held(memory: RequestMemory, count: int, each: int = 2 * SHARE_BYTES) -> list[Reader]:
    readers = [Reader(memory, each) for _ in range(count)]
    for reader in readers:
        reader.look()
    return readers


def test_below_the_bound_everyone_reads(memory):
    assert not any(reader.paused for reader in held(memory, 4))


def test_at_the_bound_all_but_one_of_those_that_hold_much_stop(memory):
    readers = held(memory, 6)
    assert [reader.paused for reader in readers] == [False] + [True] * 5


def test_at_the_bound_small_requests_are_still_read(memory):
    held(memory, 6)
    modest = Reader(memory, 100)
    modest.look()
    assert not modest.paused


def test_at_twice_the_bound_nobody_but_the_favoured_reads(memory):
    readers = held(memory, 10)
    modest = Reader(memory, 100, partial=False)
    modest.look()
    assert modest.paused
    assert sum(not reader.paused for reader in readers) == 1


def test_those_who_wait_read_on_when_there_is_room(memory):
    readers = held(memory, 6)
    readers[0].complete()
    readers[0].answered()
    readers[1].complete()
    readers[1].answered()
    assert not any(reader.paused for reader in readers)


def test_the_next_is_favoured_once_the_first_has_its_request(memory):
    readers = held(memory, 8)
    readers[0].receive(SHARE_BYTES)
    assert not readers[0].paused, "it goes on until its request is complete"
    readers[0].complete()
    assert [reader.paused for reader in readers[:3]] == [True, False, True]


def test_the_next_is_favoured_though_the_first_was_answered_at_once(memory):
    readers = held(memory, 10)
    readers[0].has_partial_request = False
    readers[0].answered()
    assert [reader.paused for reader in readers[1:4]] == [False, True, True]


def test_all_requests_come_through_in_the_end(memory):
    readers = held(memory, 30)
    for _ in range(100):
        for reader in readers:
            if not reader.paused and reader.has_partial_request:
                reader.receive(SHARE_BYTES // 2)
                reader.complete()
                reader.answered()
    assert not any(reader.has_partial_request for reader in readers)


def test_a_favoured_connection_that_never_completes_its_request_is_closed(memory):
    readers = held(memory, 7)
    memory.close_stalled(0)
    memory.close_stalled(FAVOUR_MS_MAX - 1)
    assert readers[0].ended == []
    memory.close_stalled(FAVOUR_MS_MAX)
    assert "must be complete within" in readers[0].ended[0]
    assert not readers[1].paused, "the next one has its chance"
    memory.close_stalled(FAVOUR_MS_MAX + 1)
    assert readers[1].ended == []


def test_a_session_that_is_gone_is_neither_favoured_nor_woken(memory):
    readers = held(memory, 7)
    memory.forget(readers[1])
    readers[0].complete()
    assert readers[1].paused
    assert not readers[2].paused


@pytest.mark.parametrize(
    ("queued", "largest", "expected"),
    [(-1, 100, BYTES_MAX_DEFAULT), (5000, 100, 5000), (5000, 9000, 9000), (-1, 1 << 31, 1 << 31)],
)
def test_the_bound_is_the_setting_and_has_room_for_one_request(queued, largest, expected):
    assert bound_of(queued, largest) == expected


def test_a_session_counts_what_it_receives_until_it_is_answered(bench, make_frame):
    data = make_frame(0) + make_frame(1) + make_frame(2)[:5]
    bench.receive(data)
    assert bench.memory.used == len(data) == bench.session.held_bytes
    bench.answer(0)
    assert bench.memory.used == len(make_frame(1)) + 5
    bench.session.connection_lost(None)
    assert bench.memory.used == len(make_frame(1)), "it is still under way"
    bench.answer(1)
    assert bench.memory.used == 0


def test_requests_that_wait_are_released_with_their_connection(bench, make_frame):
    bench.receive(b"".join(make_frame(number) for number in range(10)))
    bench.session.connection_lost("reset")
    assert bench.memory.used == 3 * len(make_frame(0))


def test_one_that_holds_its_share_and_no_more_reads_at_the_bound(memory):
    held(memory, 6)
    for held_bytes, may_read in ((SHARE_BYTES, True), (SHARE_BYTES + 1, False)):
        assert memory.may_read(Reader(memory, held_bytes)) is may_read


def test_those_who_read_on_are_not_favoured_when_the_bound_is_reached_again(memory):
    readers = held(memory, 6)
    memory.used -= 6 * SHARE_BYTES
    memory.wake()
    assert not any(reader.paused for reader in readers)
    (late,) = held(memory, 1, 4 * SHARE_BYTES)
    assert memory.used >= memory.limit
    assert not late.paused, "it is the first that stopped since then"


def test_the_favoured_stays_favoured_while_others_are_answered(memory):
    readers = held(memory, 7)
    memory.wake()
    assert [reader.paused for reader in readers] == [False] + [True] * 6
    memory.used -= 2 * SHARE_BYTES
    memory.wake()
    assert [reader.paused for reader in readers] == [False] + [True] * 6


def test_a_wake_with_nobody_favoured_does_nothing(memory):
    whole = Reader(memory, 2 * LIMIT, partial=False)
    whole.look()
    memory.wake()
    assert (whole.paused, memory.waiting) == (True, {whole})
    memory.forget(whole)
    assert memory.waiting == set()


def test_nobody_is_closed_while_there_is_room_or_nobody_is_favoured(memory):
    for now_ms in (0, FAVOUR_MS_MAX):
        memory.close_stalled(now_ms)
    readers = held(memory, 6)
    memory.used -= 5 * SHARE_BYTES
    for now_ms in (0, FAVOUR_MS_MAX):
        memory.close_stalled(now_ms)
    memory.used += 5 * SHARE_BYTES
    memory.close_stalled(2 * FAVOUR_MS_MAX)
    assert not any(reader.ended for reader in readers), "the time begins anew"


@pytest.mark.parametrize("ends", ["answer", "no answer", "loss"])
def test_a_session_reads_on_once_requests_of_others_release_memory(new_bench, make_frame, ends):
    memory = RequestMemory(4 * len(make_frame(0)))
    one, other = new_bench(memory=memory), new_bench(memory=memory)
    one.receive(make_frame(0) + make_frame(1))
    memory.used += 2 * memory.limit
    other.receive(make_frame(0))
    assert other.connection.paused
    memory.used -= 2 * memory.limit
    if ends == "answer":
        one.answer(0)
    elif ends == "no answer":
        one.session.answer_nothing(one.begun[0])
    else:
        one.receive(make_frame(2)[:-1])
        one.session.connection_lost("reset")
    assert not other.connection.paused


def test_a_session_that_ends_releases_what_waits_and_is_not_begun(bench, make_frame):
    bench.connection.ends_at_once = False
    bench.receive(b"".join(make_frame(number) for number in range(10)))
    bench.session.end("for a reason")
    assert bench.memory.used == 3 * len(make_frame(0))


def test_a_session_has_a_partial_request_until_its_last_byte(bench, make_frame):
    whole = make_frame(0)
    assert not bench.session.has_partial_request
    bench.receive(whole[:1])
    assert bench.session.has_partial_request
    bench.receive(whole[1:-1])
    assert bench.session.has_partial_request
    bench.receive(whole[-1:])
    assert not bench.session.has_partial_request
