"""``odradek acls``: list, add and remove ACLs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from odradek.cli.errors import command, usage_error
from odradek.cli.output import Row, show
from odradek.cli.target import Bootstrap, Extra, Json, Target

if TYPE_CHECKING:
    from odradek.model.acl_operations import AclOperation
    from odradek.security.acls.bindings import AclBinding, ResourcePattern
    from odradek.security.acls.filters import ResourcePatternFilter

app = typer.Typer(help="List, add and remove ACLs.", no_args_is_help=True)

COLUMNS = ["resource_type", "name", "pattern", "principal", "permission", "operation", "host"]

TopicOption = Annotated[str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="A topic.")]
GroupOption = Annotated[str | None, typer.Option("--group", metavar="GROUP", help="A consumer group.")]
TransactionalIdOption = Annotated[
    str | None, typer.Option("--transactional-id", metavar="ID", help="A transactional id.")
]
UserOption = Annotated[
    str | None, typer.Option("--user", metavar="PRINCIPAL", help="A user, whose tokens others may manage.")
]
ClusterOption = Annotated[bool, typer.Option("--cluster", help="The cluster.")]
PrefixedOption = Annotated[
    bool, typer.Option("--prefixed", help="All resources whose name begins with this one.")
]
PrincipalOption = Annotated[
    str | None, typer.Option("--principal", metavar="PRINCIPAL", help="Only ACLs of this principal.")
]
HostOption = Annotated[str | None, typer.Option("--host", metavar="HOST", help="Only ACLs of this host.")]
OperationOption = Annotated[
    str | None, typer.Option("--operation", metavar="OPERATION", help="Only ACLs for this operation.")
]
DenyOption = Annotated[bool, typer.Option("--deny", help="Only ACLs that deny.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]


class ResourceOptions(NamedTuple):
    """Options that name a resource."""

    topic: str | None
    group: str | None
    transactional_id: str | None
    user: str | None
    cluster: bool
    prefixed: bool

    def pattern(self) -> ResourcePattern | None:
        """Return the pattern of the resource; None if no resource is named."""
        from odradek import AclResourceType, PatternType, ResourcePattern

        named = [
            (AclResourceType.TOPIC, self.topic),
            (AclResourceType.GROUP, self.group),
            (AclResourceType.TRANSACTIONAL_ID, self.transactional_id),
            (AclResourceType.USER, self.user),
        ]
        kind = PatternType.PREFIXED if self.prefixed else PatternType.LITERAL
        patterns = [ResourcePattern(each, name, kind) for each, name in named if name is not None]
        if self.cluster:
            patterns.append(ResourcePattern.cluster())
        if len(patterns) > 1:
            usage_error("at most one of --topic, --group, --transactional-id, --user, --cluster is allowed")
        if self.prefixed and (self.cluster or not patterns):
            usage_error("--prefixed requires a topic, a group, a transactional id or a user")
        return patterns[0] if patterns else None


@app.command("list")
@command
def list_(
    principal: PrincipalOption = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: TransactionalIdOption = None,
    user: UserOption = None,
    cluster: ClusterOption = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Only ACLs of exactly this name, not all that apply to it.")
    ] = False,
    host: HostOption = None,
    operation: OperationOption = None,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """List ACLs: all, or those that apply to a resource or principal.

    Example: odradek acls list --topic letters
    """
    from odradek import AccessControlEntryFilter, AclBindingFilter, PatternType, ResourcePatternFilter

    named = ResourceOptions(topic, group, transactional_id, user, cluster, prefixed=False).pattern()
    kind = PatternType.ANY if exact else PatternType.MATCH
    pattern = ResourcePatternFilter() if named is None else ResourcePatternFilter(*named[:2], kind)
    entry = AccessControlEntryFilter(principal, _operation(operation), host=host)
    with Target(bootstrap, extra).only_admin() as admin:
        bindings = admin.describe_acls(AclBindingFilter(pattern, entry))
    show(_rows(bindings), COLUMNS, as_json=json, empty="no ACLs")


@app.command()
@command
def add(
    principal: Annotated[
        str, typer.Argument(metavar="PRINCIPAL", help="Principal, such as User:alice; User:* for all.")
    ],
    operations: Annotated[
        list[str],
        typer.Argument(
            metavar="OPERATION",
            help="Operations: read, write, create, delete, alter, describe, describe-configs, alter-configs, "
            "cluster-action, idempotent-write, create-tokens, describe-tokens, all.",
        ),
    ],
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: TransactionalIdOption = None,
    user: UserOption = None,
    cluster: ClusterOption = False,
    prefixed: PrefixedOption = False,
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="HOST", help="Only from this IP address. May be repeated."),
    ] = None,
    deny: Annotated[bool, typer.Option("--deny", help="Deny instead of allow.")] = False,
    dry_run: DryRun = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Allow a principal operations on a resource, or deny them. The name * means all resources.

    Example: odradek acls add User:alice read describe --topic letters- --prefixed
    """
    from odradek import AccessControlEntry, AclBinding, AclPermissionType

    pattern = ResourceOptions(topic, group, transactional_id, user, cluster, prefixed).pattern()
    if pattern is None:
        usage_error("one of --topic, --group, --transactional-id, --user, --cluster is required")
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    bindings = [
        AclBinding(pattern, AccessControlEntry(principal, _operation(operation), permission, each))
        for operation in operations
        for each in host or ["*"]
    ]
    if not dry_run:
        with Target(bootstrap, extra).only_admin() as admin:
            admin.create_acls(bindings)
    show(_rows(bindings), COLUMNS, as_json=json)


@app.command()
@command
def remove(
    principal: PrincipalOption = None,
    operation: OperationOption = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: TransactionalIdOption = None,
    user: UserOption = None,
    cluster: ClusterOption = False,
    prefixed: PrefixedOption = False,
    host: HostOption = None,
    deny: DenyOption = False,
    all_: Annotated[bool, typer.Option("--all", help="Remove all ACLs.")] = False,
    dry_run: DryRun = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Remove the ACLs that all options select; exactly those of a named resource.

    Example: odradek acls remove --principal User:alice --topic letters- --prefixed
    """
    from odradek import AccessControlEntryFilter, AclBindingFilter, AclPermissionType

    named = ResourceOptions(topic, group, transactional_id, user, cluster, prefixed).pattern()
    permission = AclPermissionType.DENY if deny else AclPermissionType.ANY
    entry = AccessControlEntryFilter(principal, _operation(operation), permission, host)
    selected = AclBindingFilter(_exactly(named), entry)
    if all_ == (selected != AclBindingFilter()):
        usage_error("either --all or options that select ACLs are required")
    with Target(bootstrap, extra).only_admin() as admin:
        bindings = admin.describe_acls(selected) if dry_run else admin.delete_acls([selected])[selected]
    show(_rows(bindings), COLUMNS, as_json=json, empty="no such ACLs")


def _exactly(named: ResourcePattern | None) -> ResourcePatternFilter:
    from odradek import ResourcePatternFilter

    return ResourcePatternFilter() if named is None else ResourcePatternFilter(*named)


def _operation(name: str | None) -> AclOperation:
    """Parse an operation: ``describe-configs``, ``DescribeConfigs`` or ``DESCRIBE_CONFIGS``."""
    from odradek import AclOperation

    if name is None:
        return AclOperation.ANY
    plain = name.lower().replace("-", "").replace("_", "")
    operations = {
        each.name.lower().replace("_", ""): each for each in AclOperation if each > AclOperation.ANY
    }
    if plain not in operations:
        known = ", ".join(each.name.lower().replace("_", "-") for each in operations.values())
        usage_error(f"operation must be one of {known}, got {name!r}")
    return operations[plain]


def _rows(bindings: Iterable[AclBinding]) -> list[Row]:
    return [
        {
            "resource_type": _word(pattern.resource_type.name),
            "name": pattern.name,
            "pattern": _word(pattern.pattern_type.name),
            "principal": entry.principal,
            "permission": _word(entry.permission_type.name),
            "operation": _word(entry.operation.name),
            "host": entry.host,
        }
        for pattern, entry in bindings
    ]


def _word(name: str) -> str:
    return name.lower().replace("_", "-")
