"""A crash at every single step of a compaction: nothing is lost or damaged, and a next round ends it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from odradek.testing.clock import VirtualClock, run_virtually
from odradek.testing.files import MemoryFile, MemoryFileSystem

from .cleaner_fixture import ORDERS, Yard, compacted, newest_of

Operations = tuple[list[str], list[str]]


class PowerLost(BaseException):
    """The machine is gone; nothing that runs on it may go on."""


class CountingFiles(MemoryFileSystem):
    """Counts what changes files and names, and loses power before the operation that is to be the last."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__(now_ms)
        self.operations: list[str] = []
        self.last: int | None = None

    def count(self, what: str) -> None:
        if self.last is not None and len(self.operations) >= self.last:
            raise PowerLost
        self.operations.append(what)

    def begin(self, last: int | None) -> None:
        self.operations, self.last = [], last

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> MemoryFile:
        if create and not self.exists(path):
            self.count(f"create {path}")
        return super().open(path, create=create, writable=writable)

    def write(self, path: str, inode: Any, position: int, data: bytes) -> None:
        self.count(f"write {path}")
        super().write(path, inode, position, data)

    def refuse_sync(self, path: str) -> None:
        self.count(f"sync {path}")
        super().refuse_sync(path)

    def rename(self, old: str, new: str) -> None:
        if self.exists(old):
            self.count(f"rename {old}")
        super().rename(old, new)

    def remove(self, path: str) -> None:
        if self.exists(path):
            self.count(f"remove {path}")
        super().remove(path)


ABORTED_OFFSET = 10


async def fill(yard: Yard) -> None:
    """Three segments that make two groups, with what may stay and go: values, tombstones, aborted records."""
    for number in range(8):
        yard.append((b"%d" % (number % 3), b"%d" % number * 20))
    await yard.seal()
    yard.append((b"0", None), (b"3", b"three"))
    yard.append((b"1", b"done"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    yard.abort(7)
    await yard.seal()
    yard.append((b"2", b"two"), (b"4", b"x" * 150))
    yard.append((b"4", b"four"))
    await yard.seal()
    yard.append((b"3", b"in the last segment"))
    await yard.log.flush()
    await yard.directory.checkpoint_recovery_points()


def crash_at(step: int | None, chance: Any, *, power: bool, start_step: int | None = None) -> Operations:
    """Compact up to an operation, end, start again, and check; gives the operations of round and start.

    With ``start_step`` the first start ends after so many operations, and another one follows.
    """

    async def main() -> Operations:
        clock = VirtualClock(asyncio.get_running_loop())
        files = CountingFiles(clock.wall_ms)
        yard = await Yard(files, clock, chance, compacted(segment_bytes=700, delete_retention_ms=0)).open()
        await fill(yard)
        before, end_offset = yard.records(), yard.log.log_end_offset
        newest = newest_of(one for one in before if one[0] != ABORTED_OFFSET)
        of_round = await attempt(yard, files, yard.clean, step)
        end(yard, files, chance, power)
        of_start = await attempt(yard, files, yard.open, start_step)
        if start_step is not None:
            end(yard, files, chance, power)
            await yard.open()
        check(yard, before, newest, end_offset)
        assert yard.names(".cleaned", ".swap", ".deleted") == []
        await yard.clean_all()
        check(yard, before, newest, end_offset)
        cleaned = yard.directory.cleaned_offsets[ORDERS]
        assert cleaned == yard.log.segments[-1].base_offset
        left = [one for one in yard.records() if one[0] < cleaned]
        assert len({key for _, key, _ in left}) == len(left)
        return of_round, of_start

    return run_virtually(main)


async def attempt(
    yard: Yard, files: CountingFiles, work: Callable[[], Awaitable[Any]], step: int | None
) -> list[str]:
    """Do something up to an operation, and give those that were done."""
    files.begin(step)
    with suppress(PowerLost):
        await work()
    operations = files.operations
    files.begin(None)
    return operations


def end(yard: Yard, files: CountingFiles, chance: Any, power: bool) -> None:
    if power:
        files.crash(chance)
    else:
        yard.directory.abandon()


def check(yard: Yard, before: list[Any], newest: dict[bytes, Any], end_offset: int) -> None:
    after = yard.records()
    assert set(after) <= set(before)
    assert yard.log.log_end_offset == end_offset
    kept = newest_of(after)
    if kept[b"1"] == (ABORTED_OFFSET, b"done"):
        del kept[b"1"]  # not compacted yet: readers know that it was aborted
        kept |= newest_of(one for one in after if one[0] < ABORTED_OFFSET and one[1] == b"1")
        assert [one.first_offset for one in yard.log.aborted_transactions_between(0, end_offset)] == [
            ABORTED_OFFSET
        ]
    for key, (offset, value) in newest.items():
        if value is not None:
            assert kept[key] == (offset, value), key
        else:
            assert key not in kept or kept[key] == (offset, None), key


@pytest.mark.parametrize("power", [True, False], ids=["power lost", "process killed"])
def test_a_crash_at_any_step_leaves_the_newest_record_of_each_key(
    new_chance: Callable[[int], Any], power: bool
) -> None:
    operations, _ = crash_at(None, new_chance(0), power=power)
    assert sum(one.startswith("rename") for one in operations) > 15
    for step in range(len(operations) + 1):
        for seed in range(4 if power else 1):
            crash_at(step, new_chance(seed), power=power)


@pytest.mark.parametrize("power", [True, False], ids=["power lost", "process killed"])
def test_a_start_that_ends_a_swap_may_itself_be_interrupted(
    new_chance: Callable[[int], Any], power: bool
) -> None:
    operations, _ = crash_at(None, new_chance(0), power=power)
    interrupted = 0
    for step in [at for at, one in enumerate(operations) if one.startswith("rename")]:
        _, of_start = crash_at(step, new_chance(step), power=power)
        if any(".swap" in one for one in of_start):
            interrupted += 1
            for start_step in range(len(of_start)):
                crash_at(step, new_chance(step), power=power, start_step=start_step)
    assert interrupted > 5
