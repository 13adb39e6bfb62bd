"""Admin API of the cluster: brokers, features, API versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.client.admin.api_driver import AdminApi
from odradek.client.admin.api_handler import AdminApiHandler, ApiError
from odradek.client.admin.lookup_strategies import at_any_broker, at_broker
from odradek.client.network.node_selection import ANY_NODE
from odradek.client.values import Node
from odradek.model.acl_operations import AclOperation, operations_in
from odradek.model.client_errors import UnsupportedVersion
from odradek.model.errors import ErrorCode
from odradek.version import VERSION
from odradek.wire.apis import API_BY_KEY
from odradek.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.wire.messages.metadata import MetadataRequest, MetadataResponse

SOFTWARE_NAME: Final = "odradek"


class ClusterDescription(NamedTuple):
    """A cluster; ``controller`` is None while there is none, or if it is hidden, as in KRaft clusters."""

    cluster_id: str | None
    controller: Node | None
    nodes: tuple[Node, ...]
    authorized_operations: frozenset[AclOperation] | None


class VersionRange(NamedTuple):
    """A range of versions, both ends included."""

    lowest: int
    highest: int


class Features(NamedTuple):
    """Finalized features of the cluster, and supported features of the broker that responded."""

    finalized: Mapping[str, VersionRange]
    finalized_epoch: int
    supported: Mapping[str, VersionRange]


class ClusterApi(AdminApi):
    """Cluster methods of ``Admin``."""

    async def describe_cluster(
        self, *, include_authorized_operations: bool = False, timeout_s: float | None = None
    ) -> ClusterDescription:
        """Return the cluster's id, controller and brokers.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> len(admin.describe_cluster().nodes)
        1
        >>> admin.close()
        """
        try:
            return await self._driver.run_single(_description(include_authorized_operations), timeout_s)
        except UnsupportedVersion:
            # Brokers before 2.8 describe the cluster in their metadata.
            return await self._driver.run_single(
                _description_from_metadata(include_authorized_operations), timeout_s
            )

    async def describe_features(
        self, *, broker: int | None = None, timeout_s: float | None = None
    ) -> Features:
        """Return the features of the cluster, from any broker or a given one.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.describe_features().finalized_epoch >= -1
        True
        >>> admin.close()
        """
        response = await self._driver.run_single(_versions(ANY_NODE if broker is None else broker), timeout_s)
        return Features(
            {
                feature.name: VersionRange(feature.min_version_level, feature.max_version_level)
                for feature in response.finalized_features
            },
            response.finalized_features_epoch,
            {
                feature.name: VersionRange(feature.min_version, feature.max_version)
                for feature in response.supported_features
            },
        )

    async def api_versions(
        self, *, broker: int | None = None, timeout_s: float | None = None
    ) -> dict[str, VersionRange]:
        """Return the API versions of a broker by API name; unknown APIs are named by their key.

        >>> from odradek import Admin
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.api_versions()["Metadata"].highest >= 4
        True
        >>> admin.close()
        """
        response = await self._driver.run_single(_versions(ANY_NODE if broker is None else broker), timeout_s)
        return {
            _api_name(api.api_key): VersionRange(api.min_version, api.max_version)
            for api in response.api_keys
        }


def _api_name(key: int) -> str:
    return API_BY_KEY[key].name if key in API_BY_KEY else f"api {key}"


def _versions(broker: int) -> AdminApiHandler[None, ApiVersionsResponse]:
    def read(
        keys: Sequence[None], response: ApiVersionsResponse
    ) -> Iterable[tuple[None, ApiVersionsResponse | ApiError]]:
        yield None, ApiError(ErrorCode(response.error_code)) if response.error_code else response

    return AdminApiHandler(
        call="describe API versions",
        key_name=lambda _: "describe API versions",
        lookup=at_broker(lambda _: broker),
        build_request=lambda keys, timeout_ms: ApiVersionsRequest(SOFTWARE_NAME, VERSION),
        read_response=read,
    )


def _description(with_operations: bool) -> AdminApiHandler[None, ClusterDescription]:
    def read(
        keys: Sequence[None], response: DescribeClusterResponse
    ) -> Iterable[tuple[None, ClusterDescription | ApiError]]:
        if response.error_code:
            yield None, ApiError(ErrorCode(response.error_code), response.error_message)
            return
        nodes = [Node(broker.broker_id, broker.host, broker.port, broker.rack) for broker in response.brokers]
        yield None, _cluster_description(response, nodes)

    return AdminApiHandler(
        call="describe cluster",
        key_name=lambda _: "describe cluster",
        lookup=at_any_broker,
        build_request=lambda keys, timeout_ms: DescribeClusterRequest(with_operations),
        read_response=read,
    )


def _description_from_metadata(with_operations: bool) -> AdminApiHandler[None, ClusterDescription]:
    def read(
        keys: Sequence[None], response: MetadataResponse
    ) -> Iterable[tuple[None, ClusterDescription | ApiError]]:
        yield (
            None,
            _cluster_description(
                response,
                [Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers],
            ),
        )

    return AdminApiHandler(
        call="describe cluster",
        key_name=lambda _: "describe cluster",
        lookup=at_any_broker,
        build_request=lambda keys, timeout_ms: MetadataRequest(
            [], False, include_cluster_authorized_operations=with_operations
        ),
        read_response=read,
    )


def _cluster_description(
    response: DescribeClusterResponse | MetadataResponse, nodes: list[Node]
) -> ClusterDescription:
    return ClusterDescription(
        response.cluster_id,
        next((node for node in nodes if node.id == response.controller_id), None),
        tuple(sorted(nodes)),
        operations_in(response.cluster_authorized_operations),
    )
