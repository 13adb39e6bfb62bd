"""The page of all commands, written from the commands themselves, so that it cannot say anything else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

PREFACE = """\
# The command line

Written by `odradek command-reference`; do not edit. Commands talk to a broker of Odradek or of Apache Kafka
through the clients of this package.

Exit status: 0 when all was done; 1 when it could not be done, with one line on stderr that says why; 2 for
wrong use (an unknown option, a value that cannot be read); 130 after Ctrl-C; 141 when the reader of the
output is gone (`| head`).

`-b HOST:PORT` and `-X NAME=VALUE` may stand before the command too. Tables are for people: plain columns
where stdout is no terminal, JSON with `--json`. Every command has `--json` but `serve`, whose log has a
format, and `dump-log`, whose lines are those of Kafka's own tool. To `produce` it is the format of its input.

`odradek --install-completion` lets your shell complete commands and options; `--show-completion` prints the
script.

`consume --format` takes a template as kcat does: `%t` topic, `%p` partition, `%o` offset, `%k` key, `%s`
value, `%T` timestamp, `%h` headers, `%K` and `%S` bytes of key and value, `%%` a percent sign and `\\n`.
"""


def page(root: Any) -> str:
    """The whole page."""
    return "\n".join([PREFACE, *_sections(root, root.name or "odradek")])


def _sections(group: Any, path: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from _sections(command, f"{path} {name}")
        else:
            yield _section(command, f"{path} {name}")


def _section(command: Any, path: str) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    usage = " ".join([path, "[OPTIONS]", *map(_argument, arguments)])
    lines = [f"## {path}", "", "```text", usage, "```", "", (command.help or "").strip(), ""]
    options = [one for one in command.params if one.param_type_name == "option"]
    if options:
        lines += ["| option | meaning |", "|---|---|", *map(_row, options), ""]
    return "\n".join(lines)


def _argument(argument: Any) -> str:
    name = str(argument.metavar or argument.name).strip("[]")
    shown = name if argument.required else f"[{name}]"
    return f"{shown}..." if argument.nargs == -1 else shown


def _row(option: Any) -> str:
    names = ", ".join(f"`{one}`" for one in (*option.opts, *option.secondary_opts))
    metavar = f" {option.metavar}" if option.metavar else ""
    shows_default = not option.is_flag and option.default not in (None, ())
    default = f" Default: {option.default}." if shows_default else ""
    return f"| {names}{metavar} | {(option.help or '').replace('|', chr(92) + '|')}{default} |"
