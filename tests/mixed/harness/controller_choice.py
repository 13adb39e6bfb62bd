"""The kind of controller of a run: ``MIXED_CONTROLLER`` is ``kafka`` or ``own``."""

from __future__ import annotations

import os
from typing import Final

import pytest
from tests.mixed.harness.broker_spec import Kind

KINDS: Final = {"kafka": Kind.KAFKA, "own": Kind.ODRADEK}


def read_controller_kind(name: str) -> Kind:
    if name not in KINDS:
        raise pytest.UsageError(f"MIXED_CONTROLLER must be one of {sorted(KINDS)}, got {name!r}")
    return KINDS[name]


CONTROLLER_KIND: Final = read_controller_kind(os.environ.get("MIXED_CONTROLLER") or "kafka")
IS_OURS: Final = CONTROLLER_KIND is Kind.ODRADEK
needs_our_controller: Final = pytest.mark.skipif(not IS_OURS, reason="needs CONTROLLER=own")
