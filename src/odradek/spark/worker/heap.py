"""What a worker of Spark has loaded, kept out of its search for garbage.

Workers are told to collect all garbage after every task. Our clients with the tables of the protocol are some
hundred thousand objects that stay for as long as the process does: to look through them took longer than a
small task.
"""

from __future__ import annotations

import gc
import os

_settled_process: list[int] = []


def settle() -> None:
    """After its first task a process has loaded what it needs: none of that is looked through again."""
    if os.getpid() in _settled_process:
        return
    _settled_process[:] = [os.getpid()]
    gc.collect()
    gc.freeze()
