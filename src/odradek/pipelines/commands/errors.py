"""Error handling of the pipeline commands, in addition to that of all commands."""

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
    """Decorate a command so that errors, also those of pipelines, are printed without a traceback."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with _error_handling():
            return function(*args, **kwargs)

    return command(run)


def _file_error(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return (
            "the disk of the checkpoint is full: free space and run it again; it continues where it stopped"
        )
    return f"{error.filename or 'a file'}: {error.strerror or error}"


@contextmanager
def _error_handling() -> Iterator[None]:
    from odradek.model.client_errors import ClientError
    from odradek.model.errors import ConfigError
    from odradek.pipelines.spec.reader import SpecError

    try:
        yield
    except SpecError as error:
        for line in error.problems:
            print_error(line)
        raise typer.Exit(USAGE_ERROR) from None
    except InvalidResetTarget as error:
        usage_error(str(error))
    except ImportError as missing:
        if (missing.name or "").partition(".")[0] not in EXTRAS:
            raise
        raise CommandFailed(f'{missing.name} is not installed: pip install "odradek[spark]"') from missing
    except OSError as failed:
        raise CommandFailed(_file_error(failed)) from failed
    except (CommandFailed, ClientError, ConfigError):
        raise
    except Exception as failed:
        # Command boundary. Errors of this package have advice; all others are bugs, and keep their traceback.
        if type(failed).__module__.partition(".")[0] != "odradek":
            raise
        raise CommandFailed(str(failed)) from failed
