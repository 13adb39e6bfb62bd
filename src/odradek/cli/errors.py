"""The end of a command: an exit status that scripts can trust, and one line on stderr if something is wrong.

0: done. 1: it could not be done. 2: wrong use, as an unknown option or a value that cannot be read. 130:
interrupted. 141: the reader of the output is gone.
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
"""The status that a shell gives a program which SIGPIPE ended."""


class CommandFailed(Exception):
    """A command could not do what it was asked; the words say what to do about it."""


def print_error(words: str) -> None:
    """One line on stderr."""
    print("odradek: " + " ".join(str(words).split()), file=sys.stderr)


def is_stdout_closed() -> bool:
    """Return whether stdout is a pipe or a terminal whose other end was closed."""
    watched = select.poll()
    watched.register(sys.stdout.fileno(), 0)  # errors and hang-ups are told without being asked for
    return bool(watched.poll(0))


def discard_output() -> None:
    """Let further output, and what is buffered, go nowhere: the reader is gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def usage_error(words: str) -> NoReturn:
    print_error(words)
    raise typer.Exit(USAGE_ERROR)


@contextmanager
def _told() -> Iterator[None]:
    from odradek.model.client_errors import ClientError
    from odradek.model.errors import ConfigError

    # What a client logs is for programs; a person gets one line, below.
    logging.getLogger("odradek").addHandler(logging.NullHandler())
    try:
        yield
    except BrokenPipeError:
        discard_output()
        raise typer.Exit(BROKEN_PIPE) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except ConfigError as wrong:
        print_error(str(wrong))
        raise typer.Exit(USAGE_ERROR) from None
    except (CommandFailed, ClientError) as failed:
        print_error(advised(failed))
        raise typer.Exit(FAILED) from None


def command(function: Callable[P, T]) -> Callable[P, T]:
    """A command whose failures are told in one line and by its exit status."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with _told():
            return function(*args, **kwargs)

    return run


_ADVICE: Final = {
    "UNKNOWN_TOPIC_OR_PARTITION": "`odradek topics list` shows what there is",
    "TOPIC_ALREADY_EXISTS": "`odradek topics alter` changes a topic; --if-not-exists lets it be",
    "NON_EMPTY_GROUP": "stop its consumers first",
    "UNKNOWN_MEMBER_ID": "the group has members: stop its consumers first",
    "GROUP_ID_NOT_FOUND": "`odradek groups list` shows what there is",
    "GROUP_SUBSCRIBED_TO_TOPIC": "the group reads this topic: stop its consumers first",
}


def advised(failed: Exception) -> str:
    """What went wrong, and what may help."""
    code = getattr(failed, "code", None)
    advice = _ADVICE.get(code.name) if code is not None else None
    words = str(failed)
    return words if advice is None else f"{words.rstrip('.')}; {advice}"
