"""How commands end: statuses that scripts can trust, one line that a person can use."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import typer

from odradek.cli.errors import CommandFailed, command
from odradek.cli.target import pairs
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
def test_a_failure_has_its_status(error: BaseException, status: int) -> None:
    with pytest.raises(typer.Exit) as ended:
        raising(error)()
    assert ended.value.exit_code == status


def test_a_failure_is_one_line_with_advice(capsys: pytest.CaptureFixture[str]) -> None:
    error = RequestRefused("topic a:\n  not there.", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    with pytest.raises(typer.Exit):
        raising(error)()
    told = capsys.readouterr().err
    assert told == "odradek: topic a: not there; `odradek topics list` shows what there is\n"


def test_a_mistake_of_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        raising(ZeroDivisionError())()


def test_pairs_are_read_and_others_are_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert pairs(["a=1", "b=x=y", "c="], "-X") == {"a": "1", "b": "x=y", "c": ""}
    for wrong in ("a", "=1"):
        with pytest.raises(typer.Exit) as ended:
            pairs([wrong], "-X")
        assert ended.value.exit_code == 2
    assert "NAME=VALUE" in capsys.readouterr().err
