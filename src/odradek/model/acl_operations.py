"""Operations that can be permitted, as the protocol counts them, and the bit fields answers carry."""

import enum
from collections.abc import Iterable
from typing import Final


class Operation(enum.IntEnum):
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def bit_field(operations: Iterable[Operation]) -> int:
    """One bit per operation, at the place of its code."""
    return sum(1 << operation for operation in operations)


_NOT_TOLD: Final = -2147483648


def operations_in(field: int) -> frozenset[Operation] | None:
    """The operations of a bit field; None for the number that says they were not asked for."""
    if field == _NOT_TOLD:
        return None
    return frozenset(operation for operation in Operation if field >> operation & 1)


_CONFIGS: Final = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)

TOPIC_OPERATIONS: Final = bit_field(
    (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        *_CONFIGS,
    )
)
"""All that can be done with a topic: what everyone may, while nobody authorises."""

CLUSTER_OPERATIONS: Final = bit_field(
    (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.IDEMPOTENT_WRITE,
        *_CONFIGS,
    )
)
"""All that can be done with the cluster."""

GROUP_OPERATIONS: Final = bit_field((Operation.READ, Operation.DELETE, Operation.DESCRIBE))
"""All that can be done with a group."""
