"""Exit statuses and error messages of commands."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import typer

from odradek.cli.errors import CommandFailed, command
from odradek.cli.target import parse_pairs
from odradek.model.client_errors import ConnectionFailed, RequestRefused
from odradek.model.errors import ConfigError, ErrorCode


def raising(error: BaseException) -> Callable[[], None]:
    @command
    def run() -> None:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (KeyboardInterrupt(), 130),
        (ConfigError(["lingr.ms: no such option"]), 2),
        (ConnectionFailed("gone"), 1),
        (CommandFailed("no"), 1),
        (typer.Exit(7), 7),
    ],
)
def test_exit_status_of_errors(error: BaseException, status: int) -> None:
    with pytest.raises(typer.Exit) as exited:
        raising(error)()
    assert exited.value.exit_code == status


def test_error_is_one_line_with_hint(capsys: pytest.CaptureFixture[str]) -> None:
    error = RequestRefused("topic a:\n  not there.", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    with pytest.raises(typer.Exit):
        raising(error)()
    error_line = capsys.readouterr().err
    assert error_line == "odradek: topic a: not there; list topics with `odradek topics list`\n"


def test_unexpected_exceptions_propagate() -> None:
    with pytest.raises(ZeroDivisionError):
        raising(ZeroDivisionError())()


def test_parse_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse_pairs(["a=1", "b=x=y", "c="], "-X") == {"a": "1", "b": "x=y", "c": ""}
    for invalid in ("a", "=1"):
        with pytest.raises(typer.Exit) as exited:
            parse_pairs([invalid], "-X")
        assert exited.value.exit_code == 2
    assert "-X must be NAME=VALUE, got '=1'" in capsys.readouterr().err
