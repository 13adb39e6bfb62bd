"""Admin API of configs of topics, brokers and other resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.client.admin.api_driver import AdminApi
from odradek.client.admin.api_handler import CONTROLLER_MOVED, AdminApiHandler, ApiError, LookupStrategy
from odradek.client.admin.lookup_strategies import at_broker
from odradek.client.network.node_selection import ANY_NODE
from odradek.model.errors import ErrorCode
from odradek.model.protocol_enums import AlterOp, ConfigSource, ConfigType, ResourceType
from odradek.wire.messages import alter_configs as replacing
from odradek.wire.messages import incremental_alter_configs as incremental
from odradek.wire.messages.create_topics import CreatableTopicConfigs
from odradek.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)


class ConfigResource(NamedTuple):
    """A resource with configs. The name of a broker is its id; an empty name is the default of all brokers.

    >>> from odradek import ConfigResource
    >>> ConfigResource.topic("castle").name
    'castle'
    """

    kind: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, broker_id: int | None = None) -> ConfigResource:
        """Return the resource of a broker; without an id, the default of all brokers."""
        return cls(ResourceType.BROKER, "" if broker_id is None else str(broker_id))

    @classmethod
    def group(cls, name: str) -> ConfigResource:
        return cls(ResourceType.GROUP, name)

    def __str__(self) -> str:
        return f"{self.kind.name.lower().replace('_', ' ')} {self.name or '(all)'}"


class ConfigSynonym(NamedTuple):
    """A value that applies if those before it are removed."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """A config. ``value`` is None if it is sensitive; ``source`` is where it was set."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: ConfigType = ConfigType.UNKNOWN
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


class ConfigChange(NamedTuple):
    """A change of a list config: values appended to it, or subtracted from it.

    >>> from odradek import ConfigChange
    >>> ConfigChange.append("compact").operation.name
    'APPEND'
    """

    operation: AlterOp
    value: str | None

    @classmethod
    def append(cls, value: object) -> ConfigChange:
        return cls(AlterOp.APPEND, config_text(value))

    @classmethod
    def subtract(cls, value: object) -> ConfigChange:
        return cls(AlterOp.SUBTRACT, config_text(value))


class ConfigsApi(AdminApi):
    """Config methods of ``Admin``."""

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout_s: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Return all configs of resources, or those in ``names``.

        >>> from odradek import Admin, ConfigResource
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["kept"])
        >>> kept = ConfigResource.topic("kept")
        >>> admin.describe_configs([kept])[kept]["cleanup.policy"].value
        'delete'
        >>> admin.close()
        """
        config_names = None if names is None else list(names)

        def request(keys: Sequence[ConfigResource], timeout_ms: int) -> DescribeConfigsRequest:
            described = [DescribeConfigsResource(key.kind, key.name, config_names) for key in keys]
            return DescribeConfigsRequest(described, include_synonyms, include_documentation)

        handler: AdminApiHandler[ConfigResource, dict[str, ConfigEntry]] = AdminApiHandler(
            call="describe configs",
            key_name=str,
            lookup=at_config_broker,
            build_request=request,
            read_response=_read_described,
            retry_codes=frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}),
        )
        return await self._driver.run(handler, resources, timeout_s)

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, object]],
        *,
        validate_only: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Change single configs: a value sets it, None resets it to its default, and a ``ConfigChange``
        appends to or subtracts from a list. Brokers since 2.3.

        >>> from odradek import Admin, ConfigResource
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["shortened"])
        >>> admin.alter_configs({ConfigResource.topic("shortened"): {"retention.ms": 86_400_000}})
        >>> admin.alter_configs({ConfigResource.topic("shortened"): {"retention.ms": None}})
        >>> admin.close()
        """

        def request(
            keys: Sequence[ConfigResource], timeout_ms: int
        ) -> incremental.IncrementalAlterConfigsRequest:
            altered = [
                incremental.AlterConfigsResource(
                    key.kind, key.name, [_alterable(*change) for change in changes[key].items()]
                )
                for key in keys
            ]
            return incremental.IncrementalAlterConfigsRequest(altered, validate_only)

        handler: AdminApiHandler[ConfigResource, None] = AdminApiHandler(
            call="alter configs",
            key_name=str,
            lookup=at_config_broker,
            build_request=request,
            read_response=_read_altered,
            retry_codes=CONTROLLER_MOVED,
        )
        await self._driver.run(handler, changes, timeout_s)

    async def replace_configs(
        self,
        settings: Mapping[ConfigResource, Mapping[str, object]],
        *,
        validate_only: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Set exactly these configs; all others are reset to their default. For brokers before 2.3, which do
        not support ``alter_configs``.

        >>> from odradek import Admin, ConfigResource
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["replaced"])
        >>> admin.replace_configs({ConfigResource.topic("replaced"): {"segment.bytes": 2_000_000}})
        >>> admin.close()
        """

        def request(keys: Sequence[ConfigResource], timeout_ms: int) -> replacing.AlterConfigsRequest:
            altered = [
                replacing.AlterConfigsResource(
                    key.kind,
                    key.name,
                    [
                        replacing.AlterableConfig(name, config_text(value))
                        for name, value in settings[key].items()
                    ],
                )
                for key in keys
            ]
            return replacing.AlterConfigsRequest(altered, validate_only)

        handler: AdminApiHandler[ConfigResource, None] = AdminApiHandler(
            call="replace configs",
            key_name=str,
            lookup=at_config_broker,
            build_request=request,
            read_response=_read_altered,
            retry_codes=CONTROLLER_MOVED,
        )
        await self._driver.run(handler, settings, timeout_s)


def _broker_of(resource: ConfigResource) -> int:
    is_broker = resource.kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name.isdigit()
    return int(resource.name) if is_broker else ANY_NODE


at_config_broker: LookupStrategy[ConfigResource] = at_broker(_broker_of)
"""The configs of a broker are sent to that broker, all others to any."""


def config_text(value: object) -> str | None:
    """Return a config value as text: true, false, numbers, comma-separated lists."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)


def _alterable(name: str, value: object) -> incremental.AlterableConfig:
    if isinstance(value, ConfigChange):
        return incremental.AlterableConfig(name, value.operation, value.value)
    operation = AlterOp.DELETE if value is None else AlterOp.SET
    return incremental.AlterableConfig(name, operation, config_text(value))


def _read_altered(
    keys: Sequence[ConfigResource],
    response: replacing.AlterConfigsResponse | incremental.IncrementalAlterConfigsResponse,
) -> Iterable[tuple[ConfigResource, ApiError | None]]:
    for result in response.responses:
        key = ConfigResource(ResourceType(result.resource_type), result.resource_name)
        code = ErrorCode(result.error_code)
        yield key, ApiError(code, result.error_message) if code else None


def _read_described(
    keys: Sequence[ConfigResource], response: DescribeConfigsResponse
) -> Iterable[tuple[ConfigResource, dict[str, ConfigEntry] | ApiError]]:
    for result in response.results:
        key = ConfigResource(ResourceType(result.resource_type), result.resource_name)
        if result.error_code:
            yield key, ApiError(ErrorCode(result.error_code), result.error_message)
        else:
            yield key, {config.name: _entry(config, key.kind) for config in result.configs}


def _entry(config: DescribeConfigsResourceResult, kind: ResourceType) -> ConfigEntry:
    return ConfigEntry(
        config.name,
        config.value,
        _source(config, kind),
        config.read_only,
        config.is_sensitive,
        tuple(
            ConfigSynonym(synonym.name, synonym.value, _known_source(synonym.source))
            for synonym in config.synonyms
        ),
        ConfigType(config.config_type) if config.config_type in set(ConfigType) else ConfigType.UNKNOWN,
        config.documentation,
    )


def _source(config: DescribeConfigsResourceResult, kind: ResourceType) -> ConfigSource:
    """Return the source of a value; version 0 only has whether it is the default."""
    if config.config_source >= 0:
        return _known_source(config.config_source)
    if config.is_default:
        return ConfigSource.DEFAULT_CONFIG
    return ConfigSource.TOPIC_CONFIG if kind is ResourceType.TOPIC else ConfigSource.STATIC_BROKER_CONFIG


def _known_source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in set(ConfigSource) else ConfigSource.UNKNOWN


def created_entries(configs: Iterable[CreatableTopicConfigs]) -> dict[str, ConfigEntry]:
    """Return the configs of a CreateTopics response by name."""
    return {
        config.name: ConfigEntry(
            config.name,
            config.value,
            _known_source(config.config_source),
            config.read_only,
            config.is_sensitive,
        )
        for config in configs
    }
