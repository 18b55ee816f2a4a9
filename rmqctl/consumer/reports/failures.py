"""The words for a batch that failed: which messages, why, where in the listener, and what happens to them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePath
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from rmqctl.errors import RmqctlError
from rmqctl.model.consumption import ConsumeResult
from rmqctl.model.names import DLQ_PREFIX
from rmqctl.protocol.properties import KEYS
from rmqctl.text.words import counted, listed

if TYPE_CHECKING:
    from rmqctl.consumer.batch import Batch
    from rmqctl.consumer.process_queue import UnackedMessages
    from rmqctl.model.queue import MessageQueue
    from rmqctl.protocol.message import StoredMessage

# The text of a listener's error can contain a whole message.
_MOST_CHARACTERS = 500
_MOST_KEY_CHARACTERS = 100


class ListenerError(Exception):
    """A failure that its text explains: reports show no class and no place of it. Listeners may raise it."""


def describe_error(error: BaseException) -> str:
    """Return an error's class and text, shortened if long. The __str__ of a listener's error may fail."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001
        text = "(text not available)"
    text = _shortened(text, _MOST_CHARACTERS)
    name = type(error).__name__
    return text if isinstance(error, ListenerError) else f"{name}: {text}" if text else name


def find_place(error: BaseException) -> tuple[str, int] | None:
    """Return the file and line of user code where an error was raised, the innermost in the file that rmqctl called.

    Calls from there into libraries are left out. None if rmqctl raised it.
    """
    calls = [(frame, line) for frame, line in walk_tb(error.__traceback__) if not _is_own(frame)]
    if not calls:
        return None
    file = calls[0][0].f_code.co_filename
    line = [line for frame, line in calls if frame.f_code.co_filename == file][-1]
    return file, line


def listener_traceback(error: BaseException) -> TracebackType | None:
    """Return the traceback of an error without rmqctl's calls before the listener's; whole if rmqctl raised it."""
    traceback = error.__traceback__
    while traceback is not None and _is_own(traceback.tb_frame):
        traceback = traceback.tb_next
    return traceback or error.__traceback__


def cause_of(batch: Batch) -> str:
    """Return what failures with the same cause have in common."""
    return str(batch.status) if batch.error is None else cause_of_error(batch.error)


def cause_of_error(error: BaseException) -> str:
    """See cause_of()."""
    return f"{type(error).__name__} {find_place(error)}"


def describe_failure(
    batch: Batch, failed: Sequence[StoredMessage], result: ConsumeResult, *, dead_count: int, group: str
) -> str:
    """Return sentences about the failed messages of a batch; `dead_count` of them will become dead letters."""
    whither = [_dead_words(dead_count, group)] if dead_count else []
    if len(failed) > dead_count:
        count = len(failed) - dead_count
        whither.append(f"{counted(count, 'message')} {'goes' if count == 1 else 'go'} back to the broker")
    return f"{describe_cause(batch, failed, result)} {' and '.join(whither)}."


def describe_suspension(batch: Batch, result: ConsumeResult, *, dead_count: int, pause_s: float, group: str) -> str:
    """Return sentences about a batch of an orderly consumer that failed, and about what its queue waits for."""
    cause, left_count = describe_cause(batch, batch.messages, result), len(batch.messages) - dead_count
    them = "it" if left_count == 1 else "them"
    dead = _dead_words(dead_count, group)
    if not left_count:
        return f"{cause} {dead}."
    start = f"{dead}; the" if dead else "The"
    return f"{cause} {start} queue waits for {pause_s:g} s, then the listener gets {them} again."


def _dead_words(count: int, group: str) -> str:
    become = "becomes a dead letter" if count == 1 else "become dead letters"
    return f"{counted(count, 'message')} {become} ({DLQ_PREFIX}{group})" if count else ""


def describe_cause(batch: Batch, failed: Sequence[StoredMessage], result: ConsumeResult) -> str:
    """Return a sentence that names failed messages of a batch, and why they failed."""
    done_count = len(batch.messages) - len(failed)
    done = f"; {done_count} of {counted(len(batch.messages), 'message', 'is')} done" if done_count else ""
    return f"{describe_messages(batch.mq, failed)}: {_why(batch, result)} ({result}){done}."


def describe_messages(mq: MessageQueue, messages: Sequence[StoredMessage]) -> str:
    """Return where the first of some messages of a queue is, its id and keys, and the number of the others."""
    first = messages[0]
    facts = [f"id {id_of(first)}"]
    with suppress(RmqctlError):
        keys = _shortened(first.properties.get(KEYS, ""), _MOST_KEY_CHARACTERS)
        facts += [f"keys {keys}"] if keys else []
    if first.reconsume_times:
        facts.append(f"retry {first.reconsume_times}")
    more = f" and {len(messages) - 1} more" if len(messages) > 1 else ""
    return f"{mq}:{first.queue_offset} ({', '.join(facts)}){more}"


def id_of(message: StoredMessage) -> str:
    """Return a message's id; the broker's if its record is damaged."""
    try:
        return message.message_id
    except RmqctlError:
        return message.offset_id


def _why(batch: Batch, result: ConsumeResult) -> str:
    error = batch.error
    if isinstance(error, ListenerError):
        return describe_error(error)
    if error is not None:
        place = find_place(error)
        at = "" if place is None else f" at {PurePath(place[0]).name}:{place[1]}"
        return f"the listener raised {describe_error(error)}{at}"
    if result is ConsumeResult.SUCCESS:
        return f"the listener set ack_index to {batch.ack_index}"
    if batch.status is None:
        return "the listener returned None, not a status"
    after = f" after {batch.finished_s - batch.started_s:.1f} s" if result is ConsumeResult.TIME_OUT else ""
    return f"the listener returned {batch.status}{after}"


def describe_unacked(left: Sequence[UnackedMessages]) -> str:
    """Return a sentence about what a consumer leaves to others at its end; it names every queue."""
    where = listed([f"{each.mq} from offset {each.first_offset}" for each in left], len(left))
    count = sum(each.count for each in left)
    return f"{counted(count, 'message')} not acknowledged, will be redelivered: {where}."


def _is_own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("rmqctl.")


def _shortened(text: str, most: int) -> str:
    return f"{text[:most]}..." if len(text) > most else text
