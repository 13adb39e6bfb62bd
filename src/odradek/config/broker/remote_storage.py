"""Tiered storage, which this broker does not have. Accepted so that a file which names it loads."""

from __future__ import annotations

from odradek.config.types import (
    CLUSTER_WIDE,
    GIB,
    LONG_MAX,
    LOW,
    MEDIUM,
    boolean,
    declared,
    double,
    int32,
    int64,
    text,
)


def _filled(value: str) -> str | None:
    return None if value else "String must be non-empty"


def _pool_size(value: int) -> str | None:
    return None if value == -1 or value >= 1 else "Value must be at least 1, or -1"


REMOTE_LOG_STORAGE_SYSTEM_ENABLE = boolean(
    "remote.log.storage.system.enable",
    False,
    MEDIUM,
    "Whether segments are copied to remote storage.",
    inert=True,
)

REMOTE_LOG_STORAGE_MANAGER_IMPL_PREFIX = text(
    "remote.log.storage.manager.impl.prefix",
    "rsm.config.",
    MEDIUM,
    "Prefix of the remote storage plugin's own settings.",
    check=_filled,
    allowed="not empty",
    inert=True,
)

REMOTE_LOG_METADATA_MANAGER_IMPL_PREFIX = text(
    "remote.log.metadata.manager.impl.prefix",
    "rlmm.config.",
    MEDIUM,
    "Prefix of the remote metadata plugin's own settings.",
    check=_filled,
    allowed="not empty",
    inert=True,
)

REMOTE_LOG_STORAGE_MANAGER_CLASS_NAME = text(
    "remote.log.storage.manager.class.name",
    None,
    MEDIUM,
    "Class of the remote storage plugin.",
    check=_filled,
    allowed="not empty",
    inert=True,
)

REMOTE_LOG_STORAGE_MANAGER_CLASS_PATH = text(
    "remote.log.storage.manager.class.path",
    None,
    MEDIUM,
    "Class path of the remote storage plugin.",
    inert=True,
)

REMOTE_LOG_METADATA_MANAGER_CLASS_NAME = text(
    "remote.log.metadata.manager.class.name",
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
    MEDIUM,
    "Class of the remote metadata plugin.",
    check=_filled,
    allowed="not empty",
    inert=True,
)

REMOTE_LOG_METADATA_MANAGER_CLASS_PATH = text(
    "remote.log.metadata.manager.class.path",
    None,
    MEDIUM,
    "Class path of the remote metadata plugin.",
    inert=True,
)

REMOTE_LOG_METADATA_MANAGER_LISTENER_NAME = text(
    "remote.log.metadata.manager.listener.name",
    None,
    MEDIUM,
    "Listener the remote metadata plugin connects to.",
    check=_filled,
    allowed="not empty",
    inert=True,
)

REMOTE_LOG_METADATA_CUSTOM_METADATA_MAX_BYTES = int32(
    "remote.log.metadata.custom.metadata.max.bytes",
    128,
    LOW,
    "Largest note a plugin may keep about a segment.",
    at_least=0,
    inert=True,
)

REMOTE_LOG_INDEX_FILE_CACHE_TOTAL_SIZE_BYTES = int64(
    "remote.log.index.file.cache.total.size.bytes",
    GIB,
    LOW,
    "Local cache of remote index files.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
    inert=True,
)

REMOTE_LOG_MANAGER_THREAD_POOL_SIZE = int32(
    "remote.log.manager.thread.pool.size",
    10,
    MEDIUM,
    "Threads of the remote log tasks.",
    at_least=1,
    inert=True,
)

REMOTE_LOG_MANAGER_COPIER_THREAD_POOL_SIZE = int32(
    "remote.log.manager.copier.thread.pool.size",
    -1,
    MEDIUM,
    "Threads that copy segments away.",
    check=_pool_size,
    allowed="-1 or at least 1",
    inert=True,
)

REMOTE_LOG_MANAGER_EXPIRATION_THREAD_POOL_SIZE = int32(
    "remote.log.manager.expiration.thread.pool.size",
    -1,
    MEDIUM,
    "Threads that delete remote segments.",
    check=_pool_size,
    allowed="-1 or at least 1",
    inert=True,
)

REMOTE_LOG_MANAGER_TASK_INTERVAL_MS = int64(
    "remote.log.manager.task.interval.ms",
    30_000,
    LOW,
    "How often the remote log tasks run.",
    at_least=1,
    inert=True,
)

REMOTE_LOG_MANAGER_TASK_RETRY_BACKOFF_MS = int64(
    "remote.log.manager.task.retry.backoff.ms",
    500,
    LOW,
    "First wait after a failed remote request.",
    at_least=1,
    inert=True,
    unlisted=True,
)

REMOTE_LOG_MANAGER_TASK_RETRY_BACKOFF_MAX_MS = int64(
    "remote.log.manager.task.retry.backoff.max.ms",
    30_000,
    LOW,
    "Longest wait after failed remote requests.",
    at_least=1,
    inert=True,
    unlisted=True,
)

REMOTE_LOG_MANAGER_TASK_RETRY_JITTER = double(
    "remote.log.manager.task.retry.jitter",
    0.2,
    LOW,
    "Randomness of those waits.",
    at_least=0,
    at_most=0.5,
    inert=True,
    unlisted=True,
)

REMOTE_LOG_READER_THREADS = int32(
    "remote.log.reader.threads", 10, MEDIUM, "Threads that read remote segments.", at_least=1, inert=True
)

REMOTE_LOG_READER_MAX_PENDING_TASKS = int32(
    "remote.log.reader.max.pending.tasks", 100, MEDIUM, "Remote reads that may wait.", at_least=1, inert=True
)

REMOTE_LOG_MANAGER_COPY_MAX_BYTES_PER_SECOND = int64(
    "remote.log.manager.copy.max.bytes.per.second",
    LONG_MAX,
    MEDIUM,
    "Bytes per second copied away.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
    inert=True,
)

REMOTE_LOG_MANAGER_COPY_QUOTA_WINDOW_NUM = int32(
    "remote.log.manager.copy.quota.window.num",
    11,
    MEDIUM,
    "Samples kept to measure that rate.",
    at_least=1,
    inert=True,
)

REMOTE_LOG_MANAGER_COPY_QUOTA_WINDOW_SIZE_SECONDS = int32(
    "remote.log.manager.copy.quota.window.size.seconds",
    1,
    MEDIUM,
    "Length of one such sample.",
    at_least=1,
    inert=True,
)

REMOTE_LOG_MANAGER_FETCH_MAX_BYTES_PER_SECOND = int64(
    "remote.log.manager.fetch.max.bytes.per.second",
    LONG_MAX,
    MEDIUM,
    "Bytes per second read back.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
    inert=True,
)

REMOTE_LOG_MANAGER_FETCH_QUOTA_WINDOW_NUM = int32(
    "remote.log.manager.fetch.quota.window.num",
    11,
    MEDIUM,
    "Samples kept to measure that rate.",
    at_least=1,
    inert=True,
)

REMOTE_LOG_MANAGER_FETCH_QUOTA_WINDOW_SIZE_SECONDS = int32(
    "remote.log.manager.fetch.quota.window.size.seconds",
    1,
    MEDIUM,
    "Length of one such sample.",
    at_least=1,
    inert=True,
)

REMOTE_FETCH_MAX_WAIT_MS = int32(
    "remote.fetch.max.wait.ms",
    500,
    MEDIUM,
    "How long a fetch waits for remote storage.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
    inert=True,
)

LOG_LOCAL_RETENTION_MS = int64(
    "log.local.retention.ms",
    -2,
    MEDIUM,
    "Age after which a copied segment is deleted locally.",
    at_least=-2,
    dynamic=CLUSTER_WIDE,
    inert=True,
)

LOG_LOCAL_RETENTION_BYTES = int64(
    "log.local.retention.bytes",
    -2,
    MEDIUM,
    "Size above which copied segments are deleted locally.",
    at_least=-2,
    dynamic=CLUSTER_WIDE,
    inert=True,
)

REMOTE_STORAGE_SETTINGS = declared(globals())
