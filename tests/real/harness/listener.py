"""A handler of `rmqctl consume run` that notes what it is given, a JSON line each time; its environment says the rest.

HEARD is the file. Bodies that start with FAIL fail while they were sent back less than FAIL_BELOW times. Bodies that
start with SLOW take SLOW_S seconds and then fail, or where that is 0, until the file HEARD.released exists; others take
EACH_S. Those that start with RAISE raise, those with NOTHING return None. With ORDERLY, its answers are those of an
orderly listener.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_OUT = os.open(os.environ["HEARD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_RELEASED = Path(os.environ["HEARD"] + ".released")
_FAIL, _SLOW = os.environ.get("FAIL"), os.environ.get("SLOW")
_RAISE, _NOTHING = os.environ.get("RAISE"), os.environ.get("NOTHING")
_FAIL_BELOW = int(os.environ.get("FAIL_BELOW", "1"))
_GOOD, _BAD = (
    ("SUCCESS", "SUSPEND_CURRENT_QUEUE_A_MOMENT")
    if os.environ.get("ORDERLY")
    else ("CONSUME_SUCCESS", "RECONSUME_LATER")
)
_SLOW_S, _EACH_S = float(os.environ.get("SLOW_S", "0")), float(os.environ.get("EACH_S", "0"))


def consume(messages: Sequence[Any], context: Any) -> str | None:
    """Note the beginning and the end of each batch."""
    _note("BEGAN", messages, context)
    bodies = [message.body.decode() for message in messages]
    if _SLOW is not None and any(body.startswith(_SLOW) for body in bodies):
        while not _SLOW_S and not _RELEASED.exists():
            threading.Event().wait(0.2)
        time.sleep(_SLOW_S)
        _note("FAILED", messages, context)
        return _BAD
    if _EACH_S:
        # Not time.sleep(): by a clock of libfaketime it raises.
        threading.Event().wait(_EACH_S * len(messages))
    failing = _FAIL is not None and any(body.startswith(_FAIL) for body in bodies)
    if failing and messages[0].reconsume_times < _FAIL_BELOW:
        _note("FAILED", messages, context)
        return _BAD
    for prefix in filter(None, (_RAISE, _NOTHING)):
        if any(body.startswith(prefix) for body in bodies):
            _note("FAILED", messages, context)
            if prefix == _RAISE:
                raise ValueError(f"raised at {bodies[0]}")
            return None
    _note("DONE", messages, context)
    return _GOOD


def _note(event: str, messages: Sequence[Any], context: Any) -> None:
    lines = [
        {
            "event": event,
            "at_ms": time.time_ns() // 1_000_000,
            "clock_s": time.monotonic(),
            "body": message.body.decode(),
            "topic": message.topic,
            "message_id": message.message_id,
            "keys": message.properties.get("KEYS"),
            "reconsume_times": message.reconsume_times,
            "queue": f"{context.mq.broker_name}:{context.mq.queue_id}",
            "from_topic": context.mq.topic,
            "offset": message.queue_offset,
        }
        for message in messages
    ]
    # One write: other threads append as well.
    os.write(_OUT, "".join(f"{json.dumps(line)}\n" for line in lines).encode())
