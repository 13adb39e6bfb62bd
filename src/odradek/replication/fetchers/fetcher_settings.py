"""Settings of replica fetchers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from odradek.cluster.metadata_version import MetadataVersion


class FetcherSettings(NamedTuple):
    """Read before each request, so that changes apply to the next one."""

    broker_id: int
    broker_epoch: Callable[[], int]
    metadata_version: MetadataVersion
    fetcher_count: int
    """``num.replica.fetchers``: fetchers per source broker."""
    wait_max_ms: int
    min_bytes: int
    partition_bytes_max: int
    response_bytes_max: int
    backoff_ms: int
    request_timeout_ms: int
    """``replica.socket.timeout.ms``"""
