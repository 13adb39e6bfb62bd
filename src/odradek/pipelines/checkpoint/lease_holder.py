"""Who holds a lease, in words that a client id can carry."""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple

_HOLDER: Final = re.compile(r"(.+):(\d+)")


class Holder(NamedTuple):
    """A process of a host."""

    host: str
    pid: int

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"


def parse_holder(text: str) -> Holder | None:
    """The holder a client id names; None if it is no such name."""
    found = _HOLDER.fullmatch(text)
    return None if found is None else Holder(found[1], int(found[2]))


def is_dead_here(pid: int) -> bool:
    """Whether this host has no such process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
