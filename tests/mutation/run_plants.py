"""Break the promises of ``docs/guarantees.md`` and see their tests fail: ``make plants``.

A test that passes all the same does not show its promise; a plant whose text is not there any more is stale.
Unit tests run in a fork whose functions are exchanged. Other tests, and the processes they start, import a
copy of ``src`` with the plant in it. All of them run from source: compiled modules would not have the plant.

A failure counts only if the plant caused it. So each test must pass without the plant, and it is an error if
a test does not run at all, or if a plant changes no function that is loaded.
"""

from __future__ import annotations

import argparse
import ast
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Protocol

import pytest
from _pytest.runner import runtestprotocol
from tests.mutation.plant import Plant
from tests.mutation.plants import PLANTS
from tests.mutation.run import PYTEST_OPTIONS, ROOT, Functions, ended

TIMEOUT_S = 20
"""Seconds that a test has with a plant, besides three times those that it takes without."""
UNPLANTED_TIMEOUT_S = 180
PASSED = re.compile(r"\b\d+ passed\b")


class Outcome(IntEnum):
    """Outcome of a test, and exit code of the fork that ran it: one that Python does not use."""

    PASSED = 90
    FAILED = 91
    HUNG = 92
    NOT_RUN = 93
    NOT_PLANTED = 94
    DIED = 95


TEXTS = {
    Outcome.PASSED: "passes",
    Outcome.FAILED: "fails",
    Outcome.HUNG: "hangs",
    Outcome.NOT_RUN: "is not collected, deselected or skipped",
    Outcome.NOT_PLANTED: "does not run: the plant changes no function that is loaded",
    Outcome.DIED: "ends its process",
}
NOTICED = {Outcome.FAILED, Outcome.HUNG}


class Run(Protocol):
    """Runs a test with or without a plant, for at most ``seconds``."""

    def __call__(self, test: str, plant: Plant | None, seconds: float) -> Outcome: ...


class Judge:
    """Compares tests with and without plants. ``wrong`` has the promises whose plants were not noticed."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.judged: set[str] = set()
        self.wrong: set[str] = set()
        self._say = say
        self._unplanted: dict[str, tuple[Outcome, float]] = {}

    def judge(self, plant: Plant, tests: Sequence[str], run: Run) -> None:
        """Run the tests of a plant and report those that do not notice it."""
        problems = [problem for test in tests if (problem := self._problem(plant, test, run))]
        self.judged.add(plant.promise)
        if problems:
            self.wrong.add(plant.promise)
        self._say(f"WRONG {plant.promise}: {', '.join(problems)}" if problems else f"ok    {plant.promise}")

    def _problem(self, plant: Plant, test: str, run: Run) -> str | None:
        if test not in self._unplanted:
            began = time.monotonic()
            outcome = run(test, None, UNPLANTED_TIMEOUT_S)
            self._unplanted[test] = outcome, time.monotonic() - began
        outcome, seconds = self._unplanted[test]
        if outcome is not Outcome.PASSED:
            return f"{test} {TEXTS[outcome]} without the plant"
        outcome = run(test, plant, TIMEOUT_S + 3 * seconds)
        if outcome is Outcome.HUNG:  # or the machine stood still
            outcome = run(test, plant, TIMEOUT_S + 3 * seconds)
        return None if outcome in NOTICED else f"{test} {TEXTS[outcome]}"


class Planting:
    """Pytest plugin that runs plants where pytest would run the tests."""

    def __init__(self, plants: list[tuple[Plant, list[str]]], judge: Judge) -> None:
        self.plants, self.judge = plants, judge

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("tests cannot be collected")
        functions = Functions(sorted({plant.path for plant, _ in self.plants}))
        items = collections.defaultdict(list)
        for item in session.items:
            items[name_of(item)].append(item)

        def run(test: str, plant: Plant | None, seconds: float) -> Outcome:
            return run_in_fork(items[test], plant, functions, seconds)

        for plant, tests in self.plants:
            self.judge.judge(plant, tests, run)
        return True


def in_process(test: str) -> bool:
    return test.startswith(("unit/", "contracts/"))


def name_of(item: pytest.Item) -> str:
    return item.nodeid.removeprefix("tests/").partition("[")[0]


def planted(plant: Plant) -> str:
    text = (ROOT / plant.path).read_text(encoding="utf-8")
    if text.count(plant.before) != 1:
        raise LookupError(f"stale: {plant.promise}: its text occurs {text.count(plant.before)} times")
    return text.replace(plant.before, plant.after)


def run_in_fork(
    items: Sequence[pytest.Item], plant: Plant | None, functions: Functions, seconds: float
) -> Outcome:
    """Run a test in a fork whose functions are exchanged; one that hangs has noticed, too."""
    tree = None if plant is None else ast.parse(planted(plant))
    pid = os.fork()
    if pid == 0:
        outcome = Outcome.DIED
        try:
            os.setpgid(0, 0)
            if plant is None or tree is None or functions.exchange_module(plant.path, tree):
                outcome = outcome_of(items)
            else:
                outcome = Outcome.NOT_PLANTED
        finally:
            os._exit(outcome)
    code = ended(pid, time.monotonic() + seconds)
    if code is None:
        return Outcome.HUNG
    return Outcome(code) if code in list(Outcome) else Outcome.DIED


def outcome_of(items: Sequence[pytest.Item]) -> Outcome:
    """Run a test, with all its parameters until one fails."""
    outcome = Outcome.NOT_RUN
    for item in items:
        try:
            reports = runtestprotocol(item, nextitem=None, log=False)
        except BaseException:  # noqa: BLE001 - a plant may raise anything, anywhere
            return Outcome.FAILED
        if any(report.failed for report in reports):
            return Outcome.FAILED
        if any(report.when == "call" and report.passed for report in reports):
            outcome = Outcome.PASSED
    return outcome


def run_elsewhere(test: str, plant: Plant | None, seconds: float) -> Outcome:
    """Run a test that starts processes; one that hangs has noticed, too."""
    with tempfile.TemporaryDirectory(prefix="odradek-plant-") as scratch:
        source = ROOT / "src"
        if plant is not None:
            source = Path(scratch) / "src"
            shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            (Path(scratch) / plant.path).write_text(planted(plant), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no"]
        try:
            played = subprocess.run(
                [*command, f"--basetemp={scratch}/base", f"tests/{test}"],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(source)},
                capture_output=True,
                text=True,
                check=False,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            return Outcome.HUNG
    if played.returncode < 0:
        return Outcome.DIED
    if played.returncode == pytest.ExitCode.TESTS_FAILED:
        return Outcome.FAILED
    has_passed = played.returncode == pytest.ExitCode.OK and PASSED.search(played.stdout)
    return Outcome.PASSED if has_passed else Outcome.NOT_RUN


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("words", nargs="*", help="only plants whose promise or tests contain one of these")
    parser.add_argument("--unit", action="store_true", help="leave out tests that start processes")
    chosen = parser.parse_args()
    stream = os.fdopen(os.dup(1), "w", buffering=1)
    plants = [
        plant
        for plant in PLANTS
        if not chosen.words or any(word in str((plant.promise, plant.tests)) for word in chosen.words)
    ]
    quick = [(plant, [test for test in plant.tests if in_process(test)]) for plant in plants]
    slow = [(plant, [test for test in plant.tests if not in_process(test)]) for plant in plants]
    quick = [(plant, tests) for plant, tests in quick if tests]
    slow = [(plant, tests) for plant, tests in slow if tests and not chosen.unit]
    if not quick and not slow:
        parser.error(f"no plant to run contains {' or '.join(chosen.words)}")
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    os.environ["ODRADEK_PURE"] = "1"
    judge = Judge(lambda text: print(text, file=stream))
    if quick:
        code = play_in_process(quick, judge)
        if code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            print(f"pytest ended with exit code {int(code)}: not all plants were run", file=stream)
            return 2
    for plant, tests in slow:
        judge.judge(plant, tests, run_elsewhere)
    print(f"{len(judge.wrong)} wrong of {len(judge.judged)} plants", file=stream)
    return 1 if judge.wrong else 0


def play_in_process(plants: list[tuple[Plant, list[str]]], judge: Judge) -> int:
    """Collect the tests of plants once, and run them; return the exit code of pytest."""
    named = sorted({f"tests/{test}" for _, tests in plants for test in tests})
    with tempfile.TemporaryDirectory(prefix="odradek-plants-") as scratch:
        return pytest.main(
            [*PYTEST_OPTIONS, f"--basetemp={scratch}/base", *named], plugins=[Planting(plants, judge)]
        )


if __name__ == "__main__":
    sys.exit(main())
