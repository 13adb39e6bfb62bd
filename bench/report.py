"""Results as a Markdown table and as JSON with every sample."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.harness import PEER, SUBJECT, Row

DISTURBED_SHARE = 0.25  # of a core, used by neither broker nor generator

COLUMNS = (
    "case",
    "load",
    "unit",
    "ours",
    "theirs",
    "ratio",
    "spread",
    "CPU s/GB",
    "peak RSS MB",
    "limit",
    "others' CPU",
    "goal",
    "met",
)


def markdown(rows: list[Row], facts: Mapping[str, Any]) -> str:
    """Return the table; pairs of figures are ours / theirs."""
    lines = [*_header(facts), "", line(COLUMNS), line(["---"] * len(COLUMNS))]
    lines += [line(_cells(row)) for row in rows]
    notes = [
        f"- {row.case} {row.load}: {side}: {reason}" for row in rows for side, reason in row.not_run.items()
    ]
    if notes:
        lines += ["", "Not run:", "", *notes]
    if disturbed := [f"{row.case} {row.load}" for row in rows if _disturbed(row)]:
        lines += ["", "Disturbed by other programs (repeat on an idle machine):", ""]
        lines += [f"- {name}" for name in disturbed]
    lines += ["", *(f"- {name}: {value}" for name, value in facts.items())]
    return "\n".join(lines)


def _header(facts: Mapping[str, Any]) -> list[str]:
    """Return a list of what was measured: date, commit, machine, and the build of both sides."""
    machine = f"{facts['processor']}, {facts['cores']} cores, Linux {facts['kernel']}"
    lines = [f"- {facts['date']}, commit {facts['source']}, {machine}"]
    for side in (SUBJECT, PEER):
        if version := facts.get(f"version of {side}"):
            named = ((name, facts.get(f"{name} of {side}")) for name in ("record codec", "Python", "source"))
            details = [f"{name} {fact}" for name, fact in named if fact]
            lines.append(f"- {side}: " + "; ".join([version, *details]))
    return lines


def line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


def _cells(row: Row) -> list[str]:
    spread = row.spread()
    return [
        row.case,
        row.load,
        row.unit,
        figure(row.median(SUBJECT)),
        figure(row.median(row.peer)) + ("" if row.peer == PEER else f" ({row.peer})"),
        figure(row.ratio()),
        "" if spread is None else f"{figure(spread[0])} to {figure(spread[1])}",
        _both(row, "cpu_s_per_gb"),
        _both(row, "rss_peak_mb"),
        " / ".join(filter(None, (row.limit(SUBJECT), row.limit(row.peer)))),
        _both(row, "others_share"),
        str(row.goal or ""),
        {True: "yes", False: "no", None: "not run" if row.goal else ""}[row.met()],
    ]


def _disturbed(row: Row) -> bool:
    shares = (row.cost(side, "others_share") for side in row.samples)
    return any(share is not None and share > DISTURBED_SHARE for share in shares)


def _both(row: Row, name: str) -> str:
    ours, theirs = row.cost(SUBJECT, name), row.cost(row.peer, name)
    return "" if ours is None and theirs is None else f"{figure(ours)} / {figure(theirs)}"


def figure(value: float | None) -> str:
    if value is None:
        return "not run"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def write_json(path: Path, rows: list[Row], facts: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"facts": dict(facts), "rows": [_row(row) for row in rows]}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _row(row: Row) -> dict[str, Any]:
    return {
        **asdict(row),
        "goal": str(row.goal) if row.goal else None,
        "met": row.met(),
        "ratio": row.ratio(),
        "spread": row.spread(),
        "ours": row.median(SUBJECT),
        "theirs": row.median(row.peer),
        "limit": {side: row.limit(side) for side in row.samples},
    }
