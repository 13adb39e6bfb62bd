"""Selected compatibility tests exist, and those about one broker are not among the quick ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compat.cluster_selection import QUICK, SINGLE_BROKER, is_quick

COMPAT = Path(__file__).parents[1] / "compat"


@pytest.mark.parametrize("name", [*SINGLE_BROKER, *QUICK])
def test_selected_tests_exist(name: str) -> None:
    file, _, test = name.partition("[")[0].partition("::")
    source = (COMPAT / file).read_text(encoding="utf-8")
    assert not test or f"def {test}(" in source


@pytest.mark.parametrize("name", SINGLE_BROKER)
def test_tests_about_one_broker_are_not_quick(name: str) -> None:
    assert not is_quick(f"tests/compat/{name}")
    assert is_quick(f"tests/compat/{QUICK[0]}[confluent-kafka]")
