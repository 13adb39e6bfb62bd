"""Fuzz a broker from the command line: ``python -m tests.fuzz.run --frames 1000000 --seed 7``.

Starts a broker unless ``--bootstrap`` names one. Exits with status 1 if a check fails; ``--replay FILE``
sends the saved frames again.
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

from tests.fuzz.fuzzer import Frame, Fuzzer, FuzzFailure, report
from tests.support.broker import Broker

FAILURES = Path(".cache/fuzz")


@contextmanager
def running_broker() -> Iterator[Broker]:
    """Start a broker; stop it at the end, with checks if nothing failed before."""
    with tempfile.TemporaryDirectory(prefix="odradek-fuzz-") as directory:
        broker = Broker(Path(directory)).start()
        try:
            yield broker
        except BaseException:
            broker.kill_if_running()
            raise
        broker.stop()


def replay(fuzzer: Fuzzer, path: Path) -> None:
    """Send a saved pipeline, then its frames one by one."""
    frames = [Frame(bytes.fromhex(text)) for text in json.loads(path.read_text())]
    fuzzer.send(frames)
    for frame in frames:
        print(f"frame of {len(frame.data)} bytes: {frame.data[:80].hex()}")
        fuzzer.send([frame])


def fuzz(args: argparse.Namespace, bootstrap: str, broker: Broker | None) -> None:
    """Fuzz or replay, and print the summary."""
    began = time.monotonic()
    fuzzer = Fuzzer(bootstrap, broker, args.seed, FAILURES, keep_going=args.keep_going)
    try:
        if args.replay is not None:
            replay(fuzzer, args.replay)
        else:
            fuzzer.run(args.frames)
    finally:
        print(report(fuzzer.counts, args.seed, began), flush=True)
    if broker is not None and (kinds := broker.traceback_counts()):
        listed = "\n".join(f"{count:6} of {kind}" for kind, count in kinds.most_common())
        raise FuzzFailure(f"{len(kinds)} different tracebacks; seed {args.seed}:\n{listed}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--bootstrap", help="host:port of a running broker")
    parser.add_argument("--keep-going", action="store_true", help="count tracebacks instead of stopping")
    parser.add_argument("--replay", type=Path, help="a file saved by a failing run")
    args = parser.parse_args()
    print(f"fuzz: up to {args.frames} frames, seed {args.seed}", flush=True)
    try:
        if args.bootstrap is not None:
            fuzz(args, args.bootstrap, None)
        else:
            with running_broker() as broker:
                fuzz(args, broker.bootstrap, broker)
    except FuzzFailure as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
