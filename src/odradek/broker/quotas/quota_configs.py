"""Quotas as configs of users, client ids and addresses: their keys and values, with Kafka's checks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple, Protocol

from odradek.config.types import INT_MAX, LONG_MAX
from odradek.model.errors import BrokerError, ErrorCode

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

_EPSILON: Final = 1e-6
"""Largest difference from an integer that is rounded."""


class ValueType(Enum):
    DOUBLE = "DOUBLE"
    LONG = "LONG"
    INT = "INT"


CLIENT_QUOTAS: Final[Mapping[str, ValueType]] = {
    PRODUCER_BYTE_RATE: ValueType.LONG,
    CONSUMER_BYTE_RATE: ValueType.LONG,
    REQUEST_PERCENTAGE: ValueType.DOUBLE,
    CONTROLLER_MUTATION_RATE: ValueType.DOUBLE,
}
"""Quotas of users and client ids."""

IP_QUOTAS: Final[Mapping[str, ValueType]] = {CONNECTION_CREATION_RATE: ValueType.INT}
"""Quotas of addresses."""


class QuotaOp(Protocol):
    """One change of a request; ``value`` is ignored by a removal."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> float: ...
    @property
    def remove(self) -> bool: ...


class ParsedQuotas(NamedTuple):
    """Values by key, and a line for each value that is no number."""

    values: dict[str, float]
    problems: list[str]


def parse_quotas(config: Mapping[str, str], types: Mapping[str, ValueType]) -> ParsedQuotas:
    """Return the quotas among the configs of an entity. Another version may have written others."""
    quotas = ParsedQuotas({}, [])
    for key in types:
        text = config.get(key)
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if math.isnan(value):
            quotas.problems.append(f"{key} must be a number, got {text!r}")
        else:
            quotas.values[key] = value
    return quotas


def alter_quotas(
    config: Mapping[str, str], ops: Iterable[QuotaOp], types: Mapping[str, ValueType]
) -> dict[str, str]:
    """Return the configs of an entity after changes of its quotas; other configs stay.

    Raises INVALID_REQUEST. Like in Kafka, removing an unknown quota has no effect.
    """
    altered = dict(config)
    for op in ops:
        kind = types.get(op.key)
        if op.remove:
            if kind is not None:
                altered.pop(op.key, None)
        elif kind is None:
            raise _invalid(f"quota must be one of {', '.join(types)}, got '{op.key[:249]}'")
        else:
            altered[op.key] = _value_text(op.key, op.value, kind)
    return altered


def _value_text(key: str, value: float, kind: ValueType) -> str:
    if not math.isfinite(value):
        raise _invalid(f"{key} must be a finite number, got {value}")
    if kind is ValueType.DOUBLE:
        return repr(value)
    # The largest long is no double: the next larger double stands for it.
    limit = LONG_MAX + 1 if kind is ValueType.LONG else INT_MAX
    whole = int(value + _EPSILON)
    if abs(whole - value) > _EPSILON or abs(whole) > limit:
        raise _invalid(f"{key} must be a {kind.value} value, got {value}")
    if kind is ValueType.INT and whole < 0:
        raise _invalid(f"{key} must be >= 0, got {whole}")
    return str(min(whole, LONG_MAX))


def _invalid(message: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, message)
