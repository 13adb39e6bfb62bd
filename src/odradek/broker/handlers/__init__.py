"""Table of handlers: every supported API with its versions. ApiVersions is derived from it.

A handler and its messages are imported on first use or by ``preloading``, to keep start-up fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from odradek.broker.requests.dispatcher import Handler, LoadHandler


def _load_from(module: str, handle: str | None = None, error_response: str = "error_response") -> LoadHandler:
    """Return a loader of a handler: by default the function named like its module and API."""

    def load() -> tuple[Any, Any]:
        imported = import_module(f"{__name__}.{module}")
        return getattr(imported, handle or module), getattr(imported, error_response)

    load.__name__ = module  # named in the reference of APIs
    return load


_SUPPORTED = [
    Handler(0, range(12), _load_from("produce")),
    Handler(1, range(18), _load_from("fetch")),
    Handler(2, range(10), _load_from("list_offsets")),
    Handler(3, range(13), _load_from("metadata")),
    Handler(4, range(8), _load_from("leader_and_isr")),
    Handler(5, range(5), _load_from("stop_replica")),
    Handler(6, range(9), _load_from("update_metadata")),
    Handler(7, range(4), _load_from("controlled_shutdown")),
    Handler(8, range(10), _load_from("offset_commit")),
    Handler(9, range(10), _load_from("offset_fetch")),
    Handler(10, range(7), _load_from("find_coordinator")),
    Handler(11, range(10), _load_from("join_group")),
    Handler(12, range(5), _load_from("heartbeat")),
    Handler(13, range(6), _load_from("leave_group")),
    Handler(14, range(6), _load_from("sync_group")),
    Handler(15, range(6), _load_from("describe_groups")),
    Handler(16, range(6), _load_from("list_groups")),
    Handler(17, range(2), _load_from("sasl_handshake")),
    Handler(19, range(8), _load_from("create_topics")),
    Handler(20, range(7), _load_from("delete_topics")),
    Handler(21, range(3), _load_from("delete_records")),
    Handler(22, range(6), _load_from("init_producer_id")),
    Handler(23, range(5), _load_from("offset_for_leader_epoch")),
    Handler(24, range(6), _load_from("add_partitions_to_txn")),
    Handler(25, range(5), _load_from("add_offsets_to_txn")),
    Handler(26, range(5), _load_from("end_txn")),
    Handler(27, range(2), _load_from("write_txn_markers")),
    Handler(28, range(5), _load_from("txn_offset_commit")),
    Handler(29, range(4), _load_from("describe_acls")),
    Handler(30, range(4), _load_from("create_acls")),
    Handler(31, range(4), _load_from("delete_acls")),
    Handler(32, range(5), _load_from("describe_configs")),
    Handler(33, range(3), _load_from("alter_configs", error_response="alter_configs_error_response")),
    Handler(34, range(3), _load_from("alter_replica_log_dirs")),
    Handler(35, range(5), _load_from("describe_log_dirs")),
    Handler(36, range(3), _load_from("sasl_authenticate")),
    Handler(37, range(4), _load_from("create_partitions")),
    Handler(38, range(4), _load_from("create_delegation_token")),
    Handler(39, range(3), _load_from("renew_delegation_token")),
    Handler(40, range(3), _load_from("expire_delegation_token")),
    Handler(41, range(4), _load_from("describe_delegation_token")),
    Handler(42, range(3), _load_from("delete_groups")),
    Handler(43, range(3), _load_from("elect_leaders")),
    Handler(
        44,
        range(2),
        _load_from("alter_configs", "incremental_alter_configs", "incremental_alter_configs_error_response"),
    ),
    Handler(45, range(1), _load_from("alter_partition_reassignments")),
    Handler(46, range(1), _load_from("list_partition_reassignments")),
    Handler(47, range(1), _load_from("offset_delete")),
    Handler(48, range(2), _load_from("describe_client_quotas")),
    Handler(49, range(2), _load_from("alter_client_quotas")),
    Handler(50, range(1), _load_from("describe_user_scram_credentials")),
    Handler(51, range(1), _load_from("alter_user_scram_credentials")),
    Handler(56, range(4), _load_from("alter_partition")),
    Handler(60, range(2), _load_from("describe_cluster")),
    Handler(61, range(1), _load_from("describe_producers")),
    Handler(65, range(1), _load_from("describe_transactions")),
    Handler(66, range(2), _load_from("list_transactions")),
    Handler(67, range(1), _load_from("allocate_producer_ids")),
]


def _load_api_versions() -> tuple[Any, Any]:
    api_versions = import_module(f"{__name__}.api_versions")
    return api_versions.api_versions_of(HANDLERS), api_versions.error_response


_load_api_versions.__name__ = "api_versions"

HANDLERS = (*_SUPPORTED, Handler(18, range(5), _load_api_versions))
