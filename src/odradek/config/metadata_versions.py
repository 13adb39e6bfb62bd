"""Kafka's versions in ``inter.broker.protocol.version`` and the message format settings (MetadataVersion).

A version is a full version (``3.9-IV0``), a release (``3.9``, its last full version) or a patch release
(``3.9.1``, the same as its release).
"""

from __future__ import annotations

from typing import Final

# fmt: off
KNOWN: Final = (
    "0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0-IV0", "0.10.0-IV1", "0.10.1-IV0", "0.10.1-IV1",
    "0.10.1-IV2", "0.10.2-IV0", "0.11.0-IV0", "0.11.0-IV1", "0.11.0-IV2", "1.0-IV0", "1.1-IV0",
    "2.0-IV0", "2.0-IV1", "2.1-IV0", "2.1-IV1", "2.1-IV2", "2.2-IV0", "2.2-IV1", "2.3-IV0", "2.3-IV1",
    "2.4-IV0", "2.4-IV1", "2.5-IV0", "2.6-IV0", "2.7-IV0", "2.7-IV1", "2.7-IV2", "2.8-IV0", "2.8-IV1",
    "3.0-IV0", "3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0",
    "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1", "3.7-IV2",
    "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1",
)
# fmt: on

_ACCEPTED: Final = frozenset(KNOWN) | frozenset(version.partition("-")[0] for version in KNOWN)


def check(version: str) -> str | None:
    """Return why a version is invalid, or None."""
    parts = version.split(".")
    release = ".".join(parts[: 3 if version.startswith("0.") else 2])
    return None if release in _ACCEPTED else "must be a version of Kafka"
