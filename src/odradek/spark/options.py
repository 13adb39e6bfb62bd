"""The options of the source, read once and checked before anything is asked of a cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceOptions:
    """What the user asked for, in types. It travels to executors, so it holds plain values only."""

    client_settings: dict[str, str]
    """Kafka's names without ``kafka.``, all known to our consumer."""
    include_headers: bool = False
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000
