"""Make an installation of Odradek that differs from this one only in its interpreter.

`python -m bench.other_interpreter PYTHON DIRECTORY` makes a virtual environment of an interpreter with the
same ABI. It uses the packages of this environment and this checkout with its compiled modules: nothing has to
be installed. Its `odradek` command is for the variables `ODRADEK` and `PEER`.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

from bench.interpreter import ask, build
from bench.paths import ROOT

COMMAND = """#!{python}
import sys
from odradek.__main__ import main
sys.exit(main())
"""
QUESTION = "import sysconfig as s; print(s.get_config_var('SOABI')); print(s.get_path('purelib'))"


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m bench.other_interpreter PYTHON DIRECTORY", file=sys.stderr)
        return 2
    program = make_installation(Path(arguments[0]), Path(arguments[1]).absolute())
    print(f"{build(ask(program.parent / 'python'))}\nODRADEK={program}")
    return 0


def make_installation(python: Path, directory: Path) -> Path:
    """Return the `odradek` command of a new environment that borrows the packages of this one."""
    subprocess.run([str(python), "-m", "venv", "--without-pip", str(directory)], check=True)
    own = directory / "bin" / "python"
    done = subprocess.run([str(own), "-c", QUESTION], capture_output=True, text=True, check=True)
    abi, packages = done.stdout.splitlines()
    if abi != sysconfig.get_config_var("SOABI"):
        raise SystemExit(f"{python} must have the ABI {sysconfig.get_config_var('SOABI')}, got {abi}")
    paths = dict.fromkeys([str(ROOT / "src"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    Path(packages, "borrowed.pth").write_text("".join(f"{path}\n" for path in paths))
    program = directory / "bin" / "odradek"
    program.write_text(COMMAND.format(python=own))
    program.chmod(0o755)
    return program


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
