"""Where what can be made again is kept for a user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def user_cache(environment: Mapping[str, str]) -> Path:
    """Our folder in the user's cache."""
    given = environment.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "odradek"
