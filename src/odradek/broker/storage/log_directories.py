"""Log directories from start to stop: locked, identified, loaded, closed.

A directory that fails during the start is taken offline, and the start goes on without it while one is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from odradek.log.directory.directory_lock import unusable_directory
from odradek.log.directory.log_directory import LogDirectory
from odradek.log.log_config import LogConfig
from odradek.log.log_manager import LogManager
from odradek.log.recovery.load_progress import LoadProgress, load_progress, recovery_summary
from odradek.model.errors import StorageError
from odradek.ports.clock import Clock
from odradek.ports.files import FileSystem
from odradek.store import meta_properties
from odradek.telemetry import events

LOADING_PROGRESS_INTERVAL_MS: Final = 3_000
"""Interval of progress reports while logs are loaded."""

log = events.logger("broker")


def read_meta_properties(
    files: FileSystem, log_manager: LogManager
) -> dict[str, meta_properties.MetaProperties]:
    """Return the properties of the online directories, by path."""
    properties = {}
    for directory in log_manager:
        with _offline_on_error(directory):
            properties.update(meta_properties.read_all(files, [directory.path]))
    log_manager.require_one()
    return properties


def write_meta_properties(
    files: FileSystem, log_manager: LogManager, broker_id: int, cluster_id: str, now_ms: int
) -> None:
    for directory in log_manager:
        with _offline_on_error(directory):
            meta_properties.write_all(files, [directory.path], broker_id, cluster_id, now_ms)
    log_manager.require_one()


@contextmanager
def _offline_on_error(directory: LogDirectory) -> Iterator[None]:
    """Take a directory offline on an OSError and continue the start without it."""
    try:
        yield
    except OSError as error:
        directory.fail(unusable_directory(directory.path, error))
        directory.abandon()


async def load_logs(
    log_manager: LogManager,
    log_config_of: Callable[[str], LogConfig],
    clock: Clock,
    threads: int,
    on_progress: Callable[[LoadProgress], None],
) -> None:
    """Load all logs; ``on_progress`` is called periodically meanwhile."""
    now_ms = clock.monotonic_ms()
    reporter = asyncio.get_running_loop().create_task(_report_loading(log_manager, clock, on_progress))
    try:
        await log_manager.load(log_config_of, now_ms, threads=threads)
    finally:
        reporter.cancel()
    took_ms = clock.monotonic_ms() - now_ms
    log.info("logs_loaded", logs=sum(directory.log_count for directory in log_manager), took_ms=took_ms)
    _log_recovered(log_manager, took_ms)


async def _report_loading(
    log_manager: LogManager, clock: Clock, on_progress: Callable[[LoadProgress], None]
) -> None:
    states = [directory.loading for directory in log_manager]
    while True:
        await clock.sleep_ms(LOADING_PROGRESS_INTERVAL_MS)
        on_progress(load_progress(states))


def _log_recovered(log_manager: LogManager, took_ms: int) -> None:
    states = [directory.loading for directory in log_manager if not directory.had_clean_shutdown]
    if any(loading.total for loading in states):
        log.warning("unclean_stop_recovered", **recovery_summary(states)._asdict(), took_ms=took_ms)
    for directory in log_manager:
        for problem in directory.problems:
            log.warning("checkpoint_not_read", reason=problem)
        for partition, failure in directory.unusable.items():
            log.error("log_unusable", partition=partition, reason=str(failure))
        for partition, result in directory.loading.recovered:
            log.debug("log_recovered", partition=partition, segments=result.scanned_segments)
            if result.problem is not None:
                log.warning(
                    "log_truncated_on_recovery",
                    partition=partition,
                    truncated_bytes=result.truncated_bytes,
                    dropped_segments=result.dropped_segments,
                    reason=result.problem,
                )


async def close_directories(
    log_manager: LogManager, broker_epoch: int, threads: int, *, is_start_complete: bool
) -> list[StorageError]:
    """Close all, so that one that fails to close does not cause a recovery of the others."""
    failures = []
    log_manager.on_failure = lambda _: None  # no requests are served any more
    for directory in log_manager:
        try:
            await directory.close(
                broker_epoch=broker_epoch, threads=threads, is_start_complete=is_start_complete
            )
        except StorageError as error:
            log.error("directory_not_closed", path=directory.path, reason=str(error))
            failures.append(error)
    return failures
