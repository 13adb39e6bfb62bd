"""The admin client: looks after topics, settings, groups, records, directories, transactions, the cluster.

Each area is a file beside this one; a new area is a new file and a name in the list of ``Admin``.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from odradek.client.admin.asking import Asker
from odradek.client.admin.cluster import ClusterFacts
from odradek.client.admin.configs import Configs
from odradek.client.admin.group_offsets import GroupOffsets
from odradek.client.admin.groups import Groups
from odradek.client.admin.log_dirs import LogDirs
from odradek.client.admin.offsets import Offsets
from odradek.client.admin.records import Records
from odradek.client.admin.topics import Topics
from odradek.client.admin.transactions import Transactions
from odradek.client.cluster import Cluster
from odradek.client.connect import real_world
from odradek.client.options import read_options
from odradek.config.client import ADMIN, connection

if TYPE_CHECKING:
    from odradek.client.option_types import AdminArguments, Config


class Admin(Topics, Configs, Groups, GroupOffsets, Records, Offsets, LogDirs, Transactions, ClusterFacts):
    """Looks after a cluster. For asyncio; ``odradek.Admin`` is the same for code without an event loop.

    Options have Kafka's names, in a mapping or, with underscores, as keywords. Calls about many things give
    a dict by name, or None where there is nothing to tell. If some of these things fail, the call raises one
    ``SomeFailed``: its ``errors`` say why by name, its ``results`` hold what the others gave. Calls about one
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
        surroundings = options.get("world") or real_world()
        given.pop("world", None)
        settings = read_options(ADMIN, config, given)
        self.client_id: str = settings[connection.CLIENT_ID]
        self._cluster = Cluster(surroundings, settings, client_id=self.client_id)
        self._asker = Asker(self._cluster, settings, surroundings)

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
        await self._cluster.start()

    def metrics(self) -> dict[str, float]:
        """The client's figures by name, as they are now.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> all(isinstance(value, float | int) for value in admin.metrics().values())
        True
        >>> admin.close()
        """
        return self._cluster.meters.read()

    async def close(self, timeout_s: float | None = None) -> None:
        """End all connections; calls under way fail with ``ClientClosed``. Closing twice is allowed.

        Nothing is waited for, so there is no need to give ``timeout_s``: other clients have it.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.close()
        """
        await self._cluster.close()

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
