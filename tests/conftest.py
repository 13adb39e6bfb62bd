"""Shared by all tests: Hypothesis profiles, processes that can be interrupted, a smaller heap to collect."""

import gc
import os
import signal
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from odradek.compiled_modules import COMPILED

settings.register_profile("ci", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile(
    "mutants",  # the same examples each time, and the first failure is enough
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell lets its background jobs ignore Ctrl-C, and whatever tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests that replace parts of compiled modules to the runs with ODRADEK_PURE=1, and back."""
    if COMPILED:
        other_form = "sources"
    elif os.environ.get("ODRADEK_PURE") == "1":
        other_form = "compiled"
    else:
        return  # a run that should be compiled and is not: its tests of compiled modules fail
    if deselected := [item for item in items if item.get_closest_marker(other_form)]:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if not item.get_closest_marker(other_form)]


def _check_replaceable(target: Any) -> None:
    """Refuse to replace a part of a compiled module: compiled code would go on to call the original."""
    name = str(getattr(target, "__module__", None) or getattr(target, "__name__", None) or target)
    module = sys.modules.get(name) or sys.modules.get(name.rpartition(".")[0])
    if f"{os.sep}_compiled{os.sep}" in (getattr(module, "__file__", None) or ""):
        pytest.fail(f"{module} is compiled: a test that replaces a part of it needs the mark `sources`")


_set_attribute = pytest.MonkeyPatch.setattr


def _checked_set_attribute(patch: pytest.MonkeyPatch, target: Any, *arguments: Any, **options: Any) -> None:
    _check_replaceable(target)
    _set_attribute(patch, target, *arguments, **options)


pytest.MonkeyPatch.setattr = _checked_set_attribute  # type: ignore[assignment, method-assign]


def pytest_collection_finish() -> None:
    """Spare the garbage collector ten thousand collected tests, which live as long as the process."""
    gc.collect()
    gc.freeze()
