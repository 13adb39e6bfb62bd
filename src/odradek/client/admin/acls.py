"""Admin API of ACLs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from odradek.client.admin.api_driver import AdminApi
from odradek.client.admin.api_handler import AdminApiHandler, ApiError
from odradek.client.admin.lookup_strategies import at_any_broker
from odradek.model.acl_enums import AclPermissionType, AclResourceType, PatternType
from odradek.model.acl_operations import AclOperation
from odradek.model.client_errors import UnsupportedVersion
from odradek.model.errors import ErrorCode
from odradek.net.api_versions import RequestBuilder
from odradek.security.acls.bindings import AccessControlEntry, AclBinding, ResourcePattern
from odradek.security.acls.filters import AclBindingFilter
from odradek.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from odradek.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from odradek.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

ALL_ACLS: Final = AclBindingFilter()
"""Selects all bindings."""

PATTERN_TYPES_SINCE: Final = 1
"""Version 0 knows literal patterns only."""


class AclsApi(AdminApi):
    """ACL methods of ``Admin``. The broker needs an authorizer."""

    async def create_acls(self, bindings: Iterable[AclBinding], *, timeout_s: float | None = None) -> None:
        """Create ACL bindings; one that exists is kept.

        >>> from odradek import AccessControlEntry, AclBinding, AclOperation, AclResourceType, Admin
        >>> from odradek import ResourcePattern
        >>> letters = ResourcePattern(AclResourceType.TOPIC, "letters")
        >>> binding = AclBinding(letters, AccessControlEntry("User:alice", AclOperation.READ))
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.create_acls([binding])
        >>> admin.close()
        """
        handler: AdminApiHandler[AclBinding, None] = AdminApiHandler(
            call="create ACLs",
            key_name=str,
            lookup=at_any_broker,
            build_request=_creations,
            read_response=_read_created,
        )
        await self._driver.run(handler, bindings, timeout_s)

    async def describe_acls(
        self, selected: AclBindingFilter = ALL_ACLS, *, timeout_s: float | None = None
    ) -> list[AclBinding]:
        """Return the ACL bindings that a filter selects, by default all.

        >>> from odradek import AclBindingFilter, AclResourceType, Admin, ResourcePatternFilter
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.describe_acls(AclBindingFilter(ResourcePatternFilter(AclResourceType.TOPIC, "nothing")))
        []
        >>> admin.close()
        """

        def build(version: int) -> DescribeAclsRequest:
            return DescribeAclsRequest(*_filter_fields(selected, version))

        handler: AdminApiHandler[None, list[AclBinding]] = AdminApiHandler(
            call="describe ACLs",
            key_name=lambda _: "describe ACLs",
            lookup=at_any_broker,
            build_request=lambda keys, timeout_ms: RequestBuilder(DescribeAclsRequest, build),
            read_response=_read_described,
        )
        return await self._driver.run_single(handler, timeout_s)

    async def delete_acls(
        self, filters: Iterable[AclBindingFilter], *, timeout_s: float | None = None
    ) -> dict[AclBindingFilter, list[AclBinding]]:
        """Delete the ACL bindings that filters select; return those of each filter.

        A binding that several filters select is returned for the first of them.

        >>> from odradek import AccessControlEntryFilter, AclBindingFilter, Admin
        >>> of_bob = AclBindingFilter(entry=AccessControlEntryFilter("User:bob"))
        >>> admin = Admin(bootstrap_servers="localhost:9092")
        >>> admin.delete_acls([of_bob])[of_bob]
        []
        >>> admin.close()
        """
        handler: AdminApiHandler[AclBindingFilter, list[AclBinding]] = AdminApiHandler(
            call="delete ACLs",
            key_name=lambda selected: f"ACLs of {selected}",
            lookup=at_any_broker,
            build_request=_deletions,
            read_response=_read_deleted,
        )
        return await self._driver.run(handler, filters, timeout_s)


def _creations(bindings: Sequence[AclBinding], timeout_ms: int) -> RequestBuilder:
    def build(version: int) -> CreateAclsRequest:
        return CreateAclsRequest([_creation(binding, version) for binding in bindings])

    return RequestBuilder(CreateAclsRequest, build)


def _creation(binding: AclBinding, version: int) -> AclCreation:
    pattern, entry = binding
    if version < PATTERN_TYPES_SINCE and pattern.pattern_type is not PatternType.LITERAL:
        raise UnsupportedVersion(f"CreateAcls version 1 required for prefixed patterns, got {version}")
    return AclCreation(
        pattern.resource_type,
        pattern.name,
        pattern.pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission_type,
    )


def _deletions(filters: Sequence[AclBindingFilter], timeout_ms: int) -> RequestBuilder:
    def build(version: int) -> DeleteAclsRequest:
        return DeleteAclsRequest([DeleteAclsFilter(*_filter_fields(each, version)) for each in filters])

    return RequestBuilder(DeleteAclsRequest, build)


def _filter_fields(
    selected: AclBindingFilter, version: int
) -> tuple[int, str | None, int, str | None, str | None, int, int]:
    """Return the fields of a filter in requests. For version 0, all patterns are literal ones."""
    pattern, entry = selected
    pattern_type = pattern.pattern_type
    if version < PATTERN_TYPES_SINCE:
        if pattern_type not in (PatternType.ANY, PatternType.LITERAL):
            raise UnsupportedVersion(f"version 1 required for pattern type {pattern_type.name}")
        pattern_type = PatternType.LITERAL
    return (
        pattern.resource_type,
        pattern.name,
        pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission_type,
    )


def _read_created(
    bindings: Sequence[AclBinding], response: CreateAclsResponse
) -> Iterable[tuple[AclBinding, ApiError | None]]:
    for binding, result in zip(bindings, response.results, strict=False):
        code = ErrorCode(result.error_code)
        yield binding, ApiError(code, result.error_message) if code else None


def _read_described(
    keys: Sequence[None], response: DescribeAclsResponse
) -> Iterable[tuple[None, list[AclBinding] | ApiError]]:
    if response.error_code:
        yield None, ApiError(ErrorCode(response.error_code), response.error_message)
        return
    yield (
        None,
        sorted(
            AclBinding(
                _pattern(resource.resource_type, resource.resource_name, resource.pattern_type),
                _entry(acl.principal, acl.operation, acl.permission_type, acl.host),
            )
            for resource in response.resources
            for acl in resource.acls
        ),
    )


def _read_deleted(
    filters: Sequence[AclBindingFilter], response: DeleteAclsResponse
) -> Iterable[tuple[AclBindingFilter, list[AclBinding] | ApiError]]:
    for selected, result in zip(filters, response.filter_results, strict=False):
        error = _error_of(result)
        yield selected, sorted(map(_deleted_binding, result.matching_acls)) if error is None else error


def _error_of(result: DeleteAclsFilterResult) -> ApiError | None:
    """Return the error of a filter, or the first of a binding that it selects."""
    if result.error_code:
        return ApiError(ErrorCode(result.error_code), result.error_message)
    for acl in result.matching_acls:
        if acl.error_code:
            binding = _deleted_binding(acl)
            return ApiError(ErrorCode(acl.error_code), f"{binding}: {acl.error_message or 'not deleted'}")
    return None


def _deleted_binding(acl: DeleteAclsMatchingAcl) -> AclBinding:
    return AclBinding(
        _pattern(acl.resource_type, acl.resource_name, acl.pattern_type),
        _entry(acl.principal, acl.operation, acl.permission_type, acl.host),
    )


def _pattern(resource_type: int, name: str, pattern_type: int) -> ResourcePattern:
    return ResourcePattern(AclResourceType(resource_type), name, PatternType(pattern_type))


def _entry(principal: str, operation: int, permission_type: int, host: str) -> AccessControlEntry:
    return AccessControlEntry(principal, AclOperation(operation), AclPermissionType(permission_type), host)
