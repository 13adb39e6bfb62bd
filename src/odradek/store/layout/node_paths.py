"""Syntax of node paths, as in ZooKeeper. Pure."""

from __future__ import annotations

import re
from typing import Final

from odradek.store.port import BadPath

PATH_CHARS_MAX: Final = 4096

_BAD_PARTS: Final = frozenset({"", ".", ".."})
_BAD_CHARS: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")


def check_path(path: str) -> None:
    """Raise ``BadPath`` for a path that ZooKeeper would reject."""
    if path == "/":
        return
    if not path.startswith("/"):
        raise BadPath(path[:PATH_CHARS_MAX], "must begin with a slash")
    if len(path) > PATH_CHARS_MAX:
        raise BadPath(path[:80] + "…", f"must be at most {PATH_CHARS_MAX} characters, got {len(path)}")
    if _BAD_CHARS.search(path):
        raise BadPath(repr(path), "must have printable characters only")
    if not _BAD_PARTS.isdisjoint(path[1:].split("/")):
        raise BadPath(path, "must have no empty, '.' or '..' part")


def parent_of(path: str) -> str:
    return path[: path.rindex("/")] or "/"


def prefixes_of(path: str) -> list[str]:
    """Return the nodes on the way to a path, without the root, top down: ``/a/b`` has ``/a`` and ``/a/b``."""
    parts = path[1:].split("/") if path != "/" else []
    return ["/" + "/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
