"""Fixtures of the cleaning tests."""

from collections.abc import Callable
from typing import Any

import pytest

from .cleaner_harness import Scenario, run_scenario


@pytest.fixture
def run(new_entropy: Callable[[int], Any]) -> Callable[..., None]:
    def run(scenario: Scenario, **config: Any) -> None:
        run_scenario(scenario, new_entropy(1), **config)

    return run
