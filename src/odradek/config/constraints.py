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
        return [f"node.id must equal broker.id ({broker_id}), got {settings[broker.NODE_ID]}"]
    if not settings[broker.BROKER_ID_GENERATION_ENABLE]:
        return [] if broker_id >= 0 else [f"broker.id must be >= 0, got {broker_id}"]
    largest = settings[broker.RESERVED_BROKER_MAX_ID]
    if -1 <= broker_id <= largest:
        return []
    return [f"broker.id must be between -1 and reserved.broker.max.id ({largest}), got {broker_id}"]


def _mode(settings: Settings, raw_values: Mapping[str, str]) -> list[str]:
    del raw_values
    problems = []
    if settings[broker.PROCESS_ROLES]:
        problems.append("process.roles must be empty: KRaft mode is not available")
    protocols = settings[broker.GROUP_COORDINATOR_REBALANCE_PROTOCOLS]
    if set(protocols) != {"classic"}:
        problems.append(
            "group.coordinator.rebalance.protocols must be classic, "
            f"got {','.join(protocols) or repr('')}: the other protocols require KRaft"
        )
    return problems


def _logs(settings: Settings, raw_values: Mapping[str, str]) -> list[str]:
    del raw_values
    problems = []
    if not derived.log_dirs(settings):
        problems.append("log.dirs or log.dir must name at least one directory")
    if derived.roll_ms(settings) < 1:
        problems.append(f"log.roll.ms must be >= 1, got {derived.roll_ms(settings)}")
    if derived.roll_jitter_ms(settings) < 0:
        problems.append(f"log.roll.jitter.ms must be >= 0, got {derived.roll_jitter_ms(settings)}")
    if derived.retention_ms(settings) == 0:
        problems.append("log.retention.ms must be -1 (unlimited) or >= 1, got 0")
    buffer_bytes = settings[broker.LOG_CLEANER_DEDUPE_BUFFER_SIZE]
    if buffer_bytes < (bytes_min := settings[broker.LOG_CLEANER_THREADS] * MIB):
        problems.append(
            f"log.cleaner.dedupe.buffer.size must be at least 1 MiB per cleaner thread ({bytes_min}), "
            f"got {buffer_bytes}"
        )
    return problems


def _replication(settings: Settings, raw_values: Mapping[str, str]) -> list[str]:
    del raw_values
    problems = []
    wait_ms = settings[broker.REPLICA_FETCH_WAIT_MAX_MS]
    for setting in (broker.REPLICA_SOCKET_TIMEOUT_MS, broker.REPLICA_LAG_TIME_MAX_MS):
        if wait_ms > (limit_ms := settings[setting]):
            problems.append(
                f"replica.fetch.wait.max.ms must be at most {setting.name} ({limit_ms}), got {wait_ms}"
            )
    return problems


def _network(settings: Settings, raw_values: Mapping[str, str]) -> list[str]:
    problems = []
    queued = settings[broker.QUEUED_MAX_REQUEST_BYTES]
    if 0 < queued < (bytes_max := settings[broker.SOCKET_REQUEST_MAX_BYTES]):
        problems.append(
            f"queued.max.request.bytes must be at least socket.request.max.bytes ({bytes_max}), got {queued}"
        )
    if settings[broker.MAX_CONNECTIONS_PER_IP] == 0 and not derived.connection_limits(settings):
        problems.append("max.connections.per.ip must be >= 1 without max.connections.per.ip.overrides, got 0")
    if "inter.broker.listener.name" in raw_values and "security.inter.broker.protocol" in raw_values:
        problems.append(
            "only one of inter.broker.listener.name and security.inter.broker.protocol must be set, got both"
        )
    return problems + listeners.problems(settings)


def _offsets(settings: Settings, raw_values: Mapping[str, str]) -> list[str]:
    del raw_values
    problems = []
    factor = settings[broker.OFFSETS_TOPIC_REPLICATION_FACTOR]
    if not -1 <= (acks := settings[broker.OFFSETS_COMMIT_REQUIRED_ACKS]) <= factor:
        problems.append(
            "offsets.commit.required.acks must be between -1 and offsets.topic.replication.factor "
            f"({factor}), got {acks}"
        )
    if not 0 <= (codec := settings[broker.OFFSETS_TOPIC_COMPRESSION_CODEC]) <= 4:
        problems.append(f"offsets.topic.compression.codec must be a codec id between 0 and 4, got {codec}")
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
    if after < 1 and after != before:
        return [f"{name} must be at least 1, got {after}"]
    if after < before // 2:
        return [f"{name} must be at least half of its current value {before}, got {after}"]
    if after > before * 2:
        return [f"{name} must be at most double its current value {before}, got {after}"]
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
