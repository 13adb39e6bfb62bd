"""The admin client: looks after topics, settings, groups, records, directories, transactions, the cluster.

Each area is a file beside this one; a new area is a new file and a name in the list of ``Admin``.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from odradek.client.admin.api_driver import AdminApiDriver
from odradek.client.admin.cluster import ClusterApi
from odradek.client.admin.configs import ConfigsApi
from odradek.client.admin.group_offsets import GroupOffsetsApi
from odradek.client.admin.groups import GroupsApi
from odradek.client.admin.log_dirs import LogDirsApi
from odradek.client.admin.offsets import OffsetsApi
from odradek.client.admin.records import RecordsApi
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
    ClusterApi,
):
    """Looks after a cluster. For asyncio; ``odradek.Admin`` is the same for code without an event loop.

    Options have Kafka's names, in a mapping or, with underscores, as keywords. Calls about many things give
    a dict by name, or None where there is nothing to tell. If some of these things fail, the call raises one
    ``PartialFailure``: its ``errors`` say why by name, its ``results`` hold what the others gave. Calls
    about one
    thing raise what went wrong as it is. Whatever may go better at another broker or a moment later is tried
    again until ``default.api.timeout.ms`` is over, or the ``timeout_s`` of the call.

    >>> import asyncio
    >>> from odradek import aio
    >>> async def count() -> int:
    ...     async with aio.Admin(bootstrap_servers="localhost:9092") as admin:
    ...         return len((await admin.describe_cluster()).nodes)
    >>> asyncio.run(count())
    1
    """

    def __init__(self, config: Config = None, /, **options: Unpack[AdminArguments]) -> None:
        given: dict[str, object] = {**options}
        surroundings = options.get("environment") or system_environment()
        given.pop("environment", None)
        settings = read_options(ADMIN, config, given)
        self.client_id: str = settings[connection.CLIENT_ID]
        self._network = NetworkClient(surroundings, settings, client_id=self.client_id)
        self._driver = AdminApiDriver(self._network, settings, surroundings)

    async def start(self) -> None:
        """Begin to connect. The first call does that as well.

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
        """The client's figures by name, as they are now.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> all(isinstance(value, float | int) for value in admin.metrics().values())
        True
        >>> admin.close()
        """
        return self._network.metrics.read()

    async def close(self, timeout_s: float | None = None) -> None:
        """End all connections; calls under way fail with ``ClientClosed``. Closing twice is allowed.

        Nothing is waited for, so there is no need to give ``timeout_s``: other clients have it.

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
