"""Short fuzzing runs with a fixed seed; ``make fuzz`` is the long one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.fuzz.attempt_fuzzer import MODES, AttemptFuzzer, authenticated_fuzzer, secured_broker
from tests.fuzz.fuzzer import Fuzzer, report
from tests.support.fixtures import StartBroker

FRAMES = 12_000
ATTEMPT_FRAMES = 3_000
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


@pytest.mark.parametrize("mode", MODES)
def test_nobody_gets_in_and_honest_clients_are_served(tmp_path: Path, mode: str) -> None:
    broker = secured_broker(tmp_path)
    began = time.monotonic()
    fuzzer = AttemptFuzzer(broker, mode, SEED)
    counts = fuzzer.run(ATTEMPT_FRAMES)
    print(mode, fuzzer.attempts, report(counts, SEED, began))
    assert counts.frames >= ATTEMPT_FRAMES
    assert counts.closed == fuzzer.attempts
    broker.stop()


def test_broker_survives_frames_of_an_authenticated_client(tmp_path: Path) -> None:
    broker = secured_broker(tmp_path)
    began = time.monotonic()
    counts = authenticated_fuzzer(broker, SEED, tmp_path / "failures").run(ATTEMPT_FRAMES)
    print(report(counts, SEED, began))
    assert counts.responses > ATTEMPT_FRAMES // 10
    broker.stop()
