"""Fuzz a broker from the command line: ``python -m tests.fuzz.run --frames 1000000 --seed 7``.

Starts a broker unless ``--bootstrap`` names one. Exits with status 1 if a check fails; ``--replay FILE``
sends the saved frames again. ``--mode`` chooses a listener: ``plaintext``; ``sasl``, ``sasl-tls`` or ``tls``
for attempts to get in; ``authenticated`` for requests of a client that is in; ``secured`` for the last four,
each with an equal share of the frames.
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

from tests.fuzz.attempt_fuzzer import (
    AUTHENTICATED,
    MODES,
    AttemptFuzzer,
    authenticated_fuzzer,
    secured_broker,
)
from tests.fuzz.fuzzer import Frame, Fuzzer, FuzzFailure, report
from tests.support.broker import Broker
from tests.support.secured_broker import SecuredBroker

FAILURES = Path(".cache/fuzz")
PLAINTEXT, SECURED = "plaintext", "secured"


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


def fuzz_secured(args: argparse.Namespace) -> None:
    """Fuzz the listeners that authenticate, each mode with its own broker."""
    modes = [*MODES, AUTHENTICATED] if args.mode == SECURED else [args.mode]
    for mode in modes:
        with tempfile.TemporaryDirectory(prefix="odradek-fuzz-") as directory:
            broker = secured_broker(Path(directory))
            try:
                _fuzz_mode(args, broker, mode, -(-args.frames // len(modes)))
            except BaseException:
                broker.broker.kill_if_running()
                raise
            broker.stop()


def _fuzz_mode(args: argparse.Namespace, broker: SecuredBroker, mode: str, frames: int) -> None:
    began = time.monotonic()
    if mode == AUTHENTICATED:
        fuzzer = authenticated_fuzzer(broker, args.seed, FAILURES)
        try:
            if args.replay is not None:
                replay(fuzzer, args.replay)
            else:
                fuzzer.run(frames)
        finally:
            print(f"{mode}: {report(fuzzer.counts, args.seed, began)}", flush=True)
        return
    attempts = AttemptFuzzer(broker, mode, args.seed)
    try:
        attempts.run(frames, args.first)
    finally:
        print(
            f"{mode}: {attempts.attempts} attempts; {report(attempts.counts, args.seed, began)}", flush=True
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--mode", choices=[PLAINTEXT, *MODES, AUTHENTICATED, SECURED], default=PLAINTEXT)
    parser.add_argument("--first", type=int, default=0, help="number of the first attempt")
    parser.add_argument("--bootstrap", help="host:port of a running broker")
    parser.add_argument("--keep-going", action="store_true", help="count tracebacks instead of stopping")
    parser.add_argument("--replay", type=Path, help="a file saved by a failing run")
    args = parser.parse_args()
    print(f"fuzz: up to {args.frames} frames, seed {args.seed}", flush=True)
    try:
        if args.mode != PLAINTEXT:
            fuzz_secured(args)
        elif args.bootstrap is not None:
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
