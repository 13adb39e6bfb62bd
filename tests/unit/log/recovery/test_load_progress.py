"""Progress of loading, summed over directories."""

from typing import Any, cast

from odradek.log.recovery.load_progress import LoadState, load_progress
from odradek.log.recovery.log_loader import RecoveryResult


def test_progress_is_summed_over_all_directories():
    finished, in_progress = LoadState(), LoadState()
    for state, total in ((finished, 1), (in_progress, 7)):
        state.total = total
        recovered = RecoveryResult()
        recovered.scanned_segments, recovered.scanned_bytes = 2, 1000 * total
        state.started.append(recovered)
    finished.loaded.append(cast(Any, None))
    assert load_progress([finished, in_progress]) == (1, 8, 4, 8000)
    assert load_progress([]) == (0, 0, 0, 0)


def test_recovery_counts_segments_and_bytes(harness):
    log = harness.create(segment_bytes=1000)
    for _ in range(20):
        harness.append(log)
    size_bytes, segments = log.size_bytes, len(log.segments)
    harness.open(had_clean_shutdown=False)
    assert segments > 1
    assert (harness.recovered.scanned_segments, harness.recovered.scanned_bytes) == (segments, size_bytes)
