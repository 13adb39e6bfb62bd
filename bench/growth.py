"""Whether a figure of ours grows with what merely exists: the row of the largest against the smallest."""

from __future__ import annotations

from bench.harness import SUBJECT, Goal, Row


def growth(load: str, small: Row, large: Row, goal: Goal) -> Row:
    """Our own samples of two rows as one, in the order they were taken."""
    itself = "smallest"
    row = Row(large.case, load, large.unit, goal, peer=itself)
    for name, side in ((SUBJECT, large), (itself, small)):
        if why := side.not_run.get(SUBJECT):
            row.not_run[name] = why
        elif taken := side.samples.get(SUBJECT):
            row.samples[name] = taken
    return row
