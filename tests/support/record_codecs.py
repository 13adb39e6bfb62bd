"""Both implementations of the record codec, each as one namespace."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace


def _namespace(package: str, modules: tuple[str, ...]) -> SimpleNamespace:
    names: dict[str, object] = {}
    for module in modules:
        names |= vars(import_module(f"odradek.records.{package}.{module}"))
    return SimpleNamespace(**{name: value for name, value in names.items() if not name.startswith("_")})


COMPILED = _namespace("compiled", ("record_batch", "compaction", "producer", "consumer"))
PURE = _namespace(
    "pure",
    (
        "record_batch",
        "offset_map",
        "batch_filter",
        "murmur2",
        "record_columns",
        "delivery",
        "producer_batch",
        "record_appender",
        "consumer_record",
        "column_builder",
        "record_reader",
    ),
)
IMPLEMENTATIONS = (COMPILED, PURE)
