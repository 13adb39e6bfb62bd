"""Options of consumers: where reading begins, how much is fetched, and how a group's member behaves."""

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
    text,
    words,
)
from odradek.model.protocol_enums import ConfigType

_JAVA_ASSIGNORS: Final = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
ASSIGNORS: Final = tuple(_JAVA_ASSIGNORS.values())

# A consumer asks many brokers for many things at once; each connection takes as many as Kafka's.
_IN_FLIGHT_MAX: Final = 100


def _read_assignors(given: str) -> tuple[str, ...]:
    names = (word.strip() for word in given.split(",")) if given else ()
    return tuple(_JAVA_ASSIGNORS.get(name, name) for name in names)


def _assignors(names: tuple[str, ...]) -> str | None:
    if unknown := [name for name in names if name not in ASSIGNORS]:
        return (
            f"{unknown[0]!r} is none of {', '.join(ASSIGNORS)}; give one of your own as the keyword argument "
            "assignors"
        )
    return None if len(set(names)) == len(names) else "an assignor is named twice"


def _reset(value: str) -> str | None:
    if value in {"latest", "earliest", "none"}:
        return None
    said = {"smallest": "earliest", "beginning": "earliest", "largest": "latest", "end": "latest"}
    said["error"] = "none"
    hint = f"; {value} is called {said[value]}" if value in said else ""
    return f"String must be one of: latest, earliest, none{hint}"


def _group_protocol(value: str) -> str | None:
    if value == "consumer":
        return "The consumer protocol is not available: only classic groups can be joined"
    return None if value == "classic" else "String must be one of (case insensitive): CONSUMER, CLASSIC"


def _instance_id(value: str | None) -> str | None:
    if value == "":
        return "String must be non-empty"
    if value in {".", ".."} or (value is not None and len(value) > 249):
        return "must be at most 249 characters, and neither . nor .."
    legal = value is None or all(
        letter.isascii() and (letter.isalnum() or letter in "._-") for letter in value
    )
    return None if legal else "may have only ASCII letters, digits, '.', '_' and '-'"


KEY_DESERIALIZER = class_name(
    "key.deserializer",
    None,
    HIGH,
    'What makes keys of bytes: here the keyword argument key_deserializer, a function or "bytes", "str" or '
    '"json".',
    check=reject_class_name("key_deserializer", 'a function or "bytes", "str" or "json"'),
    allowed="nothing",
)

VALUE_DESERIALIZER = class_name(
    "value.deserializer",
    None,
    HIGH,
    "What makes values of bytes: here the keyword argument value_deserializer.",
    check=reject_class_name("value_deserializer", 'a function or "bytes", "str" or "json"'),
    allowed="nothing",
)

INTERCEPTOR_CLASSES = words(
    "interceptor.classes",
    (),
    LOW,
    "Who sees records before poll gives them, and commits: here the keyword argument interceptors.",
    check=reject_class_name("interceptors", "objects with on_consume and on_commit"),
    allowed="nothing",
)

GROUP_ID = text(
    "group.id",
    None,
    HIGH,
    "Group that this consumer belongs to. Needed to subscribe and to commit, not to assign.",
)

GROUP_INSTANCE_ID = text(
    "group.instance.id",
    None,
    MEDIUM,
    "Name of a member that keeps its partitions while it restarts within session.timeout.ms.",
    check=_instance_id,
    allowed="letters, digits, ., _ and -",
)

GROUP_PROTOCOL = Setting(
    "group.protocol",
    ConfigType.STRING,
    "classic",
    HIGH,
    "How the group is kept. Only classic is available.",
    str.lower,
    check=_group_protocol,
    allowed="classic",
)

GROUP_REMOTE_ASSIGNOR = text(
    "group.remote.assignor",
    None,
    MEDIUM,
    "Assignor of the broker, with the consumer protocol alone.",
    check=lambda value: "cannot be set with group.protocol=classic" if value is not None else None,
    allowed="nothing",
)

PARTITION_ASSIGNMENT_STRATEGY: Setting[tuple[str, ...]] = Setting(
    "partition.assignment.strategy",
    ConfigType.LIST,
    ("range", "cooperative-sticky"),
    MEDIUM,
    "Assignors that this member knows, the preferred one first: range, roundrobin, sticky, "
    "cooperative-sticky. The names of Kafka's Java classes mean the same; assignors of your own are the "
    "keyword argument assignors.",
    _read_assignors,
    check=_assignors,
    allowed=f"any of {', '.join(ASSIGNORS)}",
)

SESSION_TIMEOUT_MS = int32(
    "session.timeout.ms",
    45_000,
    HIGH,
    "A member that was not heard of for so long is out of the group. The broker bounds this.",
)

HEARTBEAT_INTERVAL_MS = int32(
    "heartbeat.interval.ms",
    3000,
    HIGH,
    "How often the group is told that this member lives; at most a third of session.timeout.ms is wise.",
)

MAX_POLL_INTERVAL_MS = int32(
    "max.poll.interval.ms",
    5 * MINUTE_MS,
    MEDIUM,
    "Longest time between two calls of poll: a member that takes longer leaves the group.",
    at_least=1,
)

MAX_POLL_RECORDS = int32("max.poll.records", 500, MEDIUM, "Most records that poll gives at once.", at_least=1)

ENABLE_AUTO_COMMIT = boolean(
    "enable.auto.commit",
    True,
    MEDIUM,
    "Whether the offsets of records that poll gave are committed from time to time. Off without a group.",
)

AUTO_COMMIT_INTERVAL_MS = int32(
    "auto.commit.interval.ms", 5000, LOW, "How often they are committed.", at_least=0
)

AUTO_OFFSET_RESET = text(
    "auto.offset.reset",
    "latest",
    MEDIUM,
    "Where reading begins without a committed offset, or when it lies outside the log: at the end (latest), "
    "at the beginning (earliest), or with an error (none).",
    check=_reset,
    allowed="one of latest, earliest, none",
)

ISOLATION_LEVEL = choice(
    "isolation.level",
    "read_uncommitted",
    MEDIUM,
    "Whether records of open and aborted transactions are given (read_uncommitted) or not (read_committed).",
    among=("read_committed", "read_uncommitted"),
)

FETCH_MIN_BYTES = int32(
    "fetch.min.bytes",
    1,
    HIGH,
    "A broker with less to give waits for more, up to fetch.max.wait.ms.",
    at_least=0,
)

FETCH_MAX_BYTES = int32(
    "fetch.max.bytes",
    50 * MIB,
    MEDIUM,
    "About how much one answer holds; a first batch that is larger is given whole.",
    at_least=0,
)

FETCH_MAX_WAIT_MS = int32(
    "fetch.max.wait.ms", 500, LOW, "How long a broker waits for fetch.min.bytes.", at_least=0
)

MAX_PARTITION_FETCH_BYTES = int32(
    "max.partition.fetch.bytes",
    MIB,
    HIGH,
    "About how much one answer holds of each partition.",
    at_least=0,
)

CHECK_CRCS = boolean("check.crcs", True, LOW, "Whether checksums of fetched batches are verified.")

EXCLUDE_INTERNAL_TOPICS = boolean(
    "exclude.internal.topics",
    True,
    MEDIUM,
    "Whether a pattern passes over the cluster's own topics. They can be subscribed to by name.",
)

INTERNAL_LEAVE_GROUP_ON_CLOSE = boolean(
    "internal.leave.group.on.close",
    True,
    LOW,
    "Whether close tells the group, so that it need not wait for the session to end.",
    unlisted=True,
)

INTERNAL_THROW_ON_FETCH_STABLE_OFFSET_UNSUPPORTED = boolean(
    "internal.throw.on.fetch.stable.offset.unsupported",
    False,
    LOW,
    "Whether committed offsets are refused to be read from brokers that cannot tell stable ones.",
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
