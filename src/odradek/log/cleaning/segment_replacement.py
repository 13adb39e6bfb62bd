"""Replacement of segments by a cleaned one."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.log.local_log import LocalLog
from odradek.log.segments.cleaned_segment import CleanedSegment
from odradek.log.segments.log_segment import LogSegment


async def replace_segments(
    log: LocalLog,
    old: Sequence[LogSegment],
    cleaned: CleanedSegment,
    truncation_count: int,
    monotonic_ms: int,
) -> bool:
    """Replace source segments by a cleaned segment that is complete and synced.

    Returns False, without any change, if a source segment was removed or the log was truncated since
    ``truncation_count``. Reads of the old segments can finish; their files are deleted later.
    """
    files = old[0].context.files
    async with log.maintenance_lock():
        log.disk_health.check()
        if truncation_count != log.truncation_count or not log.segments.contains_run(old):
            return False
        log.swap = cleaned
        try:
            await files.offload(cleaned.rename_to_swap)
        except FileNotFoundError:  # the directory may have been renamed for deletion
            return False
        except OSError as error:
            raise log.disk_health.error_for(error, "replace segments of") from error
        finally:
            log.swap = None
        if truncation_count != log.truncation_count or not log.segments.contains_run(old):
            await files.offload(cleaned.discard)
            return False
        due_ms = monotonic_ms + log.config.file_delete_delay_ms
        try:
            log.pending_deletes.add(old[:1], due_ms, keeps_snapshots=True)
            log.pending_deletes.add(old[1:], due_ms)
            new = cleaned.finish_swap()
        except OSError as error:
            raise log.disk_health.fail(error, "replace segments of") from error
        log.segments.replace(old, new)
        await log.sync_names()
        return True
