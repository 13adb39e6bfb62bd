"""A short fuzzing run with a fixed seed; ``make fuzz`` is the long one."""

from __future__ import annotations

import time
from pathlib import Path

from tests.fuzz.fuzzer import Fuzzer, report
from tests.support.fixtures import StartBroker

FRAMES = 12_000
SEED = 1915


def test_broker_survives_frames_of_every_api_and_version(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker()
    began = time.monotonic()
    counts = Fuzzer(broker.bootstrap, broker, SEED, tmp_path / "failures").run(FRAMES)
    print(report(counts, SEED, began))
    assert broker.is_running
    assert counts.frames >= FRAMES
    assert counts.responses > FRAMES // 10
    assert counts.closed > 0
