"""Checks shared by the broker's and the topic's settings."""

from __future__ import annotations


def gzip_level(value: int) -> str | None:
    return None if value == -1 or 1 <= value <= 9 else "Value must be between 1 and 9 or equal to -1"


def throttled_replicas(value: tuple[str, ...]) -> str | None:
    """Require ``*`` for all replicas, or a list of ``partition:broker``."""
    if value == ("*",) or all(_is_replica(item) for item in value):
        return None
    return (
        "must be the literal '*' or a list of replicas: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


def _is_replica(text: str) -> bool:
    partition, colon, broker = text.partition(":")
    return bool(colon) and _is_number(partition) and _is_number(broker)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
