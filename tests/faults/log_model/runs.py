"""Long runs of the modelled log from a seed; a failing run is shrunk before it is reported."""

from __future__ import annotations

import random
import traceback

from tests.faults.fault_report import FaultReport
from tests.faults.log_model.modelled_log import KINDS, NUMBER_MAX, Step
from tests.faults.log_model.modelled_log import play as play_steps

STEPS_MAX = 80


def steps_from(rng: random.Random) -> list[Step]:
    """Return a random run."""

    def number() -> int:
        return rng.randint(0, NUMBER_MAX)

    return [Step(rng.choice(KINDS), number(), number(), number()) for _ in range(rng.randint(1, STEPS_MAX))]


def problem_of(steps: list[Step]) -> str | None:
    """Return the failure of a run, and where it is."""
    try:
        play_steps(steps)
    except Exception as wrong:  # noqa: BLE001 - whatever breaks the log is what is looked for
        last = traceback.extract_tb(wrong.__traceback__)[-1]
        return f"{type(wrong).__name__} at {last.name}:{last.lineno}: {str(wrong)[:600]}"
    return None


def shortened(steps: list[Step]) -> list[Step]:
    """Shrink a failing run by leaving out steps."""
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
    """Run ``runs`` runs; each has its own seed, so that one can be repeated."""
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
