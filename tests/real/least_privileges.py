"""The rights that each task needs: the table of docs/configuration.md, which real clusters are tried with.

`python -m tests.real.least_privileges` prints the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

# Names in the rights below. T and G stand for the topic and the group of a task.
_DLQ, _TOOLS, _PROXIES = "topic %DLQ%G", "group TOOLS_CONSUMER", "group CID_DefaultHeartBeatSyncerTopic"
_RETRY = "topic %RETRY%G"
_WAITING, _SELF_TEST = "topic SCHEDULE_TOPIC_XXXX", "topic SELF_TEST_TOPIC"
_T, _G, _NEW = "topic T", "group G", "topic new-T"
_GROUPS = "group *"
_DRAIN = ("broker", "drain", "broker-a")
_RESEND = ("message", "resend", "ID", "--topic", "T", "--group", "G")
_ANY: Mapping[str, str] = {}
_READ = {_T: "Get", _G: "Get"}
_CONSUME_4 = {_T: "SUB", _G: "SUB"}


class Task(NamedTuple):
    """Something to do, and the least rights for it, by resource: those of 4.9 (None: an admin account), and of 5.x.

    `scene` is what there is before: "members", "empty", "stuck", "letters" or "drained". ID in `words` is the id of a
    message. `is_needed` is false where a missing right leaves the exit code as it is: then it is named in a note.
    Without the rights to `shown`, a change is made all the same, and a part of its plan is missing.
    """

    what: str
    words: tuple[str, ...]
    scene: str
    plain: Mapping[str, str] | None
    rights: Mapping[str, str]
    exit_code: int = 0
    is_needed: bool = True
    shown: tuple[str, ...] = ()


TASKS = (
    Task("read the route and the queues of a topic", ("topic", "status", "T"), "members", _ANY, {_T: "Get"}),
    Task("list the producers of a topic", ("topic", "producers", "T"), "members", _ANY,
         {"cluster DefaultCluster": "Get", _PROXIES: "Get"}, is_needed=False),
    Task("read the offsets and members of a group", ("offset", "show", "G"), "members", _ANY, _READ),
    Task("export offsets", ("offset", "export", "G"), "members", _ANY, _READ),
    Task("describe a group", ("group", "describe", "G"), "members", _ANY, {**_READ, _DLQ: "Get"}),
    Task("check a group", ("check", "G", "--max-lag", "100"), "members", _ANY, _READ),
    Task("watch groups", ("watch", "G", "--rounds", "1"), "members", _ANY, _READ),
    Task("know that a group has no members", ("group", "members", "G"), "empty", _ANY,
         {_G: "Get", _PROXIES: "Get"}, is_needed=False),
    Task("find stuck messages", ("clean-expired", "G", "--older-than", "3s", "--for", "4s"), "stuck",
         {_T: "SUB", _TOOLS: "SUB"}, {_T: "Get,Sub", _G: "Get", _TOOLS: "Sub"}, exit_code=10, is_needed=False),
    Task("diagnose a group", ("diagnose", "G", "--settle", "0s"), "stuck", {_T: "SUB", _TOOLS: "SUB"},
         {_T: "Get,Sub", _G: "Get", _DLQ: "Get", _TOOLS: "Get,Sub", _SELF_TEST: "Get"}),
    Task("read messages", ("message", "find", "T"), "members", {_T: "SUB", _TOOLS: "SUB"},
         {_T: "Get,Sub", _TOOLS: "Sub"}),
    Task("find messages by key", ("message", "get", "--topic", "T", "--key", "key1"), "members", {_T: "SUB"},
         {_T: "Get"}),
    Task("see whether groups have passed a message",
         ("message", "get", "--topic", "T", "--key", "key1", "--consumed-by"), "members", {_T: "SUB"}, _READ),
    Task("send messages", ("message", "send", "T", "hello"), "members", {_T: "PUB"}, {_T: "Pub"}),
    Task("reset a group without members", ("offset", "reset", "G", "--topic", "T", "--to-earliest", "--yes"), "empty",
         {**_CONSUME_4, _TOOLS: "SUB"}, {_T: "Get,Sub", _G: "Get,Sub", _PROXIES: "Get", _TOOLS: "Sub"},
         shown=(_TOOLS,)),
    Task("reset a group with members", ("offset", "reset", "G", "--topic", "T", "--to-earliest", "--yes"), "members",
         {**_CONSUME_4, _TOOLS: "SUB"}, {_T: "Get,Sub,Update", _G: "Get,Update", _TOOLS: "Sub"}, shown=(_TOOLS,)),
    Task("clean stuck messages", ("clean-expired", "G", "--older-than", "3s", "--for", "4s", "--yes"), "stuck",
         {**_CONSUME_4, _TOOLS: "SUB", _WAITING: "SUB", _DLQ: "SUB"},
         {_T: "Get,Sub,Update", _G: "Get,Sub,Update", _TOOLS: "Sub", _WAITING: "Get", _RETRY: "Get",
          _DLQ: "Get"}),
    Task("list dead letters", ("dlq", "list", "G"), "letters", {_DLQ: "SUB", _TOOLS: "SUB"},
         {_DLQ: "Get,Sub", _TOOLS: "Sub"}),
    Task("replay dead letters to the group", ("dlq", "replay", "G", "--yes"), "letters",
         {_DLQ: "SUB", _TOOLS: "SUB", _G: "SUB"}, {_DLQ: "Get,Sub", _TOOLS: "Sub", _G: "Get,Sub"}),
    Task("replay dead letters to their topic", ("dlq", "replay", "G", "--to-origin", "--yes"), "letters",
         {_DLQ: "SUB", _TOOLS: "SUB", _T: "PUB"}, {_DLQ: "Get,Sub", _TOOLS: "Sub", _T: "Get,Pub"}),
    Task("consume", ("consume", "run", "G", "T", "--print", "--count", "1", "--yes"), "empty", _CONSUME_4,
         {_T: "Sub", _G: "Sub"}),
    Task("create a group", ("group", "create", "new-G", "--yes"), "members", None,
         {"group new-G": "Get"}),
    Task("delete a group", ("group", "delete", "G", "--yes"), "empty", None, {_G: "Get,Delete", _PROXIES: "Get"}),
    Task("have a group consume a message again", (*_RESEND, "--yes"), "members",
         {**_CONSUME_4, _TOOLS: "SUB", _WAITING: "SUB", _DLQ: "SUB"},
         {_T: "Get,Sub", _G: "Get,Sub", _TOOLS: "Sub", _WAITING: "Get", _RETRY: "Get", _DLQ: "Get"}),
    Task("have one member consume a message again", (*_RESEND, "--direct", "--yes"), "members",
         {_T: "SUB", _TOOLS: "SUB"}, {_T: "Get,Sub", _G: "Get,Sub", _TOOLS: "Sub"}),
    Task("create a topic", ("topic", "create", "new-T", "--queues", "8", "--yes"), "members", None,
         {_NEW: "Get,Create", _SELF_TEST: "Get"}),
    Task("delete a topic", ("topic", "delete", "T", "--yes"), "members", None, {_T: "Get,Delete", _G: "Get"}),
    Task("drain a broker by its setting", (*_DRAIN, "--by", "brokerPermission", "--yes"), "members", None,
         {_GROUPS: "Get"}, shown=(_GROUPS,)),
    Task("drain a broker by the routes", (*_DRAIN, "--by", "wipeWritePerm", "--yes"), "members", _ANY,
         {_GROUPS: "Get"}, shown=(_GROUPS,)),
    Task("restore a broker", ("broker", "restore", "broker-a", "--yes"), "drained", None, _ANY),
)  # fmt: skip


def _cell(rights: Mapping[str, str] | None) -> str:
    if rights is None:
        return "an admin account"
    if not rights:
        return "any account"
    by_actions: dict[str, list[str]] = {}
    for resource, actions in rights.items():
        by_actions.setdefault(actions, []).append(resource)
    return "; ".join(f"`{actions}` on {', '.join(map(_resource, on))}" for actions, on in by_actions.items())


def _resource(resource: str) -> str:
    """Return a resource in the manual's words."""
    kind, _, name = resource.partition(" ")
    if name == "*":
        return f"every {kind}"
    if kind == "cluster" or name in ("T", "G", "new-T", "new-G"):
        return f"the {kind}"
    return f"`{name.replace('%G', '%GROUP')}`"


def table() -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| to | for example | 4.9 (ACL 1.0) | 5.x (authorization 2.0) |"
    yield "|---|---|---|---|"
    for task in TASKS:
        shown = {"T": "TOPIC", "new-T": "TOPIC", "G": "GROUP", "new-G": "GROUP", "broker-a": "BROKER"}
        words = " ".join(shown.get(word, word) for word in task.words if word != "--yes")
        yield f"| {task.what} | `rmqctl {words}` | {_cell(task.plain)} | {_cell(task.rights)} |"


if __name__ == "__main__":
    print("\n".join(table()))
