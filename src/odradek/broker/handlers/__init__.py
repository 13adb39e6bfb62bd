"""The table of handlers: every API this broker serves, with its versions. ApiVersions is derived from it."""

from odradek.broker.dispatch import Handler
from odradek.broker.handlers import (
    alter_configs,
    alter_replica_log_dirs,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)

_SERVED = [
    Handler(0, range(12), produce.produce, produce.refuse),
    Handler(1, range(18), fetch.fetch, fetch.refuse),
    Handler(2, range(10), list_offsets.list_offsets, list_offsets.refuse),
    Handler(3, range(13), metadata.metadata, metadata.refuse),
    Handler(8, range(10), offset_commit.offset_commit, offset_commit.refuse),
    Handler(9, range(10), offset_fetch.offset_fetch, offset_fetch.refuse),
    Handler(10, range(7), find_coordinator.find_coordinator, find_coordinator.refuse),
    Handler(11, range(10), join_group.join_group, join_group.refuse),
    Handler(12, range(5), heartbeat.heartbeat, heartbeat.refuse),
    Handler(13, range(6), leave_group.leave_group, leave_group.refuse),
    Handler(14, range(6), sync_group.sync_group, sync_group.refuse),
    Handler(15, range(6), describe_groups.describe_groups, describe_groups.refuse),
    Handler(16, range(6), list_groups.list_groups, list_groups.refuse),
    Handler(19, range(8), create_topics.create_topics, create_topics.refuse),
    Handler(20, range(7), delete_topics.delete_topics, delete_topics.refuse),
    Handler(21, range(3), delete_records.delete_records, delete_records.refuse),
    Handler(22, range(6), init_producer_id.init_producer_id, init_producer_id.refuse),
    Handler(23, range(5), offset_for_leader_epoch.offset_for_leader_epoch, offset_for_leader_epoch.refuse),
    Handler(32, range(5), describe_configs.describe_configs, describe_configs.refuse),
    Handler(33, range(3), alter_configs.alter_configs, alter_configs.refuse_alter_configs),
    Handler(34, range(3), alter_replica_log_dirs.alter_replica_log_dirs, alter_replica_log_dirs.refuse),
    Handler(35, range(5), describe_log_dirs.describe_log_dirs, describe_log_dirs.refuse),
    Handler(37, range(4), create_partitions.create_partitions, create_partitions.refuse),
    Handler(42, range(3), delete_groups.delete_groups, delete_groups.refuse),
    Handler(
        44,
        range(2),
        alter_configs.incremental_alter_configs,
        alter_configs.refuse_incremental_alter_configs,
    ),
    Handler(47, range(1), offset_delete.offset_delete, offset_delete.refuse),
    Handler(60, range(2), describe_cluster.describe_cluster, describe_cluster.refuse),
]


def _advertising(served: list[Handler]) -> Handler:
    advertised = [*served, Handler(18, api_versions.VERSIONS, lambda request, call: None)]
    return Handler(18, api_versions.VERSIONS, api_versions.api_versions_of(advertised), api_versions.refuse)


HANDLERS = (*_SERVED, _advertising(_SERVED))
