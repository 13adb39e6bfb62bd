"""The spread of each row over all recorded runs: `python -m bench.summary [CASE…]`.

Reads `bench/results/*.json` and prints a table per machine and build of our interpreter: the median of the
runs' medians, the smallest and the largest pair of all runs, and the newest commit. `SINCE=2026-11-19` leaves
out older runs. Runs that compare something else with the same names are left out, and counted: `SUBJECT`,
`PEER`, `BROKER` and `SHORT`.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bench.harness import PEER, SUBJECT
from bench.paths import RESULTS
from bench.report import DISTURBED_SHARE, figure, line

COLUMNS = (
    "case",
    "load",
    "unit",
    "ours",
    "theirs",
    "ratio",
    "smallest to largest pair",
    "runs",
    "pairs",
    "disturbed runs",
    "newest commit",
    "date",
)
OTHER_VARIABLES = ("SUBJECT=", "PEER=", "BROKER=", "SHORT=")

Facts = Mapping[str, str]


class Recorded(NamedTuple):
    """A row of a run, and the facts of the run."""

    facts: Facts
    row: Mapping[str, Any]

    @property
    def ratios(self) -> list[float]:
        """Ratios of the pairs; none with a side that did not run or has no such figure."""
        samples = self.row["samples"]
        pairs = zip(samples.get(SUBJECT, []), samples.get(self.row["peer"], []), strict=False)
        ratios = [ours["value"] / theirs["value"] for ours, theirs in pairs if theirs["value"]]
        return [ratio for ratio in ratios if not math.isnan(ratio)]

    @property
    def is_disturbed(self) -> bool:
        for samples in self.row["samples"].values():
            shares = [sample["cost"].get("others_share", 0.0) for sample in samples]
            if shares and statistics.median(shares) > DISTURBED_SHARE:
                return True
        return False


def main(cases: list[str]) -> int:
    runs = list(recorded_runs(RESULTS, os.environ.get("SINCE", "")))
    groups: dict[str, list[Recorded]] = defaultdict(list)
    for facts, rows in runs:
        if is_comparable(facts):
            groups[group_of(facts)] += [
                Recorded(facts, row) for row in rows if not cases or row["case"] in cases
            ]
    for group, recorded in groups.items():
        if recorded:
            print(f"{group}\n\n{table(recorded)}\n")
    left_out = sum(not is_comparable(facts) for facts, _ in runs)
    print(f"{len(runs)} runs, {left_out} of them left out", file=sys.stderr)
    return 0


def recorded_runs(directory: Path, since: str) -> Iterable[tuple[Facts, list[Mapping[str, Any]]]]:
    """Yield facts and rows of the runs of a directory from a date on, oldest first."""
    for path in sorted(directory.glob("*.json")):
        if path.stem >= since:
            content = json.loads(path.read_text())
            facts = content["facts"]
            facts.setdefault("date", path.stem[:10])
            yield facts, content["rows"]


def is_comparable(facts: Facts) -> bool:
    """Return whether a run compares Odradek with Kafka or with other clients, in full."""
    if any(part.startswith(OTHER_VARIABLES) for part in facts.get("variables", "").split()):
        return False
    ours, theirs = facts.get(f"version of {SUBJECT}", ""), facts.get(f"version of {PEER}", PEER)
    return ours.startswith(SUBJECT) and theirs.startswith(PEER)


def group_of(facts: Facts) -> str:
    """Return the machine and the build of our side: figures of different ones have no common median."""
    machine = f"{facts['processor']}, {facts['cores']} cores, Linux {facts['kernel']}"
    codec = facts.get(f"record codec of {SUBJECT}", "not recorded")
    python = facts.get(f"Python of {SUBJECT}", facts["python"])
    return f"{machine}; {facts[f'version of {SUBJECT}']}; record codec {codec}; Python {python}"


def table(recorded: Iterable[Recorded]) -> str:
    """Return a Markdown table with a line for each row of the cases."""
    by_load: dict[tuple[str, ...], list[Recorded]] = defaultdict(list)
    for run in recorded:
        by_load[tuple(run.row[name] for name in ("case", "load", "unit", "peer"))].append(run)
    lines = [line(COLUMNS), line(["---"] * len(COLUMNS))]
    lines += [line(_cells(by_load[key])) for key in sorted(by_load, key=lambda key: key[0])]
    return "\n".join(lines)


def _cells(runs: list[Recorded]) -> list[str]:
    """Return the cells of one load from all its runs, oldest first."""
    newest = runs[-1]
    peer = newest.row["peer"]
    pairs = [ratio for run in runs for ratio in run.ratios]
    medians = [statistics.median(run.ratios) for run in runs if run.ratios]
    return [
        newest.row["case"],
        newest.row["load"],
        newest.row["unit"],
        figure(_median(run.row["ours"] for run in runs)),
        figure(_median(run.row["theirs"] for run in runs)) + ("" if peer == PEER else f" ({peer})"),
        figure(statistics.median(medians)) if medians else "",
        f"{figure(min(pairs))} to {figure(max(pairs))}" if pairs else "",
        str(len(runs)),
        str(len(pairs)),
        str(sum(run.is_disturbed for run in runs)),
        newest.facts["source"],
        newest.facts["date"][:10],
    ]


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return statistics.median(known) if known else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
