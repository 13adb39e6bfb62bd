"""Fuzz a broker from the command line: ``python -m tests.fuzz.run --frames 1000000 --seed 7``.

Starts a broker of its own unless ``--bootstrap`` names one. Ends with status 1 if the broker broke a rule;
``--replay FILE`` sends again what was saved then.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fuzz.fuzzer import Fuzzer, FuzzFailure, Sent, report
from tests.support.broker import Broker

FAILURES = Path(".cache/fuzz")


@contextmanager
def broker_to_fuzz() -> Iterator[Broker]:
    """A broker of our own, stopped at the end and then checked if nothing failed before."""
    with tempfile.TemporaryDirectory(prefix="odradek-fuzz-") as directory:
        broker = Broker(Path(directory)).start()
        try:
            yield broker
        except BaseException:
            broker.kill_if_running()
            raise
        broker.stop()


def replay(fuzzer: Fuzzer, path: Path) -> None:
    """Send a saved pipeline again, then frame by frame."""
    frames = [Sent(bytes.fromhex(text)) for text in json.loads(path.read_text())]
    fuzzer.send(frames)
    for frame in frames:
        print(f"frame of {len(frame.data)} bytes: {frame.data[:80].hex()}")
        fuzzer.send([frame])


def fuzz(chosen: argparse.Namespace, bootstrap: str, broker: Broker | None) -> None:
    """Fuzz or replay, and say what was done."""
    began = time.monotonic()
    fuzzer = Fuzzer(bootstrap, broker, chosen.seed, FAILURES, keep_going=chosen.keep_going)
    try:
        if chosen.replay is not None:
            replay(fuzzer, chosen.replay)
        else:
            fuzzer.run(chosen.frames)
    finally:
        print(report(fuzzer.tally, chosen.seed, began), flush=True)
    if broker is not None and (kinds := broker.traceback_counts()):
        listed = "\n".join(f"{count:6} of {kind}" for kind, count in kinds.most_common())
        raise FuzzFailure(f"{len(kinds)} kinds of traceback; seed {chosen.seed}:\n{listed}")


def main() -> int:
    """Parse arguments, fuzz, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--bootstrap", help="host:port of a running broker")
    parser.add_argument("--keep-going", action="store_true", help="count tracebacks instead of stopping")
    parser.add_argument("--replay", type=Path, help="a file saved by a failing run")
    chosen = parser.parse_args()
    print(f"fuzz: up to {chosen.frames} frames, seed {chosen.seed}", flush=True)
    try:
        if chosen.bootstrap is not None:
            fuzz(chosen, chosen.bootstrap, None)
        else:
            with broker_to_fuzz() as broker:
                fuzz(chosen, broker.bootstrap, broker)
    except FuzzFailure as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
