"""``odradek users``: users that log in with SCRAM."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from odradek.cli.errors import command, usage_error
from odradek.cli.output import show, show_done
from odradek.cli.target import Bootstrap, Extra, Json, Target

if TYPE_CHECKING:
    from odradek.client.admin.scram_credentials import ScramMechanism

app = typer.Typer(help="List, add and remove users with a SCRAM password.", no_args_is_help=True)

PASSWORD_CHARACTERS_MAX: Final = 10_000

MechanismOption = Annotated[
    str | None,
    typer.Option("--mechanism", metavar="NAME", help="SCRAM-SHA-256 or SCRAM-SHA-512 (default: both)."),
]


def _mechanisms(name: str | None) -> list[ScramMechanism]:
    from odradek import ScramMechanism

    mechanisms = {str(mechanism): mechanism for mechanism in ScramMechanism if mechanism}
    if name is None:
        return list(mechanisms.values())
    if name.upper() not in mechanisms:
        usage_error(f"--mechanism must be one of {', '.join(mechanisms)}, got {name!r}")
    return [mechanisms[name.upper()]]


@app.command("list")
@command
def list_(json: Json = False, bootstrap: Bootstrap = None, extra: Extra = None) -> None:
    """List the users with a password, and its mechanisms."""
    with Target(bootstrap, extra).only_admin() as admin:
        users = admin.describe_user_scram_credentials()
    rows = [
        {"user": user, "mechanism": str(info.mechanism), "iterations": info.iterations}
        for user, infos in sorted(users.items())
        for info in infos
    ]
    show(rows, ["user", "mechanism", "iterations"], as_json=json, empty="no users with a password")


@app.command()
@command
def add(
    user: Annotated[str, typer.Argument(metavar="USER", help="User.")],
    mechanism: MechanismOption = None,
    iterations: Annotated[
        int, typer.Option("--iterations", min=4096, max=16384, help="Iterations of the hash.")
    ] = 4096,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Add a user, or change the password. The password is read from the terminal, or from stdin.

    Example: odradek users add alice < password.txt
    """
    from odradek import UserScramCredentialUpsertion

    mechanisms = _mechanisms(mechanism)
    password = _read_password()
    changes = [UserScramCredentialUpsertion(user, each, password, iterations) for each in mechanisms]
    with Target(bootstrap, extra).only_admin() as admin:
        admin.alter_user_scram_credentials(changes)
    show_done("added", [{"user": user}], as_json=json)


@app.command()
@command
def remove(
    user: Annotated[str, typer.Argument(metavar="USER", help="User.")],
    mechanism: MechanismOption = None,
    json: Json = False,
    bootstrap: Bootstrap = None,
    extra: Extra = None,
) -> None:
    """Remove the passwords of a user, or the one of a mechanism. Open connections stay open."""
    from odradek import UserScramCredentialDeletion

    selected = _mechanisms(mechanism)
    with Target(bootstrap, extra).only_admin() as admin:
        if mechanism is None:
            selected = [info.mechanism for info in admin.describe_user_scram_credentials([user])[user]]
        admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, each) for each in selected])
    show_done("removed", [{"user": user}], as_json=json)


def _read_password() -> str:
    """Read the password without showing it. It is no option: other users see command lines."""
    if sys.stdin.isatty():
        from getpass import getpass

        password = getpass("Password: ")
        if getpass("Password again: ") != password:
            usage_error("the passwords must be equal")
    else:
        password = sys.stdin.readline(PASSWORD_CHARACTERS_MAX).rstrip("\r\n")
    if not password:
        usage_error("the password must not be empty")
    return password
