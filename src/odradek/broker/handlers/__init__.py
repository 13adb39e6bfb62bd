"""The table of handlers: every API this broker serves, with its versions. ApiVersions is derived from it."""

from odradek.broker.dispatch import Handler
from odradek.broker.handlers import (
    alter_configs,
    alter_replica_log_dirs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    fetch,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)

_SERVED = [
    Handler(0, range(12), produce.produce, produce.refuse),
    Handler(1, range(18), fetch.fetch, fetch.refuse),
    Handler(2, range(10), list_offsets.list_offsets, list_offsets.refuse),
    Handler(3, range(13), metadata.metadata, metadata.refuse),
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
    Handler(
        44,
        range(2),
        alter_configs.incremental_alter_configs,
        alter_configs.refuse_incremental_alter_configs,
    ),
    Handler(60, range(2), describe_cluster.describe_cluster, describe_cluster.refuse),
]


def _advertising(served: list[Handler]) -> Handler:
    advertised = [*served, Handler(18, api_versions.VERSIONS, lambda request, call: None)]
    return Handler(18, api_versions.VERSIONS, api_versions.api_versions_of(advertised), api_versions.refuse)


HANDLERS = (*_SERVED, _advertising(_SERVED))
