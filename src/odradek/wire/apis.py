"""The APIs of the protocol: key, name, request and response. Versions are those of the request's table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

from odradek.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.wire.messages.fetch import FetchRequest, FetchResponse
from odradek.wire.messages.metadata import MetadataRequest, MetadataResponse
from odradek.wire.messages.produce import ProduceRequest, ProduceResponse
from odradek.wire.schema import Table


@dataclass(frozen=True, slots=True)
class Api:
    """One API; ``name`` is Kafka's."""

    key: int
    name: str
    request: type
    response: type

    @property
    def versions(self) -> range:
        return cast("type[Table]", self.request).VERSIONS

    @property
    def flexible(self) -> int:
        """The first flexible version."""
        return cast("type[Table]", self.request).FLEXIBLE


APIS: Final = (
    Api(0, "Produce", ProduceRequest, ProduceResponse),
    Api(1, "Fetch", FetchRequest, FetchResponse),
    Api(3, "Metadata", MetadataRequest, MetadataResponse),
    Api(18, "ApiVersions", ApiVersionsRequest, ApiVersionsResponse),
)

API_BY_KEY: Final = {api.key: api for api in APIS}
