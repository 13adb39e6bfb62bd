"""Growth of our own figures: the row of the largest size against the smallest."""

from __future__ import annotations

from bench.harness import SUBJECT, Goal, Row


def growth(load: str, small: Row, large: Row, goal: Goal) -> Row:
    """Return a row that compares our samples of two rows, in order."""
    smallest = "smallest"
    row = Row(large.case, load, large.unit, goal, peer=smallest)
    for name, side in ((SUBJECT, large), (smallest, small)):
        if reason := side.not_run.get(SUBJECT):
            row.not_run[name] = reason
        elif samples := side.samples.get(SUBJECT):
            row.samples[name] = samples
    return row
