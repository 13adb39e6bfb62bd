"""The blocking admin client: each method runs its asyncio counterpart of ``client/admin``."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from odradek.client.admin.client import Admin as AsyncAdmin
from odradek.client.blocking.loop_thread import LoopThread, blocking
from odradek.model.client_errors import InvalidState

if TYPE_CHECKING:
    from odradek.client.options.typed_options import AdminArguments, Config


class Admin:
    """Manages a cluster: topics, configs, groups and their offsets, records, transactions.

    Options have Kafka's names, in a mapping or, with underscores, as keyword arguments. Calls for several
    keys return a dict by key, or None if there is no result. If some keys fail, the call raises one
    ``PartialFailure``: its ``errors`` holds the exceptions by key, its ``results`` the results of the others.
    Calls for one key raise its exception. Retriable errors are retried until ``default.api.timeout.ms``, or
    the ``timeout_s`` of the call, has passed. Thread-safe.

    >>> from odradek import Admin
    >>> with Admin(bootstrap_servers="localhost:9092") as admin:
    ...     len(admin.describe_cluster().nodes)
    1
    """

    def __init__(self, config: Config = None, /, **options: Unpack[AdminArguments]) -> None:
        self._client = AsyncAdmin(config, **options)
        self._thread = LoopThread(self._client.client_id)
        self._thread.call(self._client.start)

    @property
    def client_id(self) -> str:
        """The client id in requests and broker logs."""
        return self._client.client_id

    create_topics = blocking(AsyncAdmin.create_topics)
    delete_topics = blocking(AsyncAdmin.delete_topics)
    list_topics = blocking(AsyncAdmin.list_topics)
    describe_topics = blocking(AsyncAdmin.describe_topics)
    create_partitions = blocking(AsyncAdmin.create_partitions)

    describe_configs = blocking(AsyncAdmin.describe_configs)
    alter_configs = blocking(AsyncAdmin.alter_configs)
    replace_configs = blocking(AsyncAdmin.replace_configs)

    list_groups = blocking(AsyncAdmin.list_groups)
    describe_groups = blocking(AsyncAdmin.describe_groups)
    delete_groups = blocking(AsyncAdmin.delete_groups)
    remove_group_members = blocking(AsyncAdmin.remove_group_members)
    list_group_offsets = blocking(AsyncAdmin.list_group_offsets)
    list_offsets_of_groups = blocking(AsyncAdmin.list_offsets_of_groups)
    alter_group_offsets = blocking(AsyncAdmin.alter_group_offsets)
    delete_group_offsets = blocking(AsyncAdmin.delete_group_offsets)

    delete_records = blocking(AsyncAdmin.delete_records)
    list_offsets = blocking(AsyncAdmin.list_offsets)
    list_log_end_offsets = blocking(AsyncAdmin.list_log_end_offsets)

    describe_log_dirs = blocking(AsyncAdmin.describe_log_dirs)
    alter_replica_log_dirs = blocking(AsyncAdmin.alter_replica_log_dirs)

    describe_producers = blocking(AsyncAdmin.describe_producers)
    list_transactions = blocking(AsyncAdmin.list_transactions)
    describe_transactions = blocking(AsyncAdmin.describe_transactions)
    abort_transaction = blocking(AsyncAdmin.abort_transaction)
    end_transaction = blocking(AsyncAdmin.end_transaction)
    fence_producers = blocking(AsyncAdmin.fence_producers)

    elect_leaders = blocking(AsyncAdmin.elect_leaders)
    alter_partition_reassignments = blocking(AsyncAdmin.alter_partition_reassignments)
    list_partition_reassignments = blocking(AsyncAdmin.list_partition_reassignments)

    create_acls = blocking(AsyncAdmin.create_acls)
    describe_acls = blocking(AsyncAdmin.describe_acls)
    delete_acls = blocking(AsyncAdmin.delete_acls)

    alter_client_quotas = blocking(AsyncAdmin.alter_client_quotas)
    describe_client_quotas = blocking(AsyncAdmin.describe_client_quotas)
    alter_user_scram_credentials = blocking(AsyncAdmin.alter_user_scram_credentials)
    describe_user_scram_credentials = blocking(AsyncAdmin.describe_user_scram_credentials)

    create_delegation_token = blocking(AsyncAdmin.create_delegation_token)
    renew_delegation_token = blocking(AsyncAdmin.renew_delegation_token)
    expire_delegation_token = blocking(AsyncAdmin.expire_delegation_token)
    describe_delegation_tokens = blocking(AsyncAdmin.describe_delegation_tokens)

    describe_cluster = blocking(AsyncAdmin.describe_cluster)
    describe_features = blocking(AsyncAdmin.describe_features)
    api_versions = blocking(AsyncAdmin.api_versions)

    def metrics(self) -> dict[str, float]:
        """Return the client's metrics by name.

        >>> from odradek import Admin
        >>> with Admin(bootstrap_servers="localhost:9092") as admin:
        ...     admin.metrics()["connection-count"] >= 0
        True
        """
        return self._client.metrics()

    def close(self, timeout_s: float | None = None) -> None:
        """Close all connections and end the client's thread; pending calls fail. May be called again.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.close(timeout_s=10)
        """
        with suppress(InvalidState):  # already closed, or created before this process was forked
            self._thread.call(self._client.close, timeout_s)
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
