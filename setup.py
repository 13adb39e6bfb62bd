"""Build the compiled record codec, the codecs of hot messages (Cython) and the compiled modules (mypyc).

Without a compiler, or with ODRADEK_PURE=1, the package runs from its Python sources alone.
"""

from __future__ import annotations

import ast
import os
import shutil
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
    "broker/coordinators/*.py",
    "broker/handlers/*.py",
    "broker/network/connection_scheduler.py",
    "broker/network/memory_pool.py",
    "broker/network/request_queue.py",
    "broker/network/session.py",
    "broker/network/session_factory.py",
    "broker/requests/current_leader.py",
    "broker/requests/dispatcher.py",
    "broker/requests/pending_response.py",
    "broker/topics/admin.py",
    "broker/topics/metadata_responses.py",
    "client/consumer/fetch/*.py",
    "client/consumer/iteration.py",
    "client/consumer/positions/*.py",
    "client/metrics.py",
    "client/network/*.py",
    "client/producer/accumulator/*.py",
    "client/producer/sender/*.py",
    "client/producer/slow_path_appender.py",
    "client/producer/sticky_partitioner.py",
    "client/producer/transactions/*.py",
    "cluster/*.py",
    "coordinators/*.py",
    "coordinators/*/*.py",
    "coordinators/*/*/*.py",
    "log/leader_epoch_cache.py",
    "log/local_log.py",
    "log/log.py",
    "log/log_state.py",
    "log/producers/*.py",
    "log/segments/*.py",
    "net/*.py",
    "ports/files.py",
    "records/append_rules.py",
    "records/batch.py",
    "records/batch_producer.py",
    "records/layout.py",
    "records/validation.py",
    "replication/*.py",
    "replication/*/*.py",
    "system/clock.py",
    "system/files.py",
    "system/socket_connection.py",
    "timers/purgatory.py",
    "timers/threshold_purgatory.py",
    "timers/timing_wheel.py",
    "wire/client_connection.py",
    "wire/frames.py",
    "wire/headers.py",
    "wire/primitives.py",
    "wire/server_connection.py",
)
"""Sources that mypyc compiles, together: each may call the others without the interpreter."""

INTERPRETED = (
    "broker/coordinators/transaction_marker_writer.py",
    "broker/handlers/alter_configs.py",
    "client/network/network_client.py",
    "client/producer/engine.py",
    "cluster/metadata_version.py",
    "log/segments/page_in.py",
    "replication/isr/alter_partition_manager.py",
    "replication/log_dirs/alter_log_dirs.py",
)
"""Others there: tests replace their classes, or their coroutines wait while they handle an exception."""

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


def loader_extensions() -> list[Extension]:
    loader = load_compiled_modules().LOADER
    source = f"{PACKAGE}/{loader}.pyx"
    return compile_cython([Extension(f"odradek._compiled.{loader}", [source], depends=[source])])


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
    variables = {**os.environ, "PYTHONPATH": "src", "ODRADEK_PURE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
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
    built.name = f"odradek._compiled.{name.rpartition('.')[2]}"
    return [built]


def hot_messages_sources() -> list[str]:
    """Return the sources that decide what the codecs of hot messages do, without their generator."""
    roots = [load_compiled_modules().HOT_MESSAGES_GENERATOR, "wire/message_codecs.py"]
    return [HOT_CODEC, "wire/message_codecs.py", *inlined_sources(roots)]


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def compiled_sources() -> list[str]:
    found = {os.path.relpath(path, PACKAGE) for pattern in COMPILED for path in glob(f"{PACKAGE}/{pattern}")}
    return sorted(path for path in found.difference(INTERPRETED) if not path.endswith("__init__.py"))


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
    # mypyc names the library first, then a file for each module, which the loader makes superfluous.
    library = extensions[0]
    assert library.name == rules.LIBRARY
    library.name, library.optional = f"odradek._compiled.{library.name}", True
    return [library]


class BuildExtensions(build_ext):
    """Compiles on all cores, and notes the sources of the compiled modules once all of them are built."""

    def run(self) -> None:
        rules = load_compiled_modules()
        places = [os.path.join(self.build_lib, "odradek", "_compiled")]
        if self.inplace:
            places.append(f"{PACKAGE}/_compiled")
        for place in places:
            shutil.rmtree(place, ignore_errors=True)  # what cannot be built now must not be an old one
            os.makedirs(place)
        super().run()
        compiled = compiled_sources()
        modules, generators, inlined = [rules.LIBRARY, rules.LOADER], [], {*inlined_sources(compiled)}
        if any(HOT_MESSAGES_SOURCE in extension.depends for extension in self.extensions):
            modules.append(rules.HOT_MESSAGES)
            generators.append(rules.HOT_MESSAGES_GENERATOR)
            inlined.update(hot_messages_sources())
        content = rules.describe_sources(compiled, sorted(inlined.difference(compiled)), generators)
        for place in places:
            if all(os.path.exists(rules.file_of(module, place)) for module in modules):
                with open(os.path.join(place, rules.SOURCES), "w", encoding="utf-8") as file:
                    file.write(content)

    def build_extensions(self) -> None:
        compile_one = self.compiler.compile

        def compile_all(sources: list[str], *arguments: Any, **options: Any) -> list[str]:
            with ThreadPool(os.cpu_count()) as pool:
                objects = pool.map(lambda source: compile_one([source], *arguments, **options), sources)
            return [name for names in objects for name in names]

        self.compiler.compile = compile_all
        super().build_extensions()


setup(
    ext_modules=[]
    if PURE
    else [*loader_extensions(), *codec_extensions(), *hot_messages_extensions(), *module_extensions()],
    cmdclass={"build_ext": BuildExtensions},
)
