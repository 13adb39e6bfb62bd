"""``odradek tokens``: delegation tokens."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from odradek.cli.errors import CommandFailed, command, usage_error
from odradek.cli.output import show, show_done, show_fields, show_json
from odradek.cli.target import Bootstrap, Extra, Json, Target

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin
    from odradek.security.tokens.token_information import DelegationToken

app = typer.Typer(
    help="Create, list, renew and expire delegation tokens: short-lived passwords for clients that act as a "
    "user.",
    no_args_is_help=True,
)

COLUMNS: Final = ["token", "owner", "requester", "renewers", "issued", "expires", "ends"]

TokenId = Annotated[str, typer.Argument(metavar="TOKEN", help="Id of the token.")]


@app.command()
@command
def create(
    owner: Annotated[
        str | None,
        typer.Option("--owner", metavar="PRINCIPAL", help="Owner, such as User:alice (default: you)."),
    ] = None,
    renewer: Annotated[
        list[str] | None,
        typer.Option(
            "--renewer", metavar="PRINCIPAL", help="Who may renew and expire it, too. May be repeated."
        ),
    ] = None,
    max_lifetime_ms: Annotated[
        int | None,
        typer.Option(
            "--max-lifetime-ms",
            min=1,
            help="Time until it ends for good (default: the broker's delegation.token.max.lifetime.ms, which "
            "is also the longest).",
        ),
    ] = None,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Create a token, and print it with its HMAC, which is its password.

    A client uses it with SCRAM: the id is the username, the HMAC the password, and sasl.jaas.config has
    tokenauth="true".

    Example: odradek tokens create --renewer User:scheduler
    """
    _check_principals("--owner", [] if owner is None else [owner])
    _check_principals("--renewer", renewer or [])
    with Target(bootstrap, extra).only_admin() as admin:
        token = admin.create_delegation_token(
            owner=owner, renewers=renewer or [], max_lifetime_ms=max_lifetime_ms
        )
    fields = _row(token, with_hmac=True)
    if json:
        show_json(fields)
    else:
        show_fields(fields)


@app.command("list")
@command
def list_(
    owner: Annotated[
        list[str] | None,
        typer.Option("--owner", metavar="PRINCIPAL", help="Only tokens of this owner. May be repeated."),
    ] = None,
    hmac: Annotated[bool, typer.Option("--hmac", help="Print the HMACs, which are passwords, too.")] = False,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """List the tokens that you may see."""
    _check_principals("--owner", owner or [])
    with Target(bootstrap, extra).only_admin() as admin:
        tokens = admin.describe_delegation_tokens(owner or None)
    columns = [*COLUMNS, "hmac"] if hmac else COLUMNS
    show([_row(token, with_hmac=hmac) for token in tokens], columns, as_json=json, empty="no tokens")


@app.command()
@command
def renew(
    token: TokenId,
    period_ms: Annotated[
        int | None,
        typer.Option(
            "--period-ms",
            min=0,
            help="Time from now until it expires (default: the broker's delegation.token.expiry.time.ms).",
        ),
    ] = None,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Let a token expire later. Only its owner and renewers may."""
    with Target(bootstrap, extra).only_admin() as admin:
        expires_ms = admin.renew_delegation_token(_hmac_of(admin, token), period_ms=period_ms)
    show_done("renewed", [{"token": token, "expires": _as_time(expires_ms)}], as_json=json)


@app.command()
@command
def expire(
    token: TokenId,
    period_ms: Annotated[
        int | None,
        typer.Option("--period-ms", min=0, help="Time from now until it expires (default: at once)."),
    ] = None,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Let a token expire. Only its owner and renewers may.

    Open connections stay open until the time at which it would have expired.
    """
    with Target(bootstrap, extra).only_admin() as admin:
        expires_ms = admin.expire_delegation_token(_hmac_of(admin, token), period_ms=period_ms)
    show_done("expired", [{"token": token, "expires": _as_time(expires_ms)}], as_json=json)


def _hmac_of(admin: Admin, token_id: str) -> bytes:
    """Return the HMAC of a token. It is no argument: other users see command lines."""
    for token in admin.describe_delegation_tokens():
        if token.information.token_id == token_id:
            return token.hmac
    raise CommandFailed(f"there is no token {token_id!r} that you may see")


def _check_principals(option: str, principals: list[str]) -> None:
    from odradek.security.principal import parse_principal

    for principal in principals:
        try:
            parse_principal(principal)
        except ValueError as error:
            usage_error(f"{option} {error}")


def _row(token: DelegationToken, *, with_hmac: bool) -> dict[str, object]:
    information = token.information
    row: dict[str, object] = {
        "token": information.token_id,
        "owner": str(information.owner),
        "requester": str(information.requester),
        "renewers": [str(renewer) for renewer in information.renewers],
        "issued": _as_time(information.issue_timestamp),
        "expires": _as_time(information.expiry_timestamp),
        "ends": _as_time(information.max_timestamp),
    }
    return row | {"hmac": token.password.reveal()} if with_hmac else row


def _as_time(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
