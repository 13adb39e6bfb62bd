"""How far starts are, all directories together."""

from odradek.log.recovery.load_progress import LoadState, load_progress
from odradek.log.recovery.log_loader import RecoveryResult


def test_progress_is_that_of_all_directories_together():
    done, under_way = LoadState(), LoadState()
    for start, total in ((done, 1), (under_way, 7)):
        start.total = total
        recovered = RecoveryResult()
        recovered.scanned_segments, recovered.scanned_bytes = 2, 1000 * total
        start.begun.append(recovered)
    done.loaded.append(None)
    assert load_progress([done, under_way]) == (1, 8, 4, 8000)
    assert load_progress([]) == (0, 0, 0, 0)


def test_a_scan_counts_segments_and_bytes(bench):
    log = bench.create(segment_bytes=1000)
    for _ in range(20):
        bench.append(log)
    size_bytes, segments = log.size_bytes, len(log.segments)
    bench.open(had_clean_shutdown=False)
    assert segments > 1
    assert (bench.recovered.scanned_segments, bench.recovered.scanned_bytes) == (segments, size_bytes)
