"""Memory is counted, never exceeded, and given out in the order of asking."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.client.producer.accumulator.buffer_pool import BufferPool, Waiter


def test_a_buffer_of_the_one_size_is_used_again() -> None:
    pool = BufferPool(1000, 100)
    assert pool.take(100)
    used = bytearray(100)
    pool.give_back(100, used)
    assert pool.take(100)
    assert pool.buffer(100) is used
    assert pool.buffer(100) is None


def test_buffers_of_other_sizes_are_not_kept() -> None:
    pool = BufferPool(1000, 100)
    assert pool.take(300)
    pool.give_back(300, bytearray(300))
    assert pool.kept_count == 0
    assert pool.available_bytes == 1000


def test_a_buffer_that_has_grown_is_not_kept() -> None:
    pool = BufferPool(1000, 100)
    assert pool.take(100)
    pool.give_back(100, bytearray(200))
    assert pool.kept_count == 0


def test_buffers_that_batches_grow_to_are_kept_too_but_not_more_than_is_free() -> None:
    pool = BufferPool(1000, 100, (400,))
    assert pool.take(800)
    for _ in range(2):
        pool.give_back(400, bytearray(400))
    pool.keep(bytearray(100))
    pool.keep(bytearray(400))
    assert (pool.kept_count, pool.kept_bytes) == (3, 900)
    assert pool.take(400)
    assert pool.buffer(400) is not None
    assert (pool.kept_count, pool.kept_bytes) == (2, 500)
    assert pool.take(300)
    assert pool.buffer(300) is None
    assert pool.kept_bytes <= pool.available_bytes


def test_spare_memory_is_what_lies_above_half() -> None:
    pool = BufferPool(1000, 100)
    assert pool.take_spare(400)
    assert not pool.take_spare(101)
    assert pool.take_spare(100)
    assert pool.take(500)


def test_who_waits_is_not_overtaken_by_a_smaller_wish() -> None:
    pool = BufferPool(1000, 100)
    assert pool.take(900)
    first = pool.queue(500)
    assert not pool.take(100), "there is room for it, and somebody was here before"
    second = pool.queue(50)
    assert pool.give_back(900) == [first, second]
    assert pool.available_bytes == 450


def test_who_gives_up_lets_the_next_one_in() -> None:
    pool = BufferPool(1000, 100)
    assert pool.take(900)
    first, second = pool.queue(500), pool.queue(50)
    assert pool.leave(first) == [second]
    assert pool.available_bytes == 50


def test_memory_granted_and_not_used_goes_to_the_next() -> None:
    pool = BufferPool(100, 100)
    assert pool.take(100)
    first, second = pool.queue(100), pool.queue(100)
    assert pool.give_back(100) == [first]
    assert pool.leave(first) == [second]


@given(st.lists(st.tuples(st.sampled_from(["take", "back", "leave"]), st.integers(1, 120)), max_size=60))
def test_nothing_is_lost_and_turns_are_kept(steps: list[tuple[str, int]]) -> None:
    pool = BufferPool(200, 50)
    used: list[int] = []
    line: list[Waiter] = []

    def told(granted: list[Waiter]) -> None:
        for waiter in granted:
            assert waiter is line.pop(0), "turns are kept"
            used.append(waiter.size_bytes)

    for step, size in steps:
        if step == "take":
            if pool.take(size):
                used.append(size)
            else:
                waiter = pool.queue(size)
                assert not waiter.granted
                line.append(waiter)
        elif step == "back" and used:
            told(pool.give_back(used.pop(0)))
        elif step == "leave" and line:
            told(pool.leave(line.pop(size % len(line))))
        assert pool.available_bytes + sum(used) == pool.memory_bytes
        assert not line or line[0].size_bytes > pool.available_bytes
