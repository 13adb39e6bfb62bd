"""How a command about pipelines ends: failures that pipelines have besides those of every command."""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, ParamSpec, TypeVar

import typer

from odradek.cli.errors import USAGE_ERROR, CommandFailed, command, print_error, usage_error
from odradek.cli.groups.reset_plan import InvalidResetTarget

P = ParamSpec("P")
T = TypeVar("T")

EXTRAS: Final = ("pyspark", "pyarrow", "pandas", "deltalake", "py4j")
"""Packages that come with ``odradek[spark]``."""


def pipeline_command(function: Callable[P, T]) -> Callable[P, T]:
    """A command whose failures, those of pipelines too, are told without a traceback."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with _told():
            return function(*args, **kwargs)

    return command(run)


def _of_files(failed: OSError) -> str:
    if failed.errno == errno.ENOSPC:
        return "the disk of the checkpoint is full: make room and run it again, it goes on where it stands"
    return f"{failed.filename or 'a file'}: {failed.strerror or failed}"


@contextmanager
def _told() -> Iterator[None]:
    from odradek.model.client_errors import ClientError
    from odradek.model.errors import ConfigError
    from odradek.pipelines.spec.reader import SpecError

    try:
        yield
    except SpecError as wrong:
        for line in wrong.problems:
            print_error(line)
        raise typer.Exit(USAGE_ERROR) from None
    except InvalidResetTarget as wrong:
        usage_error(str(wrong))
    except ImportError as missing:
        if (missing.name or "").partition(".")[0] not in EXTRAS:
            raise
        raise CommandFailed(f'{missing.name} is not installed: pip install "odradek[spark]"') from missing
    except OSError as failed:
        raise CommandFailed(_of_files(failed)) from failed
    except (CommandFailed, ClientError, ConfigError):
        raise
    except Exception as failed:
        # The edge of a command. Errors of this package say what to do; all others are mistakes of ours, and
        # keep their traces.
        if type(failed).__module__.partition(".")[0] != "odradek":
            raise
        raise CommandFailed(str(failed)) from failed
