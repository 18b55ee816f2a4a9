"""Runs a script against a real broker and a sandbox, and compares what they answered."""

from __future__ import annotations

import importlib
import json
import pkgutil
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from . import __name__ as package_name
from . import __path__ as package_path
from .asker import Asker, Exchange
from .normalise import Normaliser, is_same_text
from .tolerated import find_tolerance

Script = Callable[[Asker], None]

_QUIET_S = 0.15
_ABSENT = "<absent>"
# How many characters of a whole answer a failure shows.
_SHOWN = 1500


@dataclass(frozen=True)
class Target:
    """One server to ask: its addresses as host:port, and the release that it is or plays."""

    namesrv: str
    broker: str
    version: str


@dataclass(frozen=True)
class Difference:
    """Where two answers differ: `path` leads into the answer, such as extFields.offset."""

    code: int
    path: str
    real: Any
    sandbox: Any


@dataclass(frozen=True)
class _Run:
    exchanges: list[Exchange]
    answers: list[Any]
    pushes: dict[str, list[Any]]
    failure: Exception | None


def find_scripts() -> Iterator[tuple[str, Script]]:
    """Yield every script_* function of this package with its name, such as sending.batch."""
    for module_info in pkgutil.iter_modules(package_path):
        module = importlib.import_module(f"{package_name}.{module_info.name}")
        for name, function in vars(module).items():
            if name.startswith("script_") and function.__module__ == module.__name__:
                yield f"{module_info.name}.{name.removeprefix('script_')}", function


def is_slow(script: Script) -> bool:
    """Tell whether a script spends its time in waiting, so that it may run beside others that do."""
    return getattr(script, "waits", False)


def compare(script: Script, real: Target, sandbox: Target) -> str:
    """Run a script against both; return what differs and is not tolerated, as text for people, empty for nothing."""
    # The same names at both, so that answers sort alike.
    suffix = f"_{secrets.token_hex(4)}"
    with ThreadPoolExecutor(2) as threads:
        runs = [threads.submit(_run, script, target, suffix) for target in (real, sandbox)]
        one, other = (run.result() for run in runs)
    if one.failure is not None:
        raise one.failure
    found = []
    if other.failure is not None:
        found.append(f"the script went wrong with the sandbox only: {other.failure!r}")
    elif len(one.answers) != len(other.answers):
        found.append(f"{len(one.answers)} requests to the real broker, {len(other.answers)} to the sandbox")
    for number, (expected, got) in enumerate(zip(one.answers, other.answers, strict=False), 1):
        exchange = one.exchanges[number - 1]
        different = _not_tolerated(real.version, _differences(exchange.code, "", expected, got))
        if different:
            found.append(_report(number, exchange, different, expected, got))
    if other.failure is None:
        pushed = _not_tolerated(real.version, _differences(0, "pushes", one.pushes, other.pushes))
        found += [f"{each.path}:\n    real:    {each.real!r}\n    sandbox: {each.sandbox!r}" for each in pushed]
    return "\n\n".join(found)


def _run(script: Script, target: Target, suffix: str) -> _Run:
    asker = Asker(target.namesrv, target.broker, version=target.version, suffix=suffix)
    failure = None
    try:
        script(asker)
    except Exception as error:  # noqa: BLE001 - what was answered before it is worth showing
        failure = error
    pushed = asker.pushes(_QUIET_S) if failure is None else {}
    asker.close()
    normaliser = Normaliser(target.namesrv, target.broker, suffix, asker.started_ms)
    answers = [normaliser.answer(exchange.code, exchange.answer) for exchange in asker.exchanges]
    pushes = {client: [normaliser.push(command) for command in commands] for client, commands in pushed.items()}
    return _Run(asker.exchanges, answers, pushes, failure)


def _not_tolerated(version: str, differences: Iterator[Difference]) -> list[Difference]:
    return [
        each for each in differences
        if find_tolerance(version, each.code, each.path, each.real, each.sandbox) is None
    ]  # fmt: skip


def _differences(code: int, path: str, real: Any, sandbox: Any) -> Iterator[Difference]:
    if isinstance(real, dict) and isinstance(sandbox, dict):
        for name in sorted({*real, *sandbox}):
            where = f"{path}.{name}" if path else name
            yield from _differences(code, where, real.get(name, _ABSENT), sandbox.get(name, _ABSENT))
    elif isinstance(real, list) and isinstance(sandbox, list):
        for index in range(max(len(real), len(sandbox))):
            ours = [items[index] if index < len(items) else _ABSENT for items in (real, sandbox)]
            yield from _differences(code, f"{path}[{index}]", *ours)
    elif isinstance(real, str) and isinstance(sandbox, str):
        if not is_same_text(real, sandbox):
            yield Difference(code, path, real, sandbox)
    elif real != sandbox or type(real) is not type(sandbox):
        yield Difference(code, path, real, sandbox)


def _report(number: int, exchange: Exchange, different: list[Difference], real: Any, sandbox: Any) -> str:
    lines = [f"#{number} request {exchange.code} to the {exchange.server}: {json.dumps(dict(exchange.fields))}"]
    if exchange.data:
        lines.append(f"  its body: {exchange.data[:1000]!r}")
    for each in different:
        lines += [f"  {each.path}:", f"    real:    {each.real!r}", f"    sandbox: {each.sandbox!r}"]
    lines += [f"  all of the real answer: {str(real)[:_SHOWN]}", f"  all of the sandbox's:   {str(sandbox)[:_SHOWN]}"]
    return "\n".join(lines)
