"""Text scenarios of the controller's state machine: a command, then the resulting actions."""

from pathlib import Path

import pytest

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_script(run, path):
    run(path)


def test_scripts_exist():
    assert len(SCRIPTS) >= 5
