"""Runs of the modelled log from a seed, at length; a run that fails is shortened before it is told."""

from __future__ import annotations

import random
import traceback

from tests.faults.fault_report import FaultReport
from tests.faults.log_model.modelled_log import KINDS, NUMBER_MAX, Step
from tests.faults.log_model.modelled_log import play as play_steps

STEPS_MAX = 80


def steps_from(chance: random.Random) -> list[Step]:
    """A run by chance."""

    def number() -> int:
        return chance.randint(0, NUMBER_MAX)

    return [
        Step(chance.choice(KINDS), number(), number(), number()) for _ in range(chance.randint(1, STEPS_MAX))
    ]


def problem_of(steps: list[Step]) -> str | None:
    """What does not hold in a run, and where."""
    try:
        play_steps(steps)
    except Exception as wrong:  # noqa: BLE001 - whatever breaks the log is what is looked for
        last = traceback.extract_tb(wrong.__traceback__)[-1]
        return f"{type(wrong).__name__} at {last.name}:{last.lineno}: {str(wrong)[:600]}"
    return None


def shortened(steps: list[Step]) -> list[Step]:
    """The same failure with as few steps as leaving some out can do."""
    size = len(steps) // 2
    while size:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if problem_of(fewer) is not None:
                steps = fewer
            else:
                at += size
        size //= 2
    return steps


def play(runs: int, seed: int) -> FaultReport:
    """So many runs; each has its own seed, so that one can be played alone."""
    report = FaultReport("the log beside its model", seed)
    for number in range(runs):
        steps = steps_from(random.Random(f"{seed}/{number}"))
        report.faults += sum(step.kind in {"full", "broken", "end", "kill", "power"} for step in steps)
        report.outcomes["steps"] += len(steps)
        report.outcomes["runs"] += 1
        if problem_of(steps) is not None:
            short = shortened(steps)
            report.violate(f"run {number}: {problem_of(short)} after {[tuple(step) for step in short]}")
    return report
