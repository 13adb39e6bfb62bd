"""Break the promises of ``docs/guarantees.md`` and see their tests fail: ``make plants``.

A test that passes all the same does not show its promise; a plant whose text is not there any more is stale.
Unit tests run in a fork whose functions are exchanged. Other tests, and the processes they start, import a
copy of ``src`` with the plant in it.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from tests.mutation.plant import Plant
from tests.mutation.plants import PLANTS
from tests.mutation.run import PYTEST_OPTIONS, ROOT, Functions, ended

TIMEOUT_S = 60
FAILED = re.compile(r"^(?:FAILED|ERROR) (?:tests/)?([\w/]+\.py::\w+)", re.MULTILINE)


def in_process(test: str) -> bool:
    return test.startswith(("unit/", "contracts/"))


class Planting:
    """Pytest plugin that runs plants where pytest would run the tests."""

    def __init__(self, plants: list[tuple[Plant, list[str]]], say: Callable[[str], None]) -> None:
        self.plants, self.say = plants, say
        self.unnoticed = 0

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("tests cannot be collected")
        functions = Functions(sorted({plant.path for plant, _ in self.plants}))
        for plant, tests in self.plants:
            passed = self._passed(session, functions, plant, tests)
            self.unnoticed += bool(passed)
            self.say(verdict(plant, passed))
        return True

    def _passed(
        self, session: pytest.Session, functions: Functions, plant: Plant, tests: list[str]
    ) -> list[str]:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            functions.exchange_module(plant.path, ast.parse(planted(plant)))
            for test in tests:
                items = [item for item in session.items if name_of(item) == test]
                if not any(_fails(item) for item in items):
                    os.write(write, f"{test} ".encode())
            os._exit(0)
        os.close(write)
        ended(pid, time.monotonic() + TIMEOUT_S)
        with os.fdopen(read, "rb") as pipe:
            return pipe.read().decode().split()


def name_of(item: pytest.Item) -> str:
    return item.nodeid.removeprefix("tests/").partition("[")[0]


def _fails(item: pytest.Item) -> bool:
    try:
        return any(report.failed for report in runtestprotocol(item, nextitem=None, log=False))
    except BaseException:  # noqa: BLE001 - a plant may raise anything, anywhere
        return True


def planted(plant: Plant) -> str:
    text = (ROOT / plant.path).read_text(encoding="utf-8")
    if text.count(plant.before) != 1:
        raise LookupError(f"stale: {plant.promise}: its text occurs {text.count(plant.before)} times")
    return text.replace(plant.before, plant.after)


def verdict(plant: Plant, passed: list[str]) -> str:
    if passed:
        return f"WRONG {plant.promise}: not noticed by {', '.join(passed)}"
    return f"ok    {plant.promise}"


def passed_elsewhere(plant: Plant, tests: list[str]) -> list[str]:
    """Run tests that start processes; one that hangs has noticed, too."""
    with tempfile.TemporaryDirectory(prefix="odradek-plant-") as scratch:
        copy = Path(scratch) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        (Path(scratch) / plant.path).write_text(planted(plant), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no"]
        try:
            played = subprocess.run(
                [*command, f"--basetemp={scratch}/base", *(f"tests/{test}" for test in tests)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(copy), "HYPOTHESIS_PROFILE": "mutants"},
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return []
    failed = set(FAILED.findall(played.stdout))
    return [test for test in tests if test not in failed]


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
    wrong = 0
    quick = [(plant, [test for test in plant.tests if in_process(test)]) for plant in plants]
    planting = Planting(
        [(plant, tests) for plant, tests in quick if tests], lambda text: print(text, file=stream)
    )
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    with tempfile.TemporaryDirectory(prefix="odradek-plants-") as scratch:
        named = sorted({f"tests/{test}" for _, tests in planting.plants for test in tests})
        if named:
            pytest.main([*PYTEST_OPTIONS, f"--basetemp={scratch}/base", *named], plugins=[planting])
    wrong += planting.unnoticed
    for plant in plants:
        slow = [test for test in plant.tests if not in_process(test)]
        if slow and not chosen.unit:
            passed = passed_elsewhere(plant, slow)
            wrong += bool(passed)
            print(verdict(plant, passed), file=stream)
    print(f"{wrong} wrong of {len(plants)} plants", file=stream)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
