"""The admin client: topics, configs, groups, records, log directories, transactions, elections,
reassignments, ACLs, quotas, SCRAM credentials, delegation tokens, the cluster.

Each group of APIs is a mixin in its own file, listed in the bases of ``Admin``.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from odradek.client.admin.acls import AclsApi
from odradek.client.admin.api_driver import AdminApiDriver
from odradek.client.admin.cluster import ClusterApi
from odradek.client.admin.configs import ConfigsApi
from odradek.client.admin.delegation_tokens import DelegationTokensApi
from odradek.client.admin.elections import ElectionsApi
from odradek.client.admin.group_offsets import GroupOffsetsApi
from odradek.client.admin.groups import GroupsApi
from odradek.client.admin.log_dirs import LogDirsApi
from odradek.client.admin.offsets import OffsetsApi
from odradek.client.admin.quotas import ClientQuotasApi
from odradek.client.admin.reassignments import ReassignmentsApi
from odradek.client.admin.records import RecordsApi
from odradek.client.admin.scram_credentials import ScramCredentialsApi
from odradek.client.admin.topics import TopicsApi
from odradek.client.admin.transactions import TransactionsApi
from odradek.client.environment import system_environment
from odradek.client.network.network_client import NetworkClient
from odradek.client.options.parsing import read_options
from odradek.config.client import ADMIN, connection

if TYPE_CHECKING:
    from odradek.client.options.typed_options import AdminArguments, Config


class Admin(
    TopicsApi,
    ConfigsApi,
    GroupsApi,
    GroupOffsetsApi,
    RecordsApi,
    OffsetsApi,
    LogDirsApi,
    TransactionsApi,
    ElectionsApi,
    ReassignmentsApi,
    AclsApi,
    ClientQuotasApi,
    ScramCredentialsApi,
    DelegationTokensApi,
    ClusterApi,
):
    """Manages a cluster, for asyncio; ``odradek.Admin`` is the blocking version.

    Options have Kafka's names, in a mapping or, with underscores, as keyword arguments. Calls for several
    keys return a dict by key, or None if there is no result. If some keys fail, the call raises one
    ``PartialFailure``: its ``errors`` holds the exceptions by key, its ``results`` the results of the others.
    Calls for one key raise its exception. Retriable errors are retried until ``default.api.timeout.ms``, or
    the ``timeout_s`` of the call, has passed.

    >>> import asyncio
    >>> from odradek import aio
    >>> async def count() -> int:
    ...     async with aio.Admin(bootstrap_servers="localhost:9092") as admin:
    ...         return len((await admin.describe_cluster()).nodes)
    >>> asyncio.run(count())
    1
    """

    def __init__(self, config: Config = None, /, **options: Unpack[AdminArguments]) -> None:
        keywords: dict[str, object] = {**options}
        environment = options.get("environment") or system_environment()
        keywords.pop("environment", None)
        settings = read_options(ADMIN, config, keywords)
        self.client_id: str = settings[connection.CLIENT_ID]
        self._network = NetworkClient(environment, settings, client_id=self.client_id)
        self._driver = AdminApiDriver(self._network, settings, environment)

    async def start(self) -> None:
        """Start to connect, as the first call does.

        >>> import asyncio
        >>> from odradek import aio
        >>> async def main():
        ...     admin = aio.Admin(bootstrap_servers="localhost:9092")
        ...     await admin.start()
        ...     await admin.close()
        >>> asyncio.run(main())
        """
        await self._network.start()

    def metrics(self) -> dict[str, float]:
        """Return the client's metrics by name.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> all(isinstance(value, float | int) for value in admin.metrics().values())
        True
        >>> admin.close()
        """
        return self._network.metrics.read()

    async def close(self, timeout_s: float | None = None) -> None:
        """Close all connections; pending calls fail with ``ClientClosed``. May be called again.

        Does not wait: ``timeout_s`` is accepted for symmetry with the other clients.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.close()
        """
        await self._network.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
