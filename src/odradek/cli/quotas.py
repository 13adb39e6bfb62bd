"""``odradek quotas``: quotas of users, client ids and addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.errors import command, usage_error
from odradek.cli.output import show
from odradek.cli.target import Bootstrap, Extra, Json, Target, parse_pairs

if TYPE_CHECKING:
    from odradek.client.admin.quotas import ClientQuotaEntity, EntityName

app = typer.Typer(
    help="List, set and remove quotas of users, client ids and addresses.", no_args_is_help=True
)

UserOption = Annotated[str | None, typer.Option("--user", metavar="USER", help="Quotas of this user.")]
DefaultUserOption = Annotated[
    bool, typer.Option("--default-user", help="Quotas of all users without their own.")
]
ClientIdOption = Annotated[
    str | None, typer.Option("--client-id", metavar="ID", help="Quotas of this client id.")
]
DefaultClientIdOption = Annotated[
    bool, typer.Option("--default-client-id", help="Quotas of all client ids without their own.")
]
IpOption = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="Quotas of this address.")]
DefaultIpOption = Annotated[
    bool, typer.Option("--default-ip", help="Quotas of all addresses without their own.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only validate the change.")]

COLUMNS = ["user", "client_id", "ip", "quota", "value"]


def _name(name: str | None, is_default: bool, option: str) -> EntityName | None:
    from odradek import QuotaName

    if name is not None and is_default:
        usage_error(f"--{option} and --default-{option} must not be combined")
    return QuotaName.DEFAULT if is_default else name


def _entity(
    user: str | None,
    default_user: bool,
    client_id: str | None,
    default_client_id: bool,
    ip: str | None,
    default_ip: bool,
) -> ClientQuotaEntity:
    from odradek import ClientQuotaEntity

    return ClientQuotaEntity(
        _name(user, default_user, "user"),
        _name(client_id, default_client_id, "client-id"),
        _name(ip, default_ip, "ip"),
    )


def _require_entity(entity: ClientQuotaEntity) -> None:
    if not any(entity):
        usage_error("at least one of --user, --client-id, --ip and their defaults is required")


@app.command("list")
@command
def list_(
    user: UserOption = None,
    default_user: DefaultUserOption = False,
    client_id: ClientIdOption = None,
    default_client_id: DefaultClientIdOption = False,
    ip: IpOption = None,
    default_ip: DefaultIpOption = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """List all quotas, or those of a user, client id or address.

    Example: odradek quotas list --user alice
    """
    entity = _entity(user, default_user, client_id, default_client_id, ip, default_ip)
    with Target(bootstrap, extra).only_admin() as admin:
        quotas = admin.describe_client_quotas(user=entity.user, client_id=entity.client_id, ip=entity.ip)
    rows = [
        {**_row(described), "quota": key, "value": value}
        for described, values in sorted(quotas.items(), key=lambda item: str(item[0]))
        for key, value in sorted(values.items())
    ]
    show(rows, COLUMNS, as_json=json, empty="no quotas")


@app.command("set")
@command
def set_(
    quotas: Annotated[
        list[str],
        typer.Argument(
            metavar="QUOTA=VALUE",
            help="producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate; "
            "for addresses connection_creation_rate.",
        ),
    ],
    user: UserOption = None,
    default_user: DefaultUserOption = False,
    client_id: ClientIdOption = None,
    default_client_id: DefaultClientIdOption = False,
    ip: IpOption = None,
    default_ip: DefaultIpOption = False,
    dry_run: DryRun = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Set quotas of a user, client id or address; other quotas are not changed.

    Example: odradek quotas set --client-id reports consumer_byte_rate=1000000
    """
    entity = _entity(user, default_user, client_id, default_client_id, ip, default_ip)
    _require_entity(entity)
    changes: dict[str, float | None] = {
        key: _number(key, text) for key, text in parse_pairs(quotas, "quota").items()
    }
    _alter(entity, changes, dry_run, json, Target(bootstrap, extra))


@app.command()
@command
def remove(
    quotas: Annotated[list[str], typer.Argument(metavar="QUOTA", help="Quotas to remove.")],
    user: UserOption = None,
    default_user: DefaultUserOption = False,
    client_id: ClientIdOption = None,
    default_client_id: DefaultClientIdOption = False,
    ip: IpOption = None,
    default_ip: DefaultIpOption = False,
    dry_run: DryRun = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Remove quotas of a user, client id or address.

    Example: odradek quotas remove --client-id reports consumer_byte_rate
    """
    entity = _entity(user, default_user, client_id, default_client_id, ip, default_ip)
    _require_entity(entity)
    _alter(entity, dict.fromkeys(quotas), dry_run, json, Target(bootstrap, extra))


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        usage_error(f"{key} must be a number, got {text!r}")


def _alter(
    entity: ClientQuotaEntity, changes: dict[str, float | None], dry_run: bool, json: bool, target: Target
) -> None:
    with target.only_admin() as admin:
        admin.alter_client_quotas({entity: changes}, validate_only=dry_run)
    rows = [
        {**_row(entity), "quota": key, "value": value, "dry_run": dry_run} for key, value in changes.items()
    ]
    show(rows, [*COLUMNS, "dry_run"], as_json=json)


def _row(entity: ClientQuotaEntity) -> dict[str, object]:
    return {kind: None if name is None else str(name) for kind, name in entity._asdict().items()}
