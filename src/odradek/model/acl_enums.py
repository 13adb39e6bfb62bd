"""Enums of ACLs besides the operations, with Kafka's codes. UNKNOWN stands for codes of newer versions."""

import enum
from typing import Final

CLUSTER_NAME: Final = "kafka-cluster"
"""Name of the only resource of type CLUSTER."""


class AclResourceType(enum.IntEnum):
    """Types of resources that ACLs protect. Only filters have ANY."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    @classmethod
    def _missing_(cls, value: object) -> "AclResourceType":
        return cls.UNKNOWN


class PatternType(enum.IntEnum):
    """Types of resource patterns. Only filters have ANY and MATCH.

    ANY selects patterns of any type with the filter's name; MATCH selects all that apply to a resource of
    that name: the literal pattern, the wildcard, and prefixes of the name.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4

    @classmethod
    def _missing_(cls, value: object) -> "PatternType":
        return cls.UNKNOWN


class AclPermissionType(enum.IntEnum):
    """Effects of an ACL: to allow or to deny. Only filters have ANY."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3

    @classmethod
    def _missing_(cls, value: object) -> "AclPermissionType":
        return cls.UNKNOWN
