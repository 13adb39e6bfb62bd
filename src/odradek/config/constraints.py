"""What must hold between settings, beyond what each one allows by itself.

Each rule looks at a whole configuration and gives lines to show to its owner; none stops at the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from odradek.config import broker, derived, listeners
from odradek.config.definition import LISTENER_PREFIX, Settings
from odradek.config.types import MIB

Rule = Callable[[Settings, Mapping[str, str]], list[str]]


def problems(settings: Settings, given: Mapping[str, str]) -> list[str]:
    """All that is wrong between the values; ``given`` tells what was set from what is a default."""
    return _broker_id(settings, given) + live_problems(settings, given)


def live_problems(settings: Settings, given: Mapping[str, str]) -> list[str]:
    """The same for a running broker, whose id may have been handed out and is beyond question."""
    return [line for rule in LIVE_RULES for line in rule(settings, given)]


def _broker_id(settings: Settings, given: Mapping[str, str]) -> list[str]:
    chosen = derived.broker_id(settings)
    both = "broker.id" in given and "node.id" in given
    if both and settings[broker.BROKER_ID] != settings[broker.NODE_ID]:
        return ["You must set `node.id` to the same value as `broker.id`."]
    if not settings[broker.BROKER_ID_GENERATION_ENABLE]:
        return [] if chosen >= 0 else ["broker.id must be greater than or equal to 0"]
    if -1 <= chosen <= settings[broker.RESERVED_BROKER_MAX_ID]:
        return []
    return ["broker.id must be greater than or equal to -1 and not greater than reserved.broker.max.id"]


def _mode(settings: Settings, given: Mapping[str, str]) -> list[str]:
    del given
    found = []
    if settings[broker.PROCESS_ROLES]:
        found.append("process.roles must stay empty: KRaft mode is not available")
    protocols = settings[broker.GROUP_COORDINATOR_REBALANCE_PROTOCOLS]
    if "classic" not in protocols:
        found.append(
            "group.coordinator.rebalance.protocols: Disabling the 'classic' protocol is not supported."
        )
    found.extend(
        f"group.coordinator.rebalance.protocols: The '{name}' protocol is only supported in KRaft clusters."
        for name in protocols
        if name != "classic"
    )
    return found


def _logs(settings: Settings, given: Mapping[str, str]) -> list[str]:
    del given
    found = []
    if not derived.log_dirs(settings):
        found.append("At least one log directory must be defined via log.dirs or log.dir.")
    if derived.roll_ms(settings) < 1:
        found.append("log.roll.ms must be greater than or equal to 1")
    if derived.roll_jitter_ms(settings) < 0:
        found.append("log.roll.jitter.ms must be greater than or equal to 0")
    if derived.retention_ms(settings) == 0:
        found.append("log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
    threads = settings[broker.LOG_CLEANER_THREADS]
    if settings[broker.LOG_CLEANER_DEDUPE_BUFFER_SIZE] < threads * MIB:
        found.append("log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")
    return found


def _replication(settings: Settings, given: Mapping[str, str]) -> list[str]:
    del given
    found = []
    wait_ms = settings[broker.REPLICA_FETCH_WAIT_MAX_MS]
    if wait_ms > settings[broker.REPLICA_SOCKET_TIMEOUT_MS]:
        found.append("replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms")
    if wait_ms > settings[broker.REPLICA_LAG_TIME_MAX_MS]:
        found.append("replica.fetch.wait.max.ms should always be at most replica.lag.time.max.ms")
    return found


def _network(settings: Settings, given: Mapping[str, str]) -> list[str]:
    found = []
    queued = settings[broker.QUEUED_MAX_REQUEST_BYTES]
    if 0 < queued < settings[broker.SOCKET_REQUEST_MAX_BYTES]:
        found.append("queued.max.request.bytes must be larger or equal to socket.request.max.bytes")
    if settings[broker.MAX_CONNECTIONS_PER_IP] == 0 and not derived.connection_limits(settings):
        found.append(
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides is set"
        )
    if "inter.broker.listener.name" in given and "security.inter.broker.protocol" in given:
        found.append(
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set."
        )
    return found + listeners.problems(settings)


def _offsets(settings: Settings, given: Mapping[str, str]) -> list[str]:
    del given
    found = []
    factor = settings[broker.OFFSETS_TOPIC_REPLICATION_FACTOR]
    if not -1 <= settings[broker.OFFSETS_COMMIT_REQUIRED_ACKS] <= factor:
        found.append(
            "offsets.commit.required.acks must be greater or equal to -1 and less or equal to "
            "offsets.topic.replication.factor"
        )
    if not 0 <= settings[broker.OFFSETS_TOPIC_COMPRESSION_CODEC] <= 4:
        found.append("offsets.topic.compression.codec must be a codec id, 0 to 4")
    return found


def pool_problems(before: Settings, after: Settings) -> list[str]:
    """Why thread pools cannot change at once from one size to another: by half or double at most."""
    found = [
        line
        for setting in THREAD_POOLS
        for line in _pool_problem(setting.name, before[setting], after[setting])
    ]
    threads = broker.NUM_NETWORK_THREADS
    for listener in sorted(before.listeners_overriding(threads) | after.listeners_overriding(threads)):
        name = f"{LISTENER_PREFIX}{listener}.{threads.name}"
        found += _pool_problem(
            name, before.for_listener(listener, threads), after.for_listener(listener, threads)
        )
    return found


def _pool_problem(name: str, before: int, after: int) -> list[str]:
    failed = f"Dynamic thread count update validation failed for {name}={after}, value should"
    if after < 1 and after != before:
        return [f"{failed} be at least 1"]
    if after < before // 2:
        return [f"{failed} be at least half the current value {before}"]
    if after > before * 2:
        return [f"{failed} not be greater than double the current value {before}"]
    return []


THREAD_POOLS: Final = (
    broker.NUM_NETWORK_THREADS,
    broker.NUM_IO_THREADS,
    broker.BACKGROUND_THREADS,
    broker.NUM_REPLICA_FETCHERS,
    broker.NUM_RECOVERY_THREADS_PER_DATA_DIR,
    broker.LOG_CLEANER_THREADS,
)

LIVE_RULES: Final[tuple[Rule, ...]] = (_mode, _logs, _replication, _network, _offsets)
