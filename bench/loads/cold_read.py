"""Reads filled partitions from the disk over and over, dropping them from the page cache each time.

One connection for each partition, one Fetch of about 1 MB under way on each. It gives way to other programs
(nice): what it takes from them should be the broker's doing. At least one whole walk is made.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.loads.frames import fetch
from bench.loads.requests import RECEIVE_BYTES, Lane, drive
from bench.loads.worker import Result, Spec, serve
from bench.page_cache import must_evict

NICENESS = 10


def run(spec: Spec) -> Result:
    os.nice(NICENESS)
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    turns = [
        [fetch(spec["topic"], partition, offset, spec["bytes_max"]) for offset in spec["offsets"]]
        for partition in spec["partitions"]
    ]
    end = time.perf_counter() + spec["seconds"]
    answered_bytes, seconds, walks = 0, 0.0, 0
    while not walks or time.perf_counter() < end:
        must_evict([Path(path) for path in spec["files"]])
        began = time.perf_counter()
        lanes = [Lane(spec["port"], turn, 1) for turn in turns]
        for lane in lanes:
            lane.begin(len(spec["offsets"]))
        drive(lanes, buffer, float("inf"))
        answered_bytes += sum(lane.answered * lane.answer_bytes for lane in lanes)
        for lane in lanes:
            lane.socket.close()
        seconds += time.perf_counter() - began
        walks += 1
    return {"bytes": answered_bytes, "seconds": seconds, "walks": walks}


if __name__ == "__main__":
    serve(run)
