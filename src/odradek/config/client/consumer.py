"""Options of consumers: positions, fetching and group membership."""

from __future__ import annotations

from typing import Final

from odradek.config.client import connection
from odradek.config.client.definition import ClientConfigDef, reject_class_name
from odradek.config.definition import Setting
from odradek.config.types import (
    HIGH,
    LOW,
    MEDIUM,
    MIB,
    MINUTE_MS,
    boolean,
    choice,
    class_name,
    declared,
    int32,
    string,
    string_list,
)
from odradek.model.protocol_enums import ConfigType

_JAVA_ASSIGNORS: Final = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
ASSIGNORS: Final = tuple(_JAVA_ASSIGNORS.values())

# As in Kafka's consumer, which sends many requests of different kinds at once.
_IN_FLIGHT_MAX: Final = 100


def _parse_assignors(text: str) -> tuple[str, ...]:
    names = (name.strip() for name in text.split(",")) if text else ()
    return tuple(_JAVA_ASSIGNORS.get(name, name) for name in names)


def _assignors(names: tuple[str, ...]) -> str | None:
    if not set(names) <= set(ASSIGNORS):
        return (
            f"must be any of {', '.join(ASSIGNORS)}; pass your own assignor in the keyword argument assignors"
        )
    return None if len(set(names)) == len(names) else "must name each assignor once"


def _reset(value: str) -> str | None:
    if value in {"latest", "earliest", "none"}:
        return None
    aliases = {"smallest": "earliest", "beginning": "earliest", "largest": "latest", "end": "latest"}
    aliases["error"] = "none"
    hint = f"; {value} is called {aliases[value]}" if value in aliases else ""
    return f"must be one of latest, earliest, none{hint}"


def _group_protocol(value: str) -> str | None:
    if value == "consumer":
        return "must be classic; the consumer protocol is not available"
    return None if value == "classic" else "must be classic"


def _instance_id(value: str | None) -> str | None:
    if value == "":
        return "must be non-empty"
    if value in {".", ".."} or (value is not None and len(value) > 249):
        return "must have at most 249 characters, and not be . or .."
    is_valid = value is None or all(
        letter.isascii() and (letter.isalnum() or letter in "._-") for letter in value
    )
    return None if is_valid else "must have only ASCII letters, digits, '.', '_' and '-'"


KEY_DESERIALIZER = class_name(
    "key.deserializer",
    None,
    HIGH,
    'Deserializer of keys: use the keyword argument key_deserializer, a function or "bytes", "str" '
    'or "json".',
    check=reject_class_name("key_deserializer", 'a function or "bytes", "str" or "json"'),
    allowed="nothing",
)

VALUE_DESERIALIZER = class_name(
    "value.deserializer",
    None,
    HIGH,
    "Deserializer of values: use the keyword argument value_deserializer.",
    check=reject_class_name("value_deserializer", 'a function or "bytes", "str" or "json"'),
    allowed="nothing",
)

INTERCEPTOR_CLASSES = string_list(
    "interceptor.classes",
    (),
    LOW,
    "Interceptors of records before poll returns them, and of commits: use the keyword argument "
    "interceptors.",
    check=reject_class_name("interceptors", "objects with on_consume and on_commit"),
    allowed="nothing",
)

GROUP_ID = string(
    "group.id",
    None,
    HIGH,
    "Group of this consumer. Required to subscribe and to commit, but not to assign.",
)

GROUP_INSTANCE_ID = string(
    "group.instance.id",
    None,
    MEDIUM,
    "Static member id. A static member keeps its partitions if it restarts within session.timeout.ms.",
    check=_instance_id,
    allowed="letters, digits, ., _ and -",
)

GROUP_PROTOCOL = Setting(
    "group.protocol",
    ConfigType.STRING,
    "classic",
    HIGH,
    "Group protocol. Only classic is available.",
    str.lower,
    check=_group_protocol,
    allowed="classic",
)

GROUP_REMOTE_ASSIGNOR = string(
    "group.remote.assignor",
    None,
    MEDIUM,
    "Assignor of the broker; only for the consumer protocol.",
    check=lambda value: "must not be set with group.protocol=classic" if value is not None else None,
    allowed="nothing",
)

PARTITION_ASSIGNMENT_STRATEGY: Setting[tuple[str, ...]] = Setting(
    "partition.assignment.strategy",
    ConfigType.LIST,
    ("range", "cooperative-sticky"),
    MEDIUM,
    "Supported assignors in order of preference: range, roundrobin, sticky, cooperative-sticky. The "
    "names of Kafka's Java classes are accepted too; use the keyword argument assignors for your "
    "own.",
    _parse_assignors,
    check=_assignors,
    allowed=f"any of {', '.join(ASSIGNORS)}",
)

SESSION_TIMEOUT_MS = int32(
    "session.timeout.ms",
    45_000,
    HIGH,
    "Time without heartbeats after which a member is removed from the group. The broker limits it.",
)

HEARTBEAT_INTERVAL_MS = int32(
    "heartbeat.interval.ms",
    3000,
    HIGH,
    "Interval between heartbeats; at most a third of session.timeout.ms is recommended.",
)

MAX_POLL_INTERVAL_MS = int32(
    "max.poll.interval.ms",
    5 * MINUTE_MS,
    MEDIUM,
    "Maximum time between two calls of poll; a slower member leaves the group.",
    at_least=1,
)

MAX_POLL_RECORDS = int32(
    "max.poll.records", 500, MEDIUM, "Maximum number of records returned by poll.", at_least=1
)

ENABLE_AUTO_COMMIT = boolean(
    "enable.auto.commit",
    True,
    MEDIUM,
    "Whether the offsets of records returned by poll are committed periodically. Disabled without a group.",
)

AUTO_COMMIT_INTERVAL_MS = int32(
    "auto.commit.interval.ms", 5000, LOW, "Interval between automatic commits.", at_least=0
)

AUTO_OFFSET_RESET = string(
    "auto.offset.reset",
    "latest",
    MEDIUM,
    "Position without a valid committed offset: the end (latest), the beginning (earliest), or an "
    "error (none).",
    check=_reset,
    allowed="one of latest, earliest, none",
)

ISOLATION_LEVEL = choice(
    "isolation.level",
    "read_uncommitted",
    MEDIUM,
    "Whether records of open and aborted transactions are returned (read_uncommitted) or not "
    "(read_committed).",
    among=("read_committed", "read_uncommitted"),
)

FETCH_MIN_BYTES = int32(
    "fetch.min.bytes",
    1,
    HIGH,
    "Minimum bytes of a fetch response; the broker waits for them up to fetch.max.wait.ms.",
    at_least=0,
)

FETCH_MAX_BYTES = int32(
    "fetch.max.bytes",
    50 * MIB,
    MEDIUM,
    "Maximum bytes of a fetch response; a larger first batch is still returned.",
    at_least=0,
)

FETCH_MAX_WAIT_MS = int32(
    "fetch.max.wait.ms", 500, LOW, "Maximum time a broker waits for fetch.min.bytes.", at_least=0
)

MAX_PARTITION_FETCH_BYTES = int32(
    "max.partition.fetch.bytes",
    MIB,
    HIGH,
    "Maximum bytes of a partition in a fetch response; a larger first batch is still returned.",
    at_least=0,
)

CHECK_CRCS = boolean("check.crcs", True, LOW, "Whether the checksums of fetched batches are verified.")

EXCLUDE_INTERNAL_TOPICS = boolean(
    "exclude.internal.topics",
    True,
    MEDIUM,
    "Whether subscription patterns exclude internal topics. They can be subscribed to by name.",
)

INTERNAL_LEAVE_GROUP_ON_CLOSE = boolean(
    "internal.leave.group.on.close",
    True,
    LOW,
    "Whether close sends LeaveGroup, so that the group need not wait for the session timeout.",
    unlisted=True,
)

INTERNAL_THROW_ON_FETCH_STABLE_OFFSET_UNSUPPORTED = boolean(
    "internal.throw.on.fetch.stable.offset.unsupported",
    False,
    LOW,
    "Whether fetching committed offsets fails on brokers that do not support stable offsets.",
    inert=True,
    unlisted=True,
)

CONSUMER_SETTINGS = declared(globals())

CONSUMER = ClientConfigDef(
    "consumer",
    CONSUMER_SETTINGS,
    without=(connection.METADATA_MAX_IDLE_MS, connection.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION),
    fixed={connection.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION: _IN_FLIGHT_MAX},
)
