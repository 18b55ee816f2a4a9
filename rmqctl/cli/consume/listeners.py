"""The listeners of `consume run`: a user's function, a command for each batch, or the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rmqctl.admin.messages.pull import FoundMessage
from rmqctl.cli.output.message_item import message_item
from rmqctl.consumer.reports.failures import ListenerError
from rmqctl.consumer.workers import find_fault
from rmqctl.errors import UsageError
from rmqctl.model.consumption import ConsumeOrderlyStatus, ConsumeStatus

if TYPE_CHECKING:
    from rmqctl.cli.output.body import BodyStyle
    from rmqctl.cli.output.row_stream import RowStream
    from rmqctl.consumer.batch import AnyListener, Batch
    from rmqctl.protocol.message import StoredMessage


_Status = ConsumeStatus | ConsumeOrderlyStatus
_FORM = 'Use a function like def consume(messages, context): ... return "CONSUME_SUCCESS".'


def load_function(named: str) -> AnyListener:
    """Return the function that MODULE:FUNCTION or FILE.py:FUNCTION names. Raises UsageError if it is not usable."""
    place, separator, name = named.rpartition(":")
    if not separator or not place or not name.isidentifier():
        raise UsageError(
            f"Invalid --handler {named!r}.",
            hint="Use MODULE:FUNCTION or FILE.py:FUNCTION, for example consume.py:consume.",
        )
    try:
        module = _load_file(place) if place.endswith(".py") else _load_module(place)
    except UsageError:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise UsageError(f"Cannot load {place}: {type(error).__name__}: {error}") from None
    function: Any = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"{place} has no function {name}.")
    fault = find_fault(function)
    if fault is not None:
        raise UsageError(f"--handler: {name} {fault}.", hint=_FORM)
    return function  # type: ignore[no-any-return]


def _load_module(name: str) -> ModuleType:
    # As python -m does: modules of the current folder.
    folder = str(Path.cwd())
    if "" not in sys.path and folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(name)


def _load_file(path: str) -> ModuleType:
    if not Path(path).is_file():
        raise UsageError(f"File {path} does not exist.")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def print_to(
    stream: RowStream, style: BodyStyle, on_failed: Callable[[BaseException], None], *, is_orderly: bool
) -> AnyListener:
    """Return a listener that shows each message, and leaves messages that it cannot show unacknowledged.

    `on_failed` receives the reason: the output is closed, the disk is full, or the key of a filter is unknown.
    """
    success, _ = _statuses(is_orderly=is_orderly)

    def show(messages: Sequence[StoredMessage], batch: Batch) -> _Status:
        try:
            stream.write([message_item(_found(message, batch), style) for message in messages])
        except (OSError, UsageError) as error:
            # The messages are not at fault: if sent back, all pulled messages would move towards the dead letters.
            batch.is_left_alone = True
            on_failed(error)
        return success

    return show  # type: ignore[return-value]


def _statuses(*, is_orderly: bool) -> tuple[_Status, _Status]:
    """Return the status of success, and the one that asks for a retry."""
    if is_orderly:
        return ConsumeOrderlyStatus.SUCCESS, ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
    return ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER


def run_command(command: str, style: BodyStyle, *, timeout_s: float, is_orderly: bool) -> AnyListener:
    """Return a listener that runs a command for each batch, without a shell. Raises UsageError for a missing command.

    It reads the body of the message on stdin, or one JSON line per message of a larger batch. Exit code 0 is success;
    75 (EX_TEMPFAIL) asks for a retry later; others are failures, which are retried too.

    A command that runs longer than timeout_s is killed with all its processes, and has failed.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"Invalid --exec {command!r}: {error}.") from None
    _require_command(words[0] if words else "")

    success, later = _statuses(is_orderly=is_orderly)

    async def run(messages: Sequence[StoredMessage], batch: Batch) -> _Status:
        variables = {**os.environ, **_variables(messages[0], len(messages), batch)}
        try:
            process = await _start(words, variables)
        except OSError as error:
            raise ListenerError(f"{words[0]} cannot be started: {error.strerror or error}") from None
        try:
            async with asyncio.timeout(timeout_s):
                await process.communicate(_input(messages, batch, style))
        except TimeoutError:
            raise ListenerError(f"{words[0]} was ended after --consume-timeout") from None
        finally:
            await _end(process)
        if process.returncode == os.EX_TEMPFAIL:
            return later
        if process.returncode != 0:
            raise ListenerError(f"{words[0]} {_end_words(process.returncode)}")
        return success

    return run  # type: ignore[return-value]


async def _start(words: Sequence[str], variables: Mapping[str, str]) -> asyncio.subprocess.Process:
    """Start a command in its own process group: a Ctrl-C at the terminal is for rmqctl, which waits for commands."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.PIPE, env=variables, process_group=0)
    )
    try:
        # Cancelled here, asyncio would kill the command, but nothing that it has already started.
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _until(starting.done, lambda: asyncio.wait({starting}))
        if not starting.cancelled() and starting.exception() is None:
            await _end(starting.result())
        raise


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill a command that still runs, with all its processes. A killed process ends immediately."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):  # it has ended just now
            os.killpg(process.pid, signal.SIGKILL)
    await _until(lambda: process.returncode is not None, process.wait)


async def _until(is_over: Callable[[], bool], wait: Callable[[], Awaitable[object]]) -> None:
    """Wait for what is soon over, however often this is cancelled meanwhile."""
    while not is_over():
        with contextlib.suppress(asyncio.CancelledError):
            await wait()


def _require_command(name: str) -> None:
    """Raise UsageError with the reason why the command cannot be run."""
    if name and shutil.which(name) is not None:
        return
    path = Path(name)
    if "/" not in name or not path.exists():
        raise UsageError(f"--exec: Command {name!r} does not exist.", hint="Give its path.")
    if path.is_dir():
        raise UsageError(f"--exec: {name} is a folder.", hint="Give the path of a program in it.")
    raise UsageError(f"--exec: {name} is not executable.", hint=f"Run: chmod +x {shlex.quote(name)}")


def _end_words(code: int | None) -> str:
    """Return how a process ended; a negative code is a signal."""
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _found(message: StoredMessage, batch: Batch) -> FoundMessage:
    return FoundMessage(batch.mq._replace(topic=message.topic), message.queue_offset, message)


def _input(messages: Sequence[StoredMessage], batch: Batch, style: BodyStyle) -> bytes:
    if len(messages) == 1:
        return messages[0].body
    lines = [json.dumps(message_item(_found(message, batch), style), ensure_ascii=False) for message in messages]
    return "\n".join(lines).encode() + b"\n"


def _variables(message: StoredMessage, count: int, batch: Batch) -> dict[str, str]:
    """Return the environment variables that describe the (first) message."""
    properties = message.properties
    values = {
        "RMQ_TOPIC": message.topic,
        "RMQ_BROKER": batch.mq.broker_name,
        "RMQ_QUEUE_ID": str(message.queue_id),
        "RMQ_QUEUE_OFFSET": str(message.queue_offset),
        "RMQ_MESSAGE_ID": message.message_id,
        "RMQ_TAGS": properties.get("TAGS", ""),
        "RMQ_KEYS": properties.get("KEYS", ""),
        "RMQ_RECONSUME_TIMES": str(message.reconsume_times),
        "RMQ_COUNT": str(count),
    }
    # A variable cannot contain a NUL.
    return {name: value.replace("\0", "\ufffd") for name, value in values.items()}
