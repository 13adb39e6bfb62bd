"""Exclusion of a Spark worker's long-lived objects from garbage collection.

Spark runs a full collection after every task. Our clients with the protocol's tables are some hundred
thousand objects that live as long as the process: traversing them took longer than a small task.
"""

from __future__ import annotations

import gc
import os

_frozen_process: list[int] = []


def freeze_heap() -> None:
    """Freeze all objects once per process, after its first task, when everything is loaded."""
    if os.getpid() in _frozen_process:
        return
    _frozen_process[:] = [os.getpid()]
    gc.collect()
    gc.freeze()
