"""Settings of topics, brokers and other resources: described, changed one by one, or replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.client.admin.admin_api import AdminApi
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
    """Whose settings are meant. The name of a broker is its id; without a name, all brokers are meant.

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
        """One broker; or, without an id, what was set for all of them."""
        return cls(ResourceType.BROKER, "" if broker_id is None else str(broker_id))

    @classmethod
    def group(cls, name: str) -> ConfigResource:
        return cls(ResourceType.GROUP, name)

    def __str__(self) -> str:
        return f"{self.kind.name.lower().replace('_', ' ')} {self.name or '(all)'}"


class ConfigSynonym(NamedTuple):
    """A value that stands behind another: what would count if the ones before it went."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """A setting. ``value`` is None if it is secret; ``source`` says where it came from."""

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
    """A change other than setting a value: words added to a list, or taken from it.

    >>> from odradek import ConfigChange
    >>> ConfigChange.append("compact").operation.name
    'APPEND'
    """

    operation: AlterOp
    value: str | None

    @classmethod
    def append(cls, value: object) -> ConfigChange:
        return cls(AlterOp.APPEND, setting_text(value))

    @classmethod
    def subtract(cls, value: object) -> ConfigChange:
        return cls(AlterOp.SUBTRACT, setting_text(value))


class ConfigsApi(AdminApi):
    """The settings of ``Admin``."""

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout_s: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """All settings of resources, or those named.

        >>> from odradek import Admin, ConfigResource
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> _ = admin.create_topics(["kept"])
        >>> kept = ConfigResource.topic("kept")
        >>> admin.describe_configs([kept])[kept]["cleanup.policy"].value
        'delete'
        >>> admin.close()
        """
        wanted = None if names is None else list(names)

        def request(keys: Sequence[ConfigResource], timeout_ms: int) -> DescribeConfigsRequest:
            asked = [DescribeConfigsResource(key.kind, key.name, wanted) for key in keys]
            return DescribeConfigsRequest(asked, include_synonyms, include_documentation)

        work: AdminApiHandler[ConfigResource, dict[str, ConfigEntry]] = AdminApiHandler(
            what="describe configs",
            name=str,
            route=at_its_broker,
            request=request,
            read=_read_described,
            again=frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}),
        )
        return await self._driver.run(work, resources, timeout_s)

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, object]],
        *,
        validate_only: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Change single settings: a value sets it, None puts it back to its default, and ``ConfigChange``
        adds to a list or takes from it. Brokers from 2.3 on.

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

        work: AdminApiHandler[ConfigResource, None] = AdminApiHandler(
            what="alter configs",
            name=str,
            route=at_its_broker,
            request=request,
            read=_read_altered,
            again=CONTROLLER_MOVED,
        )
        await self._driver.run(work, changes, timeout_s)

    async def replace_configs(
        self,
        settings: Mapping[ConfigResource, Mapping[str, object]],
        *,
        validate_only: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Give resources exactly these settings: whatever is not named goes back to its default. For brokers
        before 2.3, which know no other way.

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
                        replacing.AlterableConfig(name, setting_text(value))
                        for name, value in settings[key].items()
                    ],
                )
                for key in keys
            ]
            return replacing.AlterConfigsRequest(altered, validate_only)

        work: AdminApiHandler[ConfigResource, None] = AdminApiHandler(
            what="replace configs",
            name=str,
            route=at_its_broker,
            request=request,
            read=_read_altered,
            again=CONTROLLER_MOVED,
        )
        await self._driver.run(work, settings, timeout_s)


def _broker_of(resource: ConfigResource) -> int:
    of_a_broker = (
        resource.kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name.isdigit()
    )
    return int(resource.name) if of_a_broker else ANY_NODE


at_its_broker: LookupStrategy[ConfigResource] = at_broker(_broker_of)
"""A broker's own settings are known at that broker; all others anywhere."""


def setting_text(value: object) -> str | None:
    """A setting's value as brokers write it: true, false, numbers, lists with commas."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(str(one) for one in value)
    return str(value)


def _alterable(name: str, given: object) -> incremental.AlterableConfig:
    if isinstance(given, ConfigChange):
        return incremental.AlterableConfig(name, given.operation, given.value)
    operation = AlterOp.DELETE if given is None else AlterOp.SET
    return incremental.AlterableConfig(name, operation, setting_text(given))


def _read_altered(
    keys: Sequence[ConfigResource],
    answer: replacing.AlterConfigsResponse | incremental.IncrementalAlterConfigsResponse,
) -> Iterable[tuple[ConfigResource, ApiError | None]]:
    for one in answer.responses:
        key = ConfigResource(ResourceType(one.resource_type), one.resource_name)
        yield key, ApiError(ErrorCode(one.error_code), one.error_message) if one.error_code else None


def _read_described(
    keys: Sequence[ConfigResource], answer: DescribeConfigsResponse
) -> Iterable[tuple[ConfigResource, dict[str, ConfigEntry] | ApiError]]:
    for one in answer.results:
        key = ConfigResource(ResourceType(one.resource_type), one.resource_name)
        if one.error_code:
            yield key, ApiError(ErrorCode(one.error_code), one.error_message)
        else:
            yield key, {config.name: _entry(config, key.kind) for config in one.configs}


def _entry(config: DescribeConfigsResourceResult, kind: ResourceType) -> ConfigEntry:
    return ConfigEntry(
        config.name,
        config.value,
        _source(config, kind),
        config.read_only,
        config.is_sensitive,
        tuple(ConfigSynonym(one.name, one.value, _known_source(one.source)) for one in config.synonyms),
        ConfigType(config.config_type) if config.config_type in set(ConfigType) else ConfigType.UNKNOWN,
        config.documentation,
    )


def _source(config: DescribeConfigsResourceResult, kind: ResourceType) -> ConfigSource:
    """Version 0 says only whether a value is the default."""
    if config.config_source >= 0:
        return _known_source(config.config_source)
    if config.is_default:
        return ConfigSource.DEFAULT_CONFIG
    return ConfigSource.TOPIC_CONFIG if kind is ResourceType.TOPIC else ConfigSource.STATIC_BROKER_CONFIG


def _known_source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in set(ConfigSource) else ConfigSource.UNKNOWN


def created_entries(configs: Iterable[CreatableTopicConfigs]) -> dict[str, ConfigEntry]:
    """The settings of a topic as CreateTopics tells them."""
    return {
        one.name: ConfigEntry(
            one.name, one.value, _known_source(one.config_source), one.read_only, one.is_sensitive
        )
        for one in configs
    }
