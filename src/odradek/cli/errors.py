"""Errors and exit statuses of commands: a failure prints one line to stderr.

0: success. 1: failure. 2: usage error, such as an unknown option or an invalid value. 130: interrupted. 141:
stdout was closed (broken pipe).
"""

from __future__ import annotations

import functools
import logging
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn, ParamSpec, TypeVar

import typer

P = ParamSpec("P")
T = TypeVar("T")

FAILED: Final = 1
USAGE_ERROR: Final = 2
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
"""Exit status that a shell reports for a process killed by SIGPIPE."""


class CommandFailed(Exception):
    """Raised when a command fails; the message says what to do."""


def print_error(message: str) -> None:
    """Print one line to stderr."""
    print("odradek: " + " ".join(str(message).split()), file=sys.stderr)


def is_stdout_closed() -> bool:
    """Return whether stdout is a pipe or a terminal whose other end was closed."""
    poller = select.poll()
    poller.register(sys.stdout.fileno(), 0)  # errors and hang-ups are always reported
    return bool(poller.poll(0))


def discard_output() -> None:
    """Send further and buffered output to /dev/null: stdout was closed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def usage_error(message: str) -> NoReturn:
    print_error(message)
    raise typer.Exit(USAGE_ERROR)


@contextmanager
def _exit_on_error() -> Iterator[None]:
    from odradek.model.client_errors import ClientError
    from odradek.model.errors import ConfigError

    # Client logs are not for the terminal: errors are printed as one line below.
    logging.getLogger("odradek").addHandler(logging.NullHandler())
    try:
        yield
    except BrokenPipeError:
        discard_output()
        raise typer.Exit(BROKEN_PIPE) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except ConfigError as error:
        print_error(str(error))
        raise typer.Exit(USAGE_ERROR) from None
    except (CommandFailed, ClientError) as error:
        print_error(with_hint(error))
        raise typer.Exit(FAILED) from None


def command(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a command to report errors as one line and an exit status."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with _exit_on_error():
            return function(*args, **kwargs)

    return run


_HINTS: Final = {
    "UNKNOWN_TOPIC_OR_PARTITION": "list topics with `odradek topics list`",
    "TOPIC_ALREADY_EXISTS": "change it with `odradek topics alter`, or use --if-not-exists",
    "NON_EMPTY_GROUP": "stop its consumers first",
    "UNKNOWN_MEMBER_ID": "the group has members: stop its consumers first",
    "GROUP_ID_NOT_FOUND": "list groups with `odradek groups list`",
    "PREFERRED_LEADER_NOT_AVAILABLE": "start the first replica's broker and wait until it is in sync",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE": "start a broker that has a replica",
    "GROUP_SUBSCRIBED_TO_TOPIC": "the group is subscribed to this topic: stop its consumers first",
}


def with_hint(error: Exception) -> str:
    """Return the message of an error, with a hint for known error codes."""
    code = getattr(error, "code", None)
    hint = _HINTS.get(code.name) if code is not None else None
    message = str(error)
    return message if hint is None else f"{message.rstrip('.')}; {hint}"
