"""Choice of the codec implementation: ``compiled``, or ``pure`` if that is missing or requested.

Invariant: the choice is made once, at import, and both return equal results. ``ODRADEK_PURE=1`` in the
environment requests Python (the compiled part checks it; this layer reads no environment). Composition roots
log a warning with ``PURE_REASON``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final


def _pure_reason() -> str | None:
    """Return the reason to use ``pure``; ``None`` for ``compiled``."""
    try:
        compiled = import_module("odradek.records.compiled.record_batch")
    except ImportError as error:
        return f"the compiled record codec cannot be imported ({error})"
    return "ODRADEK_PURE=1 is set" if compiled.pure_requested() else None


PURE_REASON: Final = _pure_reason()
COMPILED: Final = PURE_REASON is None
