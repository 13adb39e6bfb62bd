"""A default pipeline for tests."""

from __future__ import annotations

from pathlib import Path

from odradek.pipelines.spec.reader import Spec, parse_spec


def spec_of(source: str = "", sink: str = 'type = "noop"', more: str = "", pipeline: str = "") -> Spec:
    """Return the pipeline ``orders``, with the source topic ``t`` by default."""
    text = f"""
[pipeline]
name = "orders"
checkpoint = "check"
{pipeline}
[source]
{source or 'brokers = "127.0.0.1:9092"' + chr(10) + 'topics = ["t"]'}
[sink]
{sink}
{more}
"""
    return parse_spec(text, Path("/pipelines/orders.toml"), {})
