"""The table of handlers: every API this broker serves, with its versions. ApiVersions is derived from it.

A handler and its messages are imported when they are first asked for, so that a start does not wait for what
may never be used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from odradek.broker.requests.dispatcher import Handler, LoadHandler


def _at(module: str, handle: str | None = None, refuse: str = "refuse") -> LoadHandler:
    """Where a handler is found: in the module called like its API, under the same name."""

    def load() -> tuple[Any, Any]:
        found = import_module(f"{__name__}.{module}")
        return getattr(found, handle or module), getattr(found, refuse)

    return load


_SERVED = [
    Handler(0, range(12), _at("produce")),
    Handler(1, range(18), _at("fetch")),
    Handler(2, range(10), _at("list_offsets")),
    Handler(3, range(13), _at("metadata")),
    Handler(8, range(10), _at("offset_commit")),
    Handler(9, range(10), _at("offset_fetch")),
    Handler(10, range(7), _at("find_coordinator")),
    Handler(11, range(10), _at("join_group")),
    Handler(12, range(5), _at("heartbeat")),
    Handler(13, range(6), _at("leave_group")),
    Handler(14, range(6), _at("sync_group")),
    Handler(15, range(6), _at("describe_groups")),
    Handler(16, range(6), _at("list_groups")),
    Handler(17, range(2), _at("sasl_handshake")),
    Handler(19, range(8), _at("create_topics")),
    Handler(20, range(7), _at("delete_topics")),
    Handler(21, range(3), _at("delete_records")),
    Handler(22, range(6), _at("init_producer_id")),
    Handler(23, range(5), _at("offset_for_leader_epoch")),
    Handler(24, range(6), _at("add_partitions_to_txn")),
    Handler(25, range(5), _at("add_offsets_to_txn")),
    Handler(26, range(5), _at("end_txn")),
    Handler(27, range(2), _at("write_txn_markers")),
    Handler(28, range(5), _at("txn_offset_commit")),
    Handler(29, range(4), _at("describe_acls")),
    Handler(30, range(4), _at("create_acls")),
    Handler(31, range(4), _at("delete_acls")),
    Handler(32, range(5), _at("describe_configs")),
    Handler(33, range(3), _at("alter_configs", refuse="refuse_alter_configs")),
    Handler(34, range(3), _at("alter_replica_log_dirs")),
    Handler(35, range(5), _at("describe_log_dirs")),
    Handler(37, range(4), _at("create_partitions")),
    Handler(42, range(3), _at("delete_groups")),
    Handler(43, range(3), _at("elect_leaders")),
    Handler(
        44, range(2), _at("alter_configs", "incremental_alter_configs", "refuse_incremental_alter_configs")
    ),
    Handler(45, range(1), _at("alter_partition_reassignments")),
    Handler(46, range(1), _at("list_partition_reassignments")),
    Handler(47, range(1), _at("offset_delete")),
    Handler(48, range(2), _at("describe_client_quotas")),
    Handler(50, range(1), _at("describe_user_scram_credentials")),
    Handler(60, range(2), _at("describe_cluster")),
    Handler(61, range(1), _at("describe_producers")),
    Handler(65, range(1), _at("describe_transactions")),
    Handler(66, range(2), _at("list_transactions")),
]


def _advertise() -> tuple[Any, Any]:
    api_versions = import_module(f"{__name__}.api_versions")
    return api_versions.api_versions_of(HANDLERS), api_versions.refuse


HANDLERS = (*_SERVED, Handler(18, range(5), _advertise))
