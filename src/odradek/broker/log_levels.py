"""Log levels of the broker: the BROKER_LOGGER resource of the config APIs.

Levels have Kafka's names. They apply at once and are reset when the broker stops.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from odradek.config.dynamic.alter_configs import AlterOperation, check_operations
from odradek.model.errors import BrokerError, ErrorCode
from odradek.model.protocol_enums import AlterOp
from odradek.telemetry import events


def plan_levels(operations: Sequence[AlterOperation], known: Collection[str]) -> dict[str, str | None]:
    """Return the new level of each logger; None resets it to the level of the root logger."""
    check_operations(operations)
    levels: dict[str, str | None] = {}
    for name, op, level in operations:
        if op not in {AlterOp.SET, AlterOp.DELETE}:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST,
                f"{_word(op)} operation is not allowed for the BROKER_LOGGER resource",
            )
        if name not in known:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
        if op == AlterOp.SET and level not in events.KAFKA_LEVELS:
            raise BrokerError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
                f"Valid log levels are {', '.join(events.KAFKA_LEVELS)}",
            )
        if op == AlterOp.DELETE and name == events.ROOT_NAME:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST,
                f"Removing the log level of the {events.ROOT_NAME} logger is not allowed",
            )
        levels[name] = level if op == AlterOp.SET else None
    return levels


def _word(op: int) -> str:
    return AlterOp(op).name if op in set(AlterOp) else f"Unknown ({op})"


def alter_levels(operations: Sequence[AlterOperation], *, validate_only: bool) -> None:
    levels = plan_levels(operations, events.levels())
    if not validate_only:
        for name, level in levels.items():
            events.set_level(name, level)
