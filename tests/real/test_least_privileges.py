"""Each row of "Least privileges" in the manual: with exactly these rights it works, without one it is named."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from .harness.secured_cluster import ADMIN, Account, SecuredCluster
from .least_privileges import TASKS, Task

_NUMBERS = itertools.count(1)


class _Place:
    """The topic and the group of one task, and its accounts."""

    def __init__(self, secured: SecuredCluster, task: Task, folder: Path) -> None:
        self.secured, self.task, self.folder = secured, task, folder
        number = next(_NUMBERS)
        self.topic, self.group, self.message_id = f"Rights{number}", f"RightsGroup{number}", ""

    def name(self, word: str) -> str:
        """Return a word of the task with this place's names."""
        word = re.sub("^ID$", self.message_id, word)
        word = re.sub(r"(?<![A-Za-z])T(?![A-Za-z])", self.topic, word)
        return re.sub(r"(?<![A-Za-z_])G(?![A-Za-z])", self.group, word)

    def run(self, account: Account) -> tuple[int, str]:
        """Run the task's command; return its exit code and what it said."""
        done = self.secured.run_as(account, *map(self.name, self.task.words), folder=self.folder)
        return done.exit_code, done.stdout + done.stderr

    def change(self, *words: str) -> None:
        """Make a change as the administrator."""
        done = self.secured.run_as(ADMIN, *words, "--yes", folder=self.folder)
        assert done.exit_code == 0, done.stderr

    def account(self, rights: Mapping[str, str]) -> Account:
        """Return a new account with these rights."""
        number = next(_NUMBERS)
        account = Account(f"account{number:04}", f"secret{number:04}")
        self.secured.create_account(account, {self.name(resource): actions for resource, actions in rights.items()})
        return account

    def offsets(self) -> list[object]:
        """Return what is stored for the group."""
        shown = self.secured.run_as(ADMIN, "offset", "show", self.group, "-o", "json", folder=self.folder)
        return [
            (item["queueId"], item["consumerOffset"]) for item in shown.document["items"] if item["topic"] == self.topic
        ]


@contextmanager
def _prepared(place: _Place) -> Iterator[None]:
    """Make what a task needs; in the end, take its consumer away, and restore its broker."""
    java, scene = place.secured.java, place.task.scene
    place.secured.create_topic(place.topic, queue_count=1)
    place.message_id = java.produce(place.topic, 8, keys="key").split()[1]
    java.consume(place.topic, place.group, place.topic, stuck="X")
    java.wait_consumed(place.topic, 8)
    java.persist(place.topic)
    if scene == "stuck":
        java.produce(place.topic, 1, prefix="X")
        java.wait_started(place.topic, 9)
    if scene in ("empty", "letters"):
        java.stop(place.topic)
    if scene == "empty":
        java.produce(place.topic, 1)
    if scene == "letters":
        java.produce(place.topic, 2)
        for _ in range(2):
            words = ("--queue", "broker-a:0", "--older-than", "1ms", "--for", "1ms", "--to-dlq")
            place.change("clean-expired", place.group, *words)
    if scene == "drained":
        place.change("broker", "drain", "broker-a", "--by", "brokerPermission")
    try:
        yield
    finally:
        if scene not in ("empty", "letters"):
            java.release(place.topic)
            java.stop(place.topic)
        if place.task.words[0] == "broker":
            place.change("broker", "restore", "broker-a")


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.what)
def test_exactly_these_rights_are_needed(secured: SecuredCluster, task: Task, tmp_path: Path) -> None:
    place = _Place(secured, task, tmp_path)
    with _prepared(place):
        _try(place)


def _try(place: _Place) -> None:
    secured, task = place.secured, place.task
    rights = task.plain if secured.version == "4.9.7" else task.rights
    before = place.offsets()
    for resource, action in [(on, each) for on, actions in (rights or {}).items() for each in actions.split(",")]:
        assert rights is not None
        rest = ",".join(each for each in rights[resource].split(",") if each != action)
        fewer = {**rights, resource: rest} if rest else {on: each for on, each in rights.items() if on != resource}
        exit_code, said = place.run(place.account(fewer))
        assert re.search(_named(place.name(resource), action), said), (resource, action, said)
        if task.is_needed:
            assert exit_code not in (0, 10), (resource, action, said)
        if resource not in task.shown:
            assert place.offsets() == before, (resource, action, said)
    if rights is None:
        exit_code, said = place.run(place.account({}))
        assert exit_code != 0, said
        assert "needs an admin account" in said
    exit_code, said = place.run(ADMIN if rights is None else place.account(rights))
    assert exit_code == task.exit_code, said
    # A right that only shows more lets the change be made before.
    assert task.shown or "Nothing would be changed" not in said


def _named(resource: str, action: str) -> str:
    """Return the pattern of a sentence that names a right, as 4.9 or 5.x have it."""
    kind, _, name = resource.partition(" ")
    name = r"[^:\s]+" if name == "*" else re.escape(name)
    if action.isupper():
        return rf"needs {action} on the {kind} {name}\b"
    return rf"needs [\w ]*{action}[\w ]* on (the group and on )?{kind.capitalize()}:{name}(?!\w)"
