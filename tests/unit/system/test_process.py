"""Freezing of the heap."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from odradek.system.process import STEP_PARTITIONS, FrozenHeap, collect_garbage_less_often


@pytest.fixture
def heap() -> Iterator[FrozenHeap]:
    gc.unfreeze()  # the interpreter may have frozen some at its start
    yield FrozenHeap()
    gc.unfreeze()


def test_heap_is_frozen_as_partitions_are_added(heap: FrozenHeap) -> None:
    heap.resized(STEP_PARTITIONS - 1)
    assert gc.get_freeze_count() == 0
    heap.resized(STEP_PARTITIONS)
    frozen = gc.get_freeze_count()
    assert frozen > 0
    kept: list[list[int]] = [[] for _ in range(1000)]
    heap.resized(2 * STEP_PARTITIONS - 1)
    assert gc.get_freeze_count() < frozen + len(kept)
    heap.resized(2 * STEP_PARTITIONS)
    assert gc.get_freeze_count() >= frozen + len(kept)


def test_heap_is_unfrozen_after_many_partitions_are_removed(heap: FrozenHeap) -> None:
    heap.freeze(2 * STEP_PARTITIONS)
    heap.resized(STEP_PARTITIONS + 1)
    assert gc.get_freeze_count() > 0
    heap.resized(STEP_PARTITIONS)
    assert gc.get_freeze_count() == 0
    heap.resized(2 * STEP_PARTITIONS)
    assert gc.get_freeze_count() > 0


def test_objects_of_a_large_request_cause_no_full_collection() -> None:
    thresholds = gc.get_threshold()
    try:
        collect_garbage_less_often()
        gc.collect()
        full = gc.get_stats()[2]["collections"]
        kept: list[list[int]] = [[] for _ in range(500_000)]
        assert gc.get_stats()[2]["collections"] == full
        kept.extend([] for _ in range(1_500_000))
        assert gc.get_stats()[2]["collections"] > full, "cycles are still found"
    finally:
        gc.set_threshold(*thresholds)
