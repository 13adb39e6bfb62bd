"""Reads filled partitions from disk repeatedly, evicting them from the page cache each time.

One connection per partition, with one Fetch of about 1 MB in flight. Runs with low priority (nice), so that
its effect on other programs comes from the broker. At least one complete pass is made.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.fixtures.page_cache import must_evict
from bench.loads.broker.frames import fetch
from bench.loads.broker.requests import RECEIVE_BYTES, Lane, drive
from bench.loads.worker import Result, Spec, serve

NICENESS = 10


def run(spec: Spec) -> Result:
    os.nice(NICENESS)
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    turns = [
        [fetch(spec["topic"], partition, offset, spec["bytes_max"]) for offset in spec["offsets"]]
        for partition in spec["partitions"]
    ]
    end = time.perf_counter() + spec["seconds"]
    response_bytes, seconds, passes = 0, 0.0, 0
    while not passes or time.perf_counter() < end:
        must_evict([Path(path) for path in spec["files"]])
        began = time.perf_counter()
        lanes = [Lane(spec["port"], turn, 1) for turn in turns]
        for lane in lanes:
            lane.begin(len(spec["offsets"]))
        drive(lanes, buffer, float("inf"))
        response_bytes += sum(lane.completed_count * lane.response_bytes for lane in lanes)
        for lane in lanes:
            lane.socket.close()
        seconds += time.perf_counter() - began
        passes += 1
    return {"bytes": response_bytes, "seconds": seconds, "passes": passes}


if __name__ == "__main__":
    serve(run)
