"""Constraints between settings, beyond the checks of each one.

Each constraint checks a whole configuration and returns one line per problem, for the user.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from odradek.config import broker, derived, listeners
from odradek.config.definition import LISTENER_PREFIX, Settings
from odradek.config.types import MIB

Constraint = Callable[[Settings, Mapping[str, str]], list[str]]


def problems(settings: Settings, raw_values: Mapping[str, str]) -> list[str]:
    """Return all problems at start; ``raw_values`` tells explicit values from defaults."""
    return _broker_id(settings, raw_values) + live_problems(settings, raw_values)


def live_problems(settings: Settings, raw_values: Mapping[str, str]) -> list[str]:
    """Return the problems of a running broker, whose id may have been generated and is not checked."""
    return [line for constraint in LIVE_CONSTRAINTS for line in constraint(settings, raw_values)]


def _broker_id(settings: Settings, raw_values: Mapping[str, str]) -> list[str]:
    broker_id = derived.broker_id(settings)
    has_both = "broker.id" in raw_values and "node.id" in raw_values
    if has_both and settings[broker.BROKER_ID] != settings[broker.NODE_ID]:
        return ["You must set `node.id` to the same value as `broker.id`."]
    if not settings[broker.BROKER_ID_GENERATION_ENABLE]:
        return [] if broker_id >= 0 else ["broker.id must be greater than or equal to 0"]
    if -1 <= broker_id <= settings[broker.RESERVED_BROKER_MAX_ID]:
        return []
    return ["broker.id must be greater than or equal to -1 and not greater than reserved.broker.max.id"]


def _mode(settings: Settings, raw_values: Mapping[str, str]) -> list[str]:
    del raw_values
    problems = []
    if settings[broker.PROCESS_ROLES]:
        problems.append("process.roles must be empty: KRaft mode is not available")
    protocols = settings[broker.GROUP_COORDINATOR_REBALANCE_PROTOCOLS]
    if "classic" not in protocols:
        problems.append(
            "group.coordinator.rebalance.protocols: Disabling the 'classic' protocol is not supported."
        )
    problems.extend(
        f"group.coordinator.rebalance.protocols: The '{name}' protocol is only supported in KRaft clusters."
        for name in protocols
        if name != "classic"
    )
    return problems


def _logs(settings: Settings, raw_values: Mapping[str, str]) -> list[str]:
    del raw_values
    problems = []
    if not derived.log_dirs(settings):
        problems.append("At least one log directory must be defined via log.dirs or log.dir.")
    if derived.roll_ms(settings) < 1:
        problems.append("log.roll.ms must be greater than or equal to 1")
    if derived.roll_jitter_ms(settings) < 0:
        problems.append("log.roll.jitter.ms must be greater than or equal to 0")
    if derived.retention_ms(settings) == 0:
        problems.append("log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
    threads = settings[broker.LOG_CLEANER_THREADS]
    if settings[broker.LOG_CLEANER_DEDUPE_BUFFER_SIZE] < threads * MIB:
        problems.append("log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")
    return problems


def _replication(settings: Settings, raw_values: Mapping[str, str]) -> list[str]:
    del raw_values
    problems = []
    wait_ms = settings[broker.REPLICA_FETCH_WAIT_MAX_MS]
    if wait_ms > settings[broker.REPLICA_SOCKET_TIMEOUT_MS]:
        problems.append("replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms")
    if wait_ms > settings[broker.REPLICA_LAG_TIME_MAX_MS]:
        problems.append("replica.fetch.wait.max.ms should always be at most replica.lag.time.max.ms")
    return problems


def _network(settings: Settings, raw_values: Mapping[str, str]) -> list[str]:
    problems = []
    queued = settings[broker.QUEUED_MAX_REQUEST_BYTES]
    if 0 < queued < settings[broker.SOCKET_REQUEST_MAX_BYTES]:
        problems.append("queued.max.request.bytes must be larger or equal to socket.request.max.bytes")
    if settings[broker.MAX_CONNECTIONS_PER_IP] == 0 and not derived.connection_limits(settings):
        problems.append(
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides is set"
        )
    if "inter.broker.listener.name" in raw_values and "security.inter.broker.protocol" in raw_values:
        problems.append(
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set."
        )
    return problems + listeners.problems(settings)


def _offsets(settings: Settings, raw_values: Mapping[str, str]) -> list[str]:
    del raw_values
    problems = []
    factor = settings[broker.OFFSETS_TOPIC_REPLICATION_FACTOR]
    if not -1 <= settings[broker.OFFSETS_COMMIT_REQUIRED_ACKS] <= factor:
        problems.append(
            "offsets.commit.required.acks must be greater or equal to -1 and less or equal to "
            "offsets.topic.replication.factor"
        )
    if not 0 <= settings[broker.OFFSETS_TOPIC_COMPRESSION_CODEC] <= 4:
        problems.append("offsets.topic.compression.codec must be a codec id between 0 and 4")
    return problems


def pool_problems(before: Settings, after: Settings) -> list[str]:
    """Return the thread pools that would shrink below half or grow beyond double their size at once."""
    problems = [
        line
        for setting in THREAD_POOLS
        for line in _pool_problem(setting.name, before[setting], after[setting])
    ]
    threads = broker.NUM_NETWORK_THREADS
    for listener in sorted(before.listeners_overriding(threads) | after.listeners_overriding(threads)):
        name = f"{LISTENER_PREFIX}{listener}.{threads.name}"
        problems += _pool_problem(
            name, before.for_listener(listener, threads), after.for_listener(listener, threads)
        )
    return problems


def _pool_problem(name: str, before: int, after: int) -> list[str]:
    message = f"Dynamic thread count update validation failed for {name}={after}, value should"
    if after < 1 and after != before:
        return [f"{message} be at least 1"]
    if after < before // 2:
        return [f"{message} be at least half the current value {before}"]
    if after > before * 2:
        return [f"{message} not be greater than double the current value {before}"]
    return []


THREAD_POOLS: Final = (
    broker.NUM_NETWORK_THREADS,
    broker.NUM_IO_THREADS,
    broker.BACKGROUND_THREADS,
    broker.NUM_REPLICA_FETCHERS,
    broker.NUM_RECOVERY_THREADS_PER_DATA_DIR,
    broker.LOG_CLEANER_THREADS,
)

LIVE_CONSTRAINTS: Final[tuple[Constraint, ...]] = (_mode, _logs, _replication, _network, _offsets)
