"""Print the shortest trace to each planted bug, and the states of clean searches: ``make model FULL=1``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from tests.model.planted_bugs import PLANTED_BUGS, PlantedBug
from tests.model.rules import Model, Rules
from tests.model.scopes import DEFAULT, FULL, LIMITS, NamedScope
from tests.model.search import Result, Search
from tests.model.story import tell


def report_progress(states: int, waiting: int, seconds: float) -> None:
    print(f"    {states:,} states, {waiting:,} to expand, {seconds:.0f} s", file=sys.stderr, flush=True)


def search(rules: Rules, named: NamedScope) -> Result:
    return Search(Model(rules, named.scope)).run(report=report_progress)


def summary(name: str, result: Result) -> str:
    end = "complete" if result.is_complete else "not complete"
    return (
        f"{name}: {result.states:,} states, {result.steps:,} steps, depth {result.depth},"
        f" {result.cpu_seconds:.1f} s, {end}"
    )


def search_clean(scopes: Iterable[NamedScope]) -> bool:
    """Search each scope with the right rules; return whether nothing is violated."""
    is_clean = True
    for named in scopes:
        result = search(Rules(), named)
        print(summary(named.name, result), flush=True)
        if result.violation is not None:
            print(*tell(result.violation), sep="\n")
        is_clean = is_clean and result.is_complete
    return is_clean


def search_violations(bugs: Iterable[PlantedBug], *, stories: bool) -> bool:
    """Search for each planted bug; return whether each was detected."""
    is_detected = True
    for bug in bugs:
        result = search(bug.rules(), NamedScope(bug.name, bug.scope))
        violation = result.violation
        if violation is None:
            print(f"NOT DETECTED: {summary(bug.name, result)}", flush=True)
            is_detected = False
            continue
        print(
            f"{bug.name}: {len(violation.trace)} steps, {result.states:,} states, {result.cpu_seconds:.1f} s:"
            f" {violation.invariant}",
            flush=True,
        )
        if stories:
            print(*tell(violation), sep="\n", end="\n\n")
    return is_detected


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clean", action="store_true", help="Search the default scopes without a bug.")
    parser.add_argument("--full", action="store_true", help="Search the large scopes without a bug as well.")
    parser.add_argument("--only", default="", help="Search only what has this text in its name.")
    parser.add_argument("--no-stories", action="store_true", help="Print no traces.")
    options = parser.parse_args()

    def selected(name: str) -> bool:
        return options.only in name

    is_clean = True
    if options.clean or options.full:
        scopes = (*DEFAULT, *FULL) if options.full else DEFAULT
        is_clean = search_clean(named for named in scopes if selected(named.name))
    stories = not options.no_stories
    is_detected = search_violations((bug for bug in PLANTED_BUGS if selected(bug.name)), stories=stories)
    limits = [PlantedBug(named.name, Rules, named.scope) for named in LIMITS]
    is_limited = search_violations((limit for limit in limits if selected(limit.name)), stories=stories)
    return 0 if is_clean and is_detected and is_limited else 1


if __name__ == "__main__":
    sys.exit(main())
