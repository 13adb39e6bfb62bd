"""ACL operations, and their bit fields in responses."""

import enum
from collections.abc import Iterable
from typing import Final


class AclOperation(enum.IntEnum):
    """Operations that ACLs allow or deny. Only filters have ANY; only newer versions than this UNKNOWN."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
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
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14

    @classmethod
    def _missing_(cls, value: object) -> "AclOperation":
        return cls.UNKNOWN


def bit_field(operations: Iterable[AclOperation]) -> int:
    """Return the bit field of operations: bit n is the operation with code n."""
    return sum(1 << operation for operation in operations)


_NOT_REQUESTED: Final = -2147483648


def operations_in(field: int) -> frozenset[AclOperation] | None:
    """Return the operations of a bit field; None if they were not requested."""
    if field == _NOT_REQUESTED:
        return None
    return frozenset(operation for operation in AclOperation if field >> operation & 1)


_CONFIGS: Final = (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)

OPERATIONS_OF_TOPIC: Final = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    *_CONFIGS,
)
OPERATIONS_OF_CLUSTER: Final = (
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.IDEMPOTENT_WRITE,
    *_CONFIGS,
)
OPERATIONS_OF_GROUP: Final = (AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE)

TOPIC_OPERATIONS: Final = bit_field(OPERATIONS_OF_TOPIC)
"""All operations on a topic: allowed for everyone while no authorizer is configured."""

CLUSTER_OPERATIONS: Final = bit_field(OPERATIONS_OF_CLUSTER)
"""All operations on the cluster."""

GROUP_OPERATIONS: Final = bit_field(OPERATIONS_OF_GROUP)
"""All operations on a group."""
