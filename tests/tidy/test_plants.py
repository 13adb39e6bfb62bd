"""Planted bugs fit the code: each quotes a piece of source that is there once, and names tests that exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.mutation.plant import Plant
from tests.mutation.plants import PLANTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.promise)
def test_a_planted_bug_fits_the_code(plant: Plant) -> None:
    source = (ROOT / plant.path).read_text(encoding="utf-8")
    assert source.count(plant.before) == 1
    for test in plant.tests:
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / "tests" / path).read_text(encoding="utf-8")
