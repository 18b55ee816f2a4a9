"""Which threads of a client are in its listener, by its stack dump (UtilAll.jstack, and rmqctl's own consumer)."""

from __future__ import annotations

import re

from msgspec import Struct

_HEADER = re.compile(r"(?P<name>.*?)\s*(?:TID: \d+ STATE|TASK STATE): (?P<state>\S+)")
# The call that calls the listener: the innermost call that is not the application's.
_CALLERS = re.compile(
    r"ConsumeMessage\w*Service\$ConsumeRequest\.run\(|rmqctl\.consumer\.workers\.(?:Thread|Task)Workers\._run\("
)
# The characters of a group's name in the names of its threads (ConsumeMessageConcurrentlyService).
_NAME_LENGTH = 100
_CLIENT = re.compile(r"(?:.*/)?(?:org\.apache\.rocketmq\.client\.impl|rmqctl\.consumer)\.")


class ListenerThread(Struct, frozen=True):
    """A thread or task in a listener: `frames` are the application's calls, the innermost first."""

    name: str
    state: str
    frames: tuple[str, ...]


def listener_threads(dump: str, group: str) -> list[ListenerThread] | None:
    """Return the threads that are in a group's listener, None where the format of the dump does not show it.

    A thread that waits for work or a lock, or sends a message back, is not in the listener. A dump covers the whole
    process, which can be a member of several groups: thread names contain the group (ConsumeMessageThread_G_1). Threads
    of clients that leave the group out, including rmqctl's own, count for any group.
    """
    threads = []
    is_known = False
    named = re.compile(rf"ConsumeMessage\w*?Thread_(?:{re.escape(group[:_NAME_LENGTH])}_+)?\d+")
    for paragraph in re.split(r"\n[ \t\r]*\n", dump):
        lines = paragraph.strip("\n").splitlines()
        header = _HEADER.fullmatch(lines[0].rstrip()) if lines else None
        if header is None:
            continue
        is_known = True
        name = header["name"]
        if name.startswith("ConsumeMessage") and not named.fullmatch(name):
            continue
        frames = [line.removeprefix(name).strip() for line in lines[1:]]
        at = next((at for at, frame in enumerate(frames) if _CALLERS.search(frame)), None)
        if at and not _CLIENT.match(frames[at - 1]):
            threads.append(ListenerThread(name, header["state"], tuple(frames[:at])))
    return threads if is_known else None
