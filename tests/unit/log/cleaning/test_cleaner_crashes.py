"""A crash at every file operation of a cleaning loses nothing, and the next cleaning completes it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from odradek.testing.clock import VirtualClock, run_virtually
from odradek.testing.files import MemoryFile, MemoryFileSystem

from .cleaner_harness import ORDERS, CleanerHarness, compacted, latest_by_key

Operations = tuple[list[str], list[str]]


class PowerLost(BaseException):
    """Simulates a power loss; must not be handled by the code under test."""


class CountingFiles(MemoryFileSystem):
    """Counts file operations and raises ``PowerLost`` before the configured one."""

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


async def fill(harness: CleanerHarness) -> None:
    """Write three segments in two groups, with values, tombstones and aborted records."""
    for number in range(8):
        harness.append((b"%d" % (number % 3), b"%d" % number * 20))
    await harness.seal()
    harness.append((b"0", None), (b"3", b"three"))
    harness.append((b"1", b"done"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    harness.abort(7)
    await harness.seal()
    harness.append((b"2", b"two"), (b"4", b"x" * 150))
    harness.append((b"4", b"four"))
    await harness.seal()
    harness.append((b"3", b"in the last segment"))
    await harness.log.flush()
    await harness.directory.checkpoint_recovery_points()


def crash_at(step: int | None, entropy: Any, *, power: bool, start_step: int | None = None) -> Operations:
    """Clean up to an operation, crash, restart and check; return the operations of cleaning and restart.

    With ``start_step`` the first restart crashes after that many operations, and another one follows.
    """

    async def main() -> Operations:
        clock = VirtualClock(asyncio.get_running_loop())
        files = CountingFiles(clock.wall_ms)
        harness = await CleanerHarness(
            files, clock, entropy, compacted(segment_bytes=700, delete_retention_ms=0)
        ).open()
        await fill(harness)
        before, end_offset = harness.records(), harness.log.log_end_offset
        latest = latest_by_key(record for record in before if record[0] != ABORTED_OFFSET)
        cleaning_operations = await run_until(harness, files, harness.clean, step)
        end(harness, files, entropy, power)
        restart_operations = await run_until(harness, files, harness.open, start_step)
        if start_step is not None:
            end(harness, files, entropy, power)
            await harness.open()
        check(harness, before, latest, end_offset)
        assert harness.names(".cleaned", ".swap", ".deleted") == []
        await harness.clean_all()
        check(harness, before, latest, end_offset)
        cleaned = harness.directory.cleaned_offsets[ORDERS]
        assert cleaned == harness.log.segments[-1].base_offset
        left = [record for record in harness.records() if record[0] < cleaned]
        assert len({key for _, key, _ in left}) == len(left)
        return cleaning_operations, restart_operations

    return run_virtually(main)


async def run_until(
    harness: CleanerHarness, files: CountingFiles, work: Callable[[], Awaitable[Any]], step: int | None
) -> list[str]:
    """Run up to an operation; return the operations that were done."""
    files.begin(step)
    with suppress(PowerLost):
        await work()
    operations = files.operations
    files.begin(None)
    return operations


def end(harness: CleanerHarness, files: CountingFiles, entropy: Any, power: bool) -> None:
    if power:
        files.crash(entropy)
    else:
        harness.directory.abandon()


def check(harness: CleanerHarness, before: list[Any], latest: dict[bytes, Any], end_offset: int) -> None:
    after = harness.records()
    assert set(after) <= set(before)
    assert harness.log.log_end_offset == end_offset
    kept = latest_by_key(after)
    if kept[b"1"] == (ABORTED_OFFSET, b"done"):
        del kept[b"1"]  # not cleaned yet: consumers know that it was aborted
        kept |= latest_by_key(record for record in after if record[0] < ABORTED_OFFSET and record[1] == b"1")
        assert [entry.first_offset for entry in harness.log.aborted_transactions_between(0, end_offset)] == [
            ABORTED_OFFSET
        ]
    for key, (offset, value) in latest.items():
        if value is not None:
            assert kept[key] == (offset, value), key
        else:
            assert key not in kept or kept[key] == (offset, None), key


@pytest.mark.parametrize("power", [True, False], ids=["power lost", "process killed"])
def test_crash_at_any_step_keeps_the_latest_record_of_each_key(
    new_entropy: Callable[[int], Any], power: bool
) -> None:
    operations, _ = crash_at(None, new_entropy(0), power=power)
    assert sum(operation.startswith("rename") for operation in operations) > 15
    for step in range(len(operations) + 1):
        for seed in range(4 if power else 1):
            crash_at(step, new_entropy(seed), power=power)


@pytest.mark.parametrize("power", [True, False], ids=["power lost", "process killed"])
def test_recovery_of_a_swap_can_be_interrupted(new_entropy: Callable[[int], Any], power: bool) -> None:
    operations, _ = crash_at(None, new_entropy(0), power=power)
    interrupted = 0
    for step in [step for step, operation in enumerate(operations) if operation.startswith("rename")]:
        _, restart_operations = crash_at(step, new_entropy(step), power=power)
        if any(".swap" in operation for operation in restart_operations):
            interrupted += 1
            for start_step in range(len(restart_operations)):
                crash_at(step, new_entropy(step), power=power, start_step=start_step)
    assert interrupted > 5
