"""Build the compiled record codec, the codecs of hot messages (Cython) and the compiled modules (mypyc).

Without a compiler, or with ODRADEK_PURE=1, the package runs from its Python sources alone.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from glob import glob
from importlib import util
from multiprocessing.pool import ThreadPool
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

PACKAGE = "src/odradek"
CODEC = f"{PACKAGE}/records/compiled"
CODEC_MODULES = ("record_batch", "compaction", "producer", "consumer")
# Shared declarations: in the source distribution, and a change rebuilds all modules.
DECLARATIONS = sorted(glob(f"{CODEC}/*.pxd") + glob(f"{CODEC}/include/*.h"))

PURE = os.environ.get("ODRADEK_PURE") == "1"
COMPILED = (
    "broker/handlers/fetch.py",
    "broker/handlers/produce.py",
    "broker/handlers/produce_errors.py",
    "broker/handlers/queued_appends.py",
    "broker/network/connection_scheduler.py",
    "broker/network/memory_pool.py",
    "broker/network/request_queue.py",
    "broker/network/session.py",
    "broker/requests/dispatcher.py",
    "broker/requests/pending_response.py",
    "broker/topics/admin.py",
    "coordinators/pending_appends.py",
    "log/leader_epoch_cache.py",
    "log/local_log.py",
    "log/log.py",
    "log/log_state.py",
    "log/old_segments.py",
    "log/producers/*.py",
    "log/segments/*.py",
    "records/append_rules.py",
    "records/batch.py",
    "records/batch_producer.py",
    "records/layout.py",
    "records/validation.py",
    "replication/acks.py",
    "replication/append_queue.py",
    "replication/delayed/*.py",
    "replication/fetch_sessions/*.py",
    "replication/follower.py",
    "replication/hosted_partitions.py",
    "replication/leader.py",
    "replication/leader_epochs.py",
    "replication/partition.py",
    "replication/partition_logs.py",
    "replication/pending_flushes.py",
    "replication/reads/*.py",
    "replication/replica_manager.py",
    "timers/purgatory.py",
    "timers/threshold_purgatory.py",
    "timers/timing_wheel.py",
    "wire/frames.py",
    "wire/headers.py",
    "wire/primitives.py",
    "wire/server_connection.py",
)
"""Sources that mypyc compiles, together: each may call the others without the interpreter."""

HOT_CODEC = "wire/hot_codec.pxi"
HOT_MESSAGES_SOURCE = "build/hot_messages.pyx"

# Types of other packages do not matter to the compiled code, and they need not be installed for a build.
MYPY_OPTIONS = [
    "--config-file=",
    "--explicit-package-bases",
    "--follow-imports=silent",
    "--ignore-missing-imports",
]


def load_compiled_modules() -> Any:
    """Return the module that decides whether compiled modules run; it imports nothing of the package."""
    spec = util.spec_from_file_location("compiled_modules", f"{PACKAGE}/compiled_modules.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compile_cython(extensions: list[Extension]) -> list[Extension]:
    from Cython.Build import cythonize

    built: list[Extension] = cythonize(extensions, language_level="3")
    for extension in built:
        extension.optional = True  # Cython does not keep this attribute
    return built


def codec_extensions() -> list[Extension]:
    extensions = [
        Extension(
            f"odradek.records.compiled.{module}",
            [f"{CODEC}/{module}.pyx"],
            depends=[f"{CODEC}/{module}.pyx", *DECLARATIONS],
            # No -march: one wheel runs everywhere, and the CRC instruction is detected at run time.
            extra_compile_args=["-O3"],
        )
        for module in CODEC_MODULES
    ]
    return compile_cython(extensions)


def generate_hot_messages() -> bool:
    """Generate the Cython source of hot messages; return whether there is one."""
    command = [sys.executable, "-m", "odradek.wire.hot_messages_generator"]
    variables = {**os.environ, "PYTHONPATH": "src", "ODRADEK_PURE": "1"}
    result = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        print(f"the codecs of hot messages are not compiled: {result.stderr}", file=sys.stderr)
        return False
    source = read(f"{PACKAGE}/{HOT_CODEC}") + result.stdout
    os.makedirs(os.path.dirname(HOT_MESSAGES_SOURCE), exist_ok=True)
    # Unchanged source keeps its time, and is not compiled again.
    if not os.path.exists(HOT_MESSAGES_SOURCE) or read(HOT_MESSAGES_SOURCE) != source:
        with open(HOT_MESSAGES_SOURCE, "w", encoding="utf-8") as file:
            file.write(source)
    return True


def hot_messages_extensions() -> list[Extension]:
    if not generate_hot_messages():
        return []
    name = load_compiled_modules().HOT_MESSAGES
    extension = Extension(
        name,
        [HOT_MESSAGES_SOURCE],
        depends=[HOT_MESSAGES_SOURCE, f"{PACKAGE}/{HOT_CODEC}"],
        extra_compile_args=["-O2", "-g0"],
    )
    (built,) = compile_cython([extension])
    built.name = f"odradek._compiled.{name}"
    return [built]


def hot_messages_sources() -> list[str]:
    """Return the sources that decide what the codecs of hot messages do, without their generator."""
    roots = [load_compiled_modules().HOT_MESSAGES_GENERATOR, "wire/message_codecs.py"]
    return [HOT_CODEC, "wire/message_codecs.py", *inlined_sources(roots)]


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def compiled_sources() -> list[str]:
    found = {path for pattern in COMPILED for path in glob(f"{PACKAGE}/{pattern}")}
    return sorted(os.path.relpath(path, PACKAGE) for path in found if not path.endswith("__init__.py"))


def inlined_sources(compiled: list[str]) -> list[str]:
    """Return the other sources that the compiled ones import: mypyc copies their constants."""
    found: set[str] = set()
    for source in compiled:
        for node in ast.walk(ast.parse(read(f"{PACKAGE}/{source}"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("odradek"):
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                found.update(f"{'/'.join(str(name).split('.')[1:])}.py" for name in names)
    return sorted(path for path in found - set(compiled) if os.path.isfile(f"{PACKAGE}/{path}"))


def module_extensions() -> list[Extension]:
    try:
        from mypyc.build import mypycify
    except ImportError as error:
        print(f"the modules are not compiled: {error}", file=sys.stderr)
        return []
    os.environ["MYPYPATH"] = "src"
    rules = load_compiled_modules()
    extensions: list[Extension] = mypycify(
        [*MYPY_OPTIONS, *(f"{PACKAGE}/{source}" for source in compiled_sources())],
        opt_level="2",
        debug_level="0",
        multi_file=True,
        group_name=rules.LIBRARY.removesuffix("__mypyc"),
    )
    for extension in extensions:
        extension.name = f"odradek._compiled.{extension.name}"
        extension.optional = True
    return extensions


class BuildExtensions(build_ext):
    """Compiles on all cores, and notes the sources of the compiled modules once all of them are built."""

    built: set[str]
    """Names of the extensions that are up to date. The files of others may be there from an earlier build."""

    def run(self) -> None:
        rules = load_compiled_modules()
        places = {self._directory(), self._directory(inplace=True)} if self.extensions else set()
        for place in places:
            if os.path.exists(note := os.path.join(place, rules.SOURCES)):
                os.remove(note)
        if self.inplace:
            for extension in self.extensions:
                os.makedirs(os.path.dirname(self.get_ext_fullpath(extension.name)), exist_ok=True)
        self.built = set()
        super().run()
        compiled = compiled_sources()
        modules = [rules.LIBRARY, *map(rules.module_of, compiled)]
        inlined, generators = inlined_sources(compiled), []
        if any(extension.name.endswith(rules.HOT_MESSAGES) for extension in self.extensions):
            modules.append(rules.HOT_MESSAGES)
            generators.append(rules.HOT_MESSAGES_GENERATOR)
            inlined = sorted({*inlined, *hot_messages_sources()} - {*compiled})
        content = rules.describe_sources(compiled, inlined, generators)
        for place in places:
            if all(self._is_built(module, place) for module in modules):
                with open(os.path.join(place, rules.SOURCES), "w", encoding="utf-8") as file:
                    file.write(content)

    def _is_built(self, module: str, place: str) -> bool:
        file: str = load_compiled_modules().compiled_file(module, place)
        return f"odradek._compiled.{module}" in self.built and os.path.exists(file)

    def build_extension(self, ext: Extension) -> None:
        super().build_extension(ext)
        self.built.add(ext.name)

    def _directory(self, *, inplace: bool = False) -> str:
        """Return where the compiled modules are built, or, in place, where an editable package has them."""
        before, self.inplace = self.inplace, self.inplace or inplace
        try:
            return os.path.dirname(self.get_ext_fullpath("odradek._compiled.any"))
        finally:
            self.inplace = before

    def build_extensions(self) -> None:
        compile_one = self.compiler.compile

        def compile_all(sources: list[str], *arguments: Any, **options: Any) -> list[str]:
            with ThreadPool(os.cpu_count()) as pool:
                objects = pool.map(lambda source: compile_one([source], *arguments, **options), sources)
            return [name for names in objects for name in names]

        self.compiler.compile = compile_all
        super().build_extensions()


setup(
    ext_modules=[] if PURE else [*codec_extensions(), *hot_messages_extensions(), *module_extensions()],
    cmdclass={"build_ext": BuildExtensions},
)
