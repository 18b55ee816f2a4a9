"""What the library offers: the names and signatures that programs rely on, and that the manual has them all."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from enum import Enum
from pathlib import Path

import pytest

import tests.bench
import tests.soak

_MODULES = ("rmqctl.consumer", "rmqctl.producer", "rmqctl.client")
_LISTED = Path(__file__).parent / "golden" / "public_api.txt"
_PAGE = Path(__file__).parent.parent / "docs" / "api.md"


def _listing() -> str:
    """Return a line for each public name, and for each of its members that the manual shows."""
    lines = []
    for module_name in _MODULES:
        module = importlib.import_module(module_name)
        for name in sorted(module.__all__):
            thing = getattr(module, name)
            lines.append(f"{module_name}.{name}{_signature(thing)}")
            if inspect.isclass(thing) and name != "Client":
                members = {
                    key: each
                    for base in reversed(thing.__mro__[:-1])
                    for key, each in vars(base).items()
                    if base.__module__.startswith("rmqctl") and not key.startswith("_")
                }
                lines += [f"{module_name}.{name}.{key}{_signature(each)}" for key, each in sorted(members.items())]
    return "\n".join(lines) + "\n"


def _signature(thing: object) -> str:
    if isinstance(thing, (classmethod, staticmethod)):
        thing = thing.__func__
    is_own_class = inspect.isclass(thing) and not issubclass(thing, (Enum, Exception, dict))
    if not (inspect.isroutine(thing) or is_own_class):
        return ""
    signature = inspect.signature(thing)
    # How types are printed depends on Python's version.
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    text = str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    return re.sub(" at 0x[0-9a-f]+", "", text)


def test_the_public_api_is_what_is_listed() -> None:
    # To accept a change: python -m tests.test_public_api
    assert _listing() == _LISTED.read_text()


def test_the_manual_has_every_public_name() -> None:
    shown = re.findall(r"^::: (\S+)$", _PAGE.read_text(), flags=re.MULTILINE)
    public = {f"{module}.{name}" for module in _MODULES for name in importlib.import_module(module).__all__}
    # A name that two modules offer is explained once.
    wanted = public - {"rmqctl.producer.MessageQueue"}
    assert {name for name in shown if not name.startswith("rmqctl.errors.")} == wanted
    assert len(shown) == len(set(shown))
    for name in shown:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def test_the_library_imports_nothing_of_a_terminal() -> None:
    code = f"import sys, {', '.join(_MODULES)}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"typer", "click", "rich", "textual", "tabulate", "jinja2", "httpx"}.intersection(loaded)


@pytest.mark.parametrize("package", [tests.bench, tests.soak], ids=["bench", "soak"])
def test_what_runs_outside_the_gate_can_be_imported(package: object) -> None:
    path, name = package.__path__, package.__name__  # type: ignore[attr-defined]
    for module in pkgutil.iter_modules(path):
        if module.name != "__main__":
            importlib.import_module(f"{name}.{module.name}")


if __name__ == "__main__":
    _LISTED.write_text(_listing())
