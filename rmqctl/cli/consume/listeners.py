"""What consumes for `consume run`: a function of the user's, a command for each batch, or the terminal."""

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
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rmqctl.admin.messages import FoundMessage
from rmqctl.cli.output.message_item import message_item
from rmqctl.consumer.workers import find_fault
from rmqctl.errors import UsageError
from rmqctl.model.consuming import ConsumeStatus

if TYPE_CHECKING:
    from rmqctl.cli.output.body import BodyStyle
    from rmqctl.cli.output.streaming import Stream
    from rmqctl.consumer.batch import Batch, Listener
    from rmqctl.protocol.message import StoredMessage


_FORM = 'Such as def consume(messages, context): ... return "CONSUME_SUCCESS".'


def load_function(named: str) -> Listener:
    """Return the function that MODULE:FUNCTION or FILE.py:FUNCTION names. Raises UsageError for what is none."""
    place, separator, name = named.rpartition(":")
    if not separator or not place or not name.isidentifier():
        raise UsageError(
            f"--handler {named!r} names no function.", hint="Such as my_module:consume or consume.py:consume."
        )
    try:
        module = _load_file(place) if place.endswith(".py") else _load_module(place)
    except UsageError:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise UsageError(f"{place} can't be loaded: {type(error).__name__}: {error}") from None
    function: Any = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"{place} has no function {name}.")
    fault = find_fault(function)
    if fault is not None:
        raise UsageError(f"--handler: {name} {fault}.", hint=_FORM)
    return function  # type: ignore[no-any-return]


def _load_module(name: str) -> ModuleType:
    # As python -m does: modules of the folder in which one works.
    folder = str(Path.cwd())
    if "" not in sys.path and folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(name)


def _load_file(path: str) -> ModuleType:
    if not Path(path).is_file():
        raise UsageError(f"There is no file {path}.")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def print_to(stream: Stream, style: BodyStyle, on_failed: Callable[[BaseException], None]) -> Listener:
    """Return a listener that shows each message, and leaves alone what it can't show.

    `on_failed` is told why: nobody reads the output any more, the disk is full, there is no such key to filter by.
    """

    def show(messages: Sequence[StoredMessage], batch: Batch) -> ConsumeStatus:
        try:
            stream.write([message_item(_found(message, batch), style) for message in messages])
        except (OSError, UsageError) as error:
            # The messages are not at fault: sent back, all that was pulled would be on its way to the dead letters.
            batch.is_left_alone = True
            on_failed(error)
        return ConsumeStatus.CONSUME_SUCCESS

    return show


def run_command(command: str, style: BodyStyle, *, timeout_s: float) -> Listener:
    """Return a listener that runs a command for each batch, without a shell. Raises UsageError for no such command.

    It reads the body of the message on stdin; of a batch of several a JSON line each. Exit code 0 is success. What runs
    for longer than timeout_s is killed, with all that it started: its messages have been sent back by then.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--exec {command!r} can't be read: {error}.") from None
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"--exec: there is no command {words[0] if words else ''!r}.", hint="Give its path.")

    async def run(messages: Sequence[StoredMessage], batch: Batch) -> ConsumeStatus:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.PIPE, env={**os.environ, **_variables(messages[0], len(messages), batch)},
            # A group of its own: a Ctrl-C at the terminal is for rmqctl, which lets commands end what they began.
            process_group=0,
        )  # fmt: skip
        try:
            async with asyncio.timeout(timeout_s):
                await process.communicate(_input(messages, batch, style))
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
            while process.returncode is None:
                # A killed process ends at once, and is waited for however often this is cancelled meanwhile.
                with contextlib.suppress(asyncio.CancelledError):
                    await process.wait()
        if process.returncode != 0:
            raise RuntimeError(f"{words[0]} ended with exit code {process.returncode}")
        return ConsumeStatus.CONSUME_SUCCESS

    return run


def _found(message: StoredMessage, batch: Batch) -> FoundMessage:
    return FoundMessage(batch.mq._replace(topic=message.topic), message.queue_offset, message)


def _input(messages: Sequence[StoredMessage], batch: Batch, style: BodyStyle) -> bytes:
    if len(messages) == 1:
        return messages[0].body
    lines = [json.dumps(message_item(_found(message, batch), style), ensure_ascii=False) for message in messages]
    return "\n".join(lines).encode() + b"\n"


def _variables(message: StoredMessage, count: int, batch: Batch) -> dict[str, str]:
    """Return what a command can know of its (first) message."""
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
    # A variable can't hold a NUL.
    return {name: value.replace("\0", "\ufffd") for name, value in values.items()}
