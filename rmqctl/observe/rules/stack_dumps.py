"""Which threads of a client are in its listener, by its stack dump (UtilAll.jstack, and rmqctl's own consumer)."""

from __future__ import annotations

import re
from collections import Counter

from msgspec import Struct
from msgspec.structs import replace

_HEADER = re.compile(r"(?P<name>.*?)\s*(?:TID: \d+ STATE|TASK STATE): (?P<state>\S+)")
# The call that calls the listener: the innermost call that is not the application's. Popped messages have services and
# threads of their own (ConsumeMessagePopConcurrentlyService), which never have a message that was pulled.
_CALLERS = re.compile(
    r"ConsumeMessage(?!Pop)\w*Service\$ConsumeRequest\.run\(|rmqctl\.consumer\.workers\.(?:Thread|Task)Workers\._run\("
)
# The characters of a group's name in the names of its threads (ConsumeMessageConcurrentlyService).
_NAME_LENGTH = 100
_NAMED = re.compile(r"ConsumeMessageThread_(?P<group>.+)_\d+")
_CLIENT = re.compile(r"(?:.*/)?(?:org\.apache\.rocketmq\.client\.impl|rmqctl\.consumer)\.")


class ListenerThread(Struct, frozen=True):
    """A thread or task in a listener: `frames` are the application's calls, the innermost first.

    `is_own`: it is certain that the listener is the one of the client that was asked.
    """

    name: str
    state: str
    frames: tuple[str, ...]
    is_own: bool = True


def listener_threads(dump: str, group: str) -> list[ListenerThread] | None:
    """Return the threads that may be in a group's listener with pulled messages; None for a dump in another format.

    A thread that waits for work or a lock, or sends a message back, is not in the listener. A dump covers the whole
    process, which can be a member of several groups: thread names contain the group (ConsumeMessageThread_G_1), and
    threads of other groups are left out. It is uncertain whose a thread is if its name lacks the group (old clients, a
    listener that renames its thread), if the name has only the start of a long group, or if two consumers of the group
    run in the process.
    """
    threads, names = list[ListenerThread](), Counter[str]()
    is_known = False
    for paragraph in re.split(r"\n[ \t\r]*\n", dump):
        lines = paragraph.strip("\n").splitlines()
        header = _HEADER.fullmatch(lines[0].rstrip()) if lines else None
        if header is None:
            continue
        is_known = True
        name = header["name"]
        named = _NAMED.fullmatch(name)
        if named is not None and named["group"] != group[:_NAME_LENGTH]:
            continue
        names[name] += named is not None
        frames = [line.removeprefix(name).strip() for line in lines[1:]]
        at = next((at for at, frame in enumerate(frames) if _CALLERS.search(frame)), None)
        if at and not _CLIENT.match(frames[at - 1]):
            is_own = named is not None and len(group) < _NAME_LENGTH
            threads.append(ListenerThread(name, header["state"], tuple(frames[:at]), is_own))
    if any(count > 1 for count in names.values()):
        # Each consumer numbers its threads from 1 on.
        threads = [replace(each, is_own=False) for each in threads]
    return threads if is_known else None
