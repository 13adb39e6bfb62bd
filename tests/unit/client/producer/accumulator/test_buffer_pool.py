"""Buffer pool: memory is never exceeded, and allocated in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.client.producer.accumulator.buffer_pool import BufferPool, Waiter


def test_buffer_of_batch_size_is_reused() -> None:
    pool = BufferPool(1000, 100)
    assert pool.try_allocate(100)
    used = bytearray(100)
    pool.deallocate(100, used)
    assert pool.try_allocate(100)
    assert pool.buffer(100) is used
    assert pool.buffer(100) is None


def test_buffers_of_other_sizes_are_not_kept() -> None:
    pool = BufferPool(1000, 100)
    assert pool.try_allocate(300)
    pool.deallocate(300, bytearray(300))
    assert pool.kept_bytes == 0
    assert pool.available_bytes == 1000


def test_resized_buffer_is_not_kept() -> None:
    pool = BufferPool(1000, 100)
    assert pool.try_allocate(100)
    pool.deallocate(100, bytearray(200))
    assert pool.kept_bytes == 0


def test_grown_buffers_are_kept_up_to_the_free_memory() -> None:
    pool = BufferPool(1000, 100, (400,))
    assert pool.try_allocate(800)
    for _ in range(2):
        pool.deallocate(400, bytearray(400))
    pool.keep(bytearray(100))
    pool.keep(bytearray(400))
    assert pool.kept_bytes == 900
    assert pool.try_allocate(400)
    assert pool.buffer(400) is not None
    assert pool.kept_bytes == 500
    assert pool.try_allocate(300)
    assert pool.buffer(300) is None
    assert pool.kept_bytes <= pool.available_bytes


def test_spare_memory_is_above_half_of_the_total() -> None:
    pool = BufferPool(1000, 100)
    assert pool.try_allocate_spare(400)
    assert not pool.try_allocate_spare(101)
    assert pool.try_allocate_spare(100)
    assert pool.try_allocate(500)


def test_waiter_is_not_overtaken_by_a_smaller_request() -> None:
    pool = BufferPool(1000, 100)
    assert pool.try_allocate(900)
    first = pool.enqueue(500)
    assert not pool.try_allocate(100), "there is memory, but another allocation is waiting"
    second = pool.enqueue(50)
    assert pool.deallocate(900) == [first, second]
    assert pool.available_bytes == 450


def test_leaving_waiter_lets_the_next_one_in() -> None:
    pool = BufferPool(1000, 100)
    assert pool.try_allocate(900)
    first, second = pool.enqueue(500), pool.enqueue(50)
    assert pool.cancel(first) == [second]
    assert pool.available_bytes == 50


def test_granted_unused_memory_goes_to_the_next_waiter() -> None:
    pool = BufferPool(100, 100)
    assert pool.try_allocate(100)
    first, second = pool.enqueue(100), pool.enqueue(100)
    assert pool.deallocate(100) == [first]
    assert pool.cancel(first) == [second]


@given(
    st.lists(
        st.tuples(st.sampled_from(["allocate", "deallocate", "cancel"]), st.integers(1, 120)), max_size=60
    )
)
def test_memory_is_conserved_and_granted_in_order(steps: list[tuple[str, int]]) -> None:
    pool = BufferPool(200, 50)
    used: list[int] = []
    waiters: list[Waiter] = []

    def on_granted(granted: list[Waiter]) -> None:
        for waiter in granted:
            assert waiter is waiters.pop(0), "granted in order"
            used.append(waiter.size_bytes)

    for step, size in steps:
        if step == "allocate":
            if pool.try_allocate(size):
                used.append(size)
            else:
                waiter = pool.enqueue(size)
                assert not waiter.granted
                waiters.append(waiter)
        elif step == "deallocate" and used:
            on_granted(pool.deallocate(used.pop(0)))
        elif step == "cancel" and waiters:
            on_granted(pool.cancel(waiters.pop(size % len(waiters))))
        assert pool.available_bytes + sum(used) == pool.memory_bytes
        assert not waiters or waiters[0].size_bytes > pool.available_bytes
