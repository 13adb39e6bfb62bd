"""Comparison of clients: all of them in turn against one broker, one row per pair."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from bench.harness import PEER, SUBJECT, Bench, Goal, Row, Sample, load_sample
from bench.peers.broker import Broker


@contextmanager
def one_broker(bench: Bench, case: str, *, pinned: bool = True) -> Iterator[Broker | None]:
    """Run the broker for all clients, on its own core if pinned: ours, or Kafka with `BROKER=kafka`.

    Yields None if it is not available; the results then have the reason.
    """
    side = PEER if os.environ.get("BROKER") == "kafka" else SUBJECT
    with bench.brokers(pinned=pinned, only=side) as sides:
        if side not in sides.running:
            reason = sides.missing.get(side, f"no broker {side}")
            bench.rows.append(Row(case, "all loads", "records/s", None, not_run={SUBJECT: reason}))
        yield sides.running.get(side)


def compare_clients(
    bench: Bench,
    case: str,
    load: str,
    ours: str,
    peers: Sequence[str],
    goals: Mapping[str, Goal | None],
    measure: Callable[[str], Sample],
) -> None:
    """Measure our client and its peers in turn; one row per peer, with our samples of the same rounds."""
    first, *others = peers
    row = Row(case, load, "records/s", goals.get(first), peer=first)
    bench.compare(row, {SUBJECT: ours, **{peer: peer for peer in peers}}, measure)
    for peer in others:
        bench.rows.append(Row(case, load, row.unit, goals.get(peer), row.samples, row.not_run, peer=peer))


def client_sample(result: Mapping[str, Any], broker: Broker) -> Sample:
    """Return records per second, with the client's CPU per record, which other programs hardly affect."""
    sample = load_sample(result["records"] / result["seconds"], result, broker, result["bytes"])
    sample.cost["client_cpu_us_per_record"] = result["generator_cpu_seconds"] / result["records"] * 1e6
    return sample
