"""Planted bugs fit the code: each quotes a piece of source that is there once, and names tests that exist.

A run of them counts a plant as noticed only if it is what made the test fail.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.mutation.plant import Plant
from tests.mutation.plants import PLANTS
from tests.mutation.run import Functions
from tests.mutation.run_plants import Judge, Outcome, outcome_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.promise)
def test_a_planted_bug_fits_the_code(plant: Plant) -> None:
    source = (ROOT / plant.path).read_text(encoding="utf-8")
    assert source.count(plant.before) == 1
    for test in plant.tests:
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / "tests" / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("planted", Outcome)
@pytest.mark.parametrize("unplanted", Outcome)
def test_only_a_test_that_passes_without_the_plant_notices_it(unplanted: Outcome, planted: Outcome) -> None:
    def run(test: str, plant: Plant | None, seconds: float) -> Outcome:
        assert test in PLANTS[0].tests
        assert seconds > 0
        return planted if plant else unplanted

    lines: list[str] = []
    judge = Judge(lines.append)
    judge.judge(PLANTS[0], PLANTS[0].tests, run)
    is_noticed = unplanted is Outcome.PASSED and planted in {Outcome.FAILED, Outcome.HUNG}
    assert judge.wrong == (set() if is_noticed else {PLANTS[0].promise})
    assert [line.split()[0] for line in lines] == ["ok" if is_noticed else "WRONG"]


def test_a_test_without_items_does_not_run() -> None:
    assert outcome_of([]) is Outcome.NOT_RUN


def test_a_plant_counts_if_it_changes_a_function() -> None:
    path = "src/odradek/compiled_modules.py"
    source = (ROOT / path).read_text(encoding="utf-8")
    functions = Functions([path])

    def changed(before: str, after: str) -> int:
        assert source.count(before) == 1
        return functions.exchange_module(path, ast.parse(source.replace(before, after)))

    assert changed("SUFFIX: Final = ", "SUFFIX: Final = str() + ") == 0, "a constant is no function"
    assert changed("+ SUFFIX)", '+ SUFFIX + "")') == 1
    assert changed("+ SUFFIX)", "+ SUFFIX)") == 1, "it is what it was"
