"""Settings of tiered storage, which is not available. Accepted so that files with them can be loaded."""

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
    string,
)


def _non_empty(value: str) -> str | None:
    return None if value else "must be non-empty"


def _pool_size(value: int) -> str | None:
    return None if value == -1 or value >= 1 else "must be at least 1, or -1"


REMOTE_LOG_STORAGE_SYSTEM_ENABLE = boolean(
    "remote.log.storage.system.enable",
    False,
    MEDIUM,
    "Whether segments are copied to remote storage.",
    inert=True,
)

REMOTE_LOG_STORAGE_MANAGER_IMPL_PREFIX = string(
    "remote.log.storage.manager.impl.prefix",
    "rsm.config.",
    MEDIUM,
    "Prefix of the settings of the remote storage plugin.",
    check=_non_empty,
    allowed="not empty",
    inert=True,
)

REMOTE_LOG_METADATA_MANAGER_IMPL_PREFIX = string(
    "remote.log.metadata.manager.impl.prefix",
    "rlmm.config.",
    MEDIUM,
    "Prefix of the settings of the remote metadata plugin.",
    check=_non_empty,
    allowed="not empty",
    inert=True,
)

REMOTE_LOG_STORAGE_MANAGER_CLASS_NAME = string(
    "remote.log.storage.manager.class.name",
    None,
    MEDIUM,
    "Class of the remote storage plugin.",
    check=_non_empty,
    allowed="not empty",
    inert=True,
)

REMOTE_LOG_STORAGE_MANAGER_CLASS_PATH = string(
    "remote.log.storage.manager.class.path",
    None,
    MEDIUM,
    "Class path of the remote storage plugin.",
    inert=True,
)

REMOTE_LOG_METADATA_MANAGER_CLASS_NAME = string(
    "remote.log.metadata.manager.class.name",
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
    MEDIUM,
    "Class of the remote metadata plugin.",
    check=_non_empty,
    allowed="not empty",
    inert=True,
)

REMOTE_LOG_METADATA_MANAGER_CLASS_PATH = string(
    "remote.log.metadata.manager.class.path",
    None,
    MEDIUM,
    "Class path of the remote metadata plugin.",
    inert=True,
)

REMOTE_LOG_METADATA_MANAGER_LISTENER_NAME = string(
    "remote.log.metadata.manager.listener.name",
    None,
    MEDIUM,
    "Listener that the remote metadata plugin connects to.",
    check=_non_empty,
    allowed="not empty",
    inert=True,
)

REMOTE_LOG_METADATA_CUSTOM_METADATA_MAX_BYTES = int32(
    "remote.log.metadata.custom.metadata.max.bytes",
    128,
    LOW,
    "Maximum size of a plugin's metadata of a segment.",
    at_least=0,
    inert=True,
)

REMOTE_LOG_INDEX_FILE_CACHE_TOTAL_SIZE_BYTES = int64(
    "remote.log.index.file.cache.total.size.bytes",
    GIB,
    LOW,
    "Size of the local cache of remote index files.",
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
    "Threads that copy segments to remote storage.",
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
    "Interval of the remote log tasks.",
    at_least=1,
    inert=True,
)

REMOTE_LOG_MANAGER_TASK_RETRY_BACKOFF_MS = int64(
    "remote.log.manager.task.retry.backoff.ms",
    500,
    LOW,
    "Initial backoff after a failed remote request.",
    at_least=1,
    inert=True,
    unlisted=True,
)

REMOTE_LOG_MANAGER_TASK_RETRY_BACKOFF_MAX_MS = int64(
    "remote.log.manager.task.retry.backoff.max.ms",
    30_000,
    LOW,
    "Maximum backoff after failed remote requests.",
    at_least=1,
    inert=True,
    unlisted=True,
)

REMOTE_LOG_MANAGER_TASK_RETRY_JITTER = double(
    "remote.log.manager.task.retry.jitter",
    0.2,
    LOW,
    "Random jitter of the backoff.",
    at_least=0,
    at_most=0.5,
    inert=True,
    unlisted=True,
)

REMOTE_LOG_READER_THREADS = int32(
    "remote.log.reader.threads", 10, MEDIUM, "Threads that read remote segments.", at_least=1, inert=True
)

REMOTE_LOG_READER_MAX_PENDING_TASKS = int32(
    "remote.log.reader.max.pending.tasks",
    100,
    MEDIUM,
    "Maximum number of pending remote reads.",
    at_least=1,
    inert=True,
)

REMOTE_LOG_MANAGER_COPY_MAX_BYTES_PER_SECOND = int64(
    "remote.log.manager.copy.max.bytes.per.second",
    LONG_MAX,
    MEDIUM,
    "Maximum bytes per second copied to remote storage.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
    inert=True,
)

REMOTE_LOG_MANAGER_COPY_QUOTA_WINDOW_NUM = int32(
    "remote.log.manager.copy.quota.window.num",
    11,
    MEDIUM,
    "Number of samples of the copy quota.",
    at_least=1,
    inert=True,
)

REMOTE_LOG_MANAGER_COPY_QUOTA_WINDOW_SIZE_SECONDS = int32(
    "remote.log.manager.copy.quota.window.size.seconds",
    1,
    MEDIUM,
    "Length of a sample of the copy quota.",
    at_least=1,
    inert=True,
)

REMOTE_LOG_MANAGER_FETCH_MAX_BYTES_PER_SECOND = int64(
    "remote.log.manager.fetch.max.bytes.per.second",
    LONG_MAX,
    MEDIUM,
    "Maximum bytes per second fetched from remote storage.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
    inert=True,
)

REMOTE_LOG_MANAGER_FETCH_QUOTA_WINDOW_NUM = int32(
    "remote.log.manager.fetch.quota.window.num",
    11,
    MEDIUM,
    "Number of samples of the fetch quota.",
    at_least=1,
    inert=True,
)

REMOTE_LOG_MANAGER_FETCH_QUOTA_WINDOW_SIZE_SECONDS = int32(
    "remote.log.manager.fetch.quota.window.size.seconds",
    1,
    MEDIUM,
    "Length of a sample of the fetch quota.",
    at_least=1,
    inert=True,
)

REMOTE_FETCH_MAX_WAIT_MS = int32(
    "remote.fetch.max.wait.ms",
    500,
    MEDIUM,
    "Maximum time a fetch waits for remote storage.",
    at_least=1,
    dynamic=CLUSTER_WIDE,
    inert=True,
)

LOG_LOCAL_RETENTION_MS = int64(
    "log.local.retention.ms",
    -2,
    MEDIUM,
    "Age after which a segment that was copied is deleted locally.",
    at_least=-2,
    dynamic=CLUSTER_WIDE,
    inert=True,
)

LOG_LOCAL_RETENTION_BYTES = int64(
    "log.local.retention.bytes",
    -2,
    MEDIUM,
    "Size above which segments that were copied are deleted locally.",
    at_least=-2,
    dynamic=CLUSTER_WIDE,
    inert=True,
)

REMOTE_STORAGE_SETTINGS = declared(globals())
