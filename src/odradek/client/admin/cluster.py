"""The cluster itself: its brokers, its features, what each broker speaks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from odradek.client.admin.admin_api import AdminApi
from odradek.client.admin.api_handler import AdminApiHandler, ApiError
from odradek.client.admin.lookup_strategies import anywhere, at_broker
from odradek.client.network.node_selection import ANY_NODE
from odradek.client.values import Node
from odradek.model.acl_operations import Operation, operations_in
from odradek.model.client_errors import UnsupportedVersion
from odradek.model.errors import ErrorCode
from odradek.version import VERSION
from odradek.wire.apis import API_BY_KEY
from odradek.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.wire.messages.metadata import MetadataRequest, MetadataResponse

SOFTWARE_NAME: Final = "odradek"


class ClusterDescription(NamedTuple):
    """A cluster; ``controller`` is None while it has none, or hides it as KRaft clusters do."""

    cluster_id: str | None
    controller: Node | None
    nodes: tuple[Node, ...]
    authorized_operations: frozenset[Operation] | None


class VersionRange(NamedTuple):
    """From the lowest to the highest, both included."""

    lowest: int
    highest: int


class Features(NamedTuple):
    """What the cluster has agreed on, and what the broker that was asked could do; epochs count changes."""

    finalized: Mapping[str, VersionRange]
    finalized_epoch: int
    supported: Mapping[str, VersionRange]


class ClusterApi(AdminApi):
    """The cluster of ``Admin``."""

    async def describe_cluster(
        self, *, include_authorized_operations: bool = False, timeout_s: float | None = None
    ) -> ClusterDescription:
        """The cluster's id, controller and brokers.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> len(admin.describe_cluster().nodes)
        1
        >>> admin.close()
        """
        try:
            return await self._driver.run_single(_description(include_authorized_operations), timeout_s)
        except UnsupportedVersion:
            # A broker before 2.8 says it in its metadata.
            return await self._driver.run_single(_older_description(include_authorized_operations), timeout_s)

    async def describe_features(
        self, *, broker: int | None = None, timeout_s: float | None = None
    ) -> Features:
        """The features of the cluster, as any broker or a certain one knows them.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.describe_features().finalized_epoch >= -1
        True
        >>> admin.close()
        """
        answer = await self._driver.run_single(_versions(ANY_NODE if broker is None else broker), timeout_s)
        return Features(
            {
                one.name: VersionRange(one.min_version_level, one.max_version_level)
                for one in answer.finalized_features
            },
            answer.finalized_features_epoch,
            {one.name: VersionRange(one.min_version, one.max_version) for one in answer.supported_features},
        )

    async def api_versions(
        self, *, broker: int | None = None, timeout_s: float | None = None
    ) -> dict[str, VersionRange]:
        """The requests a broker takes, by name, with their versions; an unknown one is called by its number.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.api_versions()["Metadata"].highest >= 4
        True
        >>> admin.close()
        """
        answer = await self._driver.run_single(_versions(ANY_NODE if broker is None else broker), timeout_s)
        return {
            _api_name(one.api_key): VersionRange(one.min_version, one.max_version) for one in answer.api_keys
        }


def _api_name(key: int) -> str:
    return API_BY_KEY[key].name if key in API_BY_KEY else f"api {key}"


def _versions(broker: int) -> AdminApiHandler[None, Any]:
    def read(keys: Sequence[None], answer: ApiVersionsResponse) -> Iterable[tuple[None, Any]]:
        yield None, ApiError(ErrorCode(answer.error_code)) if answer.error_code else answer

    return AdminApiHandler(
        what="describe what a broker speaks",
        name=lambda _: "describe what a broker speaks",
        route=at_broker(lambda _: broker),
        request=lambda keys, timeout_ms: ApiVersionsRequest(SOFTWARE_NAME, VERSION),
        read=read,
    )


def _description(with_operations: bool) -> AdminApiHandler[None, ClusterDescription]:
    def read(
        keys: Sequence[None], answer: DescribeClusterResponse
    ) -> Iterable[tuple[None, ClusterDescription | ApiError]]:
        if answer.error_code:
            yield None, ApiError(ErrorCode(answer.error_code), answer.error_message)
            return
        nodes = [Node(one.broker_id, one.host, one.port, one.rack) for one in answer.brokers]
        yield None, _cluster_description(answer, nodes)

    return AdminApiHandler(
        what="describe cluster",
        name=lambda _: "describe cluster",
        route=anywhere,
        request=lambda keys, timeout_ms: DescribeClusterRequest(with_operations),
        read=read,
    )


def _older_description(with_operations: bool) -> AdminApiHandler[None, ClusterDescription]:
    def read(
        keys: Sequence[None], answer: MetadataResponse
    ) -> Iterable[tuple[None, ClusterDescription | ApiError]]:
        yield (
            None,
            _cluster_description(
                answer, [Node(one.node_id, one.host, one.port, one.rack) for one in answer.brokers]
            ),
        )

    return AdminApiHandler(
        what="describe cluster",
        name=lambda _: "describe cluster",
        route=anywhere,
        request=lambda keys, timeout_ms: MetadataRequest(
            [], False, include_cluster_authorized_operations=with_operations
        ),
        read=read,
    )


def _cluster_description(answer: Any, nodes: list[Node]) -> ClusterDescription:
    return ClusterDescription(
        answer.cluster_id,
        next((node for node in nodes if node.id == answer.controller_id), None),
        tuple(sorted(nodes)),
        operations_in(answer.cluster_authorized_operations),
    )
