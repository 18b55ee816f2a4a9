"""Sums and names while a broker is missing of whose queues nothing is known: nothing is said of what was not read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.admin.cluster import Group, running
from tests.cli.scripted_server import Serve, served
from tests.scripted_peer import V5_4_0

from .calls import call, closed_address
from .test_sick_states import HIDING, Captured, forget_b, run_words, standing, two_brokers

# What the table or the note says of broker-a's part, and where JSON has it: under its key and with AtLeast.
SUMS: dict[str, tuple[str, tuple[str | int, ...], dict[str, int]]] = {
    "group list G": (">=6", ("items", 0), {"lag": 6, "lost": 0}),
    "offset show G": ("lag at least 6,", ("summary",), {"lag": 6, "lost": 0, "inflight": 0}),
    "offset show G*": ("lag at least 6,", ("summaries", 0), {"lag": 6}),
    "offset show G --topic T": ("lag at least 6.", ("summary",), {"lag": 6}),
    "group describe G": ("at least 6,", ("items", 0), {"lag": 6, "lost": 0, "deadLetterCount": 0}),
    "group describe G*": (" >=1 ", ("items", 0, "topics", 0), {"queueCount": 1, "lag": 6, "duplicateRisk": 0}),
    "topic status T": ("at least 1 queue on 1 broker, at least 10 messages", ("summary",), {
        "queueCount": 1, "brokerCount": 1, "messageCount": 10,
    }),
    "topic list --with-stats": (">=10 ", ("items", 0), {"readQueueNums": 1, "writeQueueNums": 1, "messageCount": 10}),
    "topic route T": ("at least 1 queue to read, at least 1 to write", (), {}),
    "whatif allocate G --add-clients 1": ("at least 1 queue, 1 client", ("items", 0), {"queueCount": 1}),
    "clean-expired G --for 1ms": (" of at least 1 queue stuck", (), {}),
    "offset skip G --topic T --dry-run": ("at least 6 skipped", (), {}),
    "offset reset G --topic T --shift-by -2 --dry-run": ("At least 2 messages would be redelivered", (), {}),
}  # fmt: skip


def _at(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


@pytest.mark.parametrize("state", HIDING)
@pytest.mark.parametrize("words", SUMS)
def test_a_sum_without_the_queues_of_a_missing_broker_is_at_least_what_was_read(
    words: str, state: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, path, sums = SUMS[words]
    with standing(state, V5_4_0, capsys, monkeypatch):
        code, text = run_words(capsys, words)
        assert (code, said in text, "broker-b" in text) == (8, True, True), text
        item = _at(json.loads(call(capsys, *words.split(), "-o", "json").out), path)
    assert {key: (item[key], item[f"{key}AtLeast"]) for key in sums} == {
        key: (None, count) for key, count in sums.items()
    }
    assert sums.keys() <= item.get("reasons", {}).keys()


@pytest.mark.parametrize("words", SUMS)
def test_a_sum_of_a_whole_cluster_is_exact(words: str, capsys: Captured) -> None:
    _, path, sums = SUMS[words]
    with served(two_brokers(V5_4_0)) as address:
        code, text = run_words(capsys, words, "-n", address)
        assert (code, "at least" in text.lower(), ">=" in text) == (0, False, False), text
        item = _at(json.loads(call(capsys, *words.split(), "-n", address, "-o", "json").out), path)
    assert {key: (item[key], item[f"{key}AtLeast"]) for key in sums} == {
        key: (2 * count, 2 * count) for key, count in sums.items()
    }


def test_a_topic_of_which_the_missing_broker_has_nothing_is_summed_exactly(capsys: Captured, serve: Serve) -> None:
    """Of the group it is not known whether it has offsets of other topics there."""
    cluster = two_brokers(V5_4_0)
    del cluster.brokers["broker-b"].topics["T"]
    cluster.brokers["broker-b"].offsets = {}
    serve(cluster)
    assert run_words(capsys, "topic route T")[0] == 0
    forget_b(cluster)
    (item,) = json.loads(call(capsys, "group", "describe", "G", "-o", "json").out)["items"]
    narrowed = json.loads(call(capsys, "offset", "show", "G", "--topic", "T", "-o", "json").out)["summary"]
    status = json.loads(call(capsys, "topic", "status", "T", "-o", "json").out)["summary"]
    (topic,) = item["topics"]
    assert (item["lag"], topic["lag"], topic["queueCount"], narrowed["lag"], status["queueCount"]) == (None, 6, 1, 6, 1)


def test_queues_that_are_remembered_of_a_missing_broker_are_counted(capsys: Captured, serve: Serve) -> None:
    cluster = two_brokers(V5_4_0)
    for broker in cluster.brokers.values():
        broker.groups = {"G": Group({"c1": running()})}
    serve(cluster)
    assert run_words(capsys, "topic route T")[0] == 0
    forget_b(cluster)
    for words, said in (
        ("topic route T", "2 queues to read, 2 to write, including those of broker-b"),
        ("topic status T", "2 queues on 2 brokers, at least 10 messages"),
        # A client shares what it sees.
        ("whatif allocate G", "at least 1 queue, 1 client"),
    ):
        code, text = run_words(capsys, words)
        assert (code, said in text) == (8, True), text


# Commands that name what no server knows.
UNKNOWN_NAMES = (
    "group list no", "group list no*", "group describe no", "group describe no*", "group config no", "group members no",
    "group subscriptions no", "group update no --retries 3 --dry-run", "group create new --from no --dry-run",
    "group delete no --dry-run",
    "offset show no", "offset show G --topic no", "offset show G* --topic SELF_TEST_TOPIC", "offset peek no --topic T",
    "offset peek G --topic no", "offset skip no --topic T --dry-run", "offset clone no G --dry-run", "offset export no",
    "offset delete no --topic T --dry-run",
    "topic list no", "topic list no*", "topic status no", "topic route no",
    "whatif allocate no", "whatif expiry no", "whatif churn no", "whatif readonly --broker broker-a no",
    "whatif allocate G --add-clients 1 --remove-broker broker-x",
    "whatif allocate G --add-clients 1 --remove-clients c",
    "dlq list no", "dlq show no", "dlq stats no", "dlq show no --fix-permission --dry-run",
    "message find no", "message tail no", "message send no x --dry-run", "message get --topic no --key k",
    "message trace --key k", "message trace 7F00000100A418B4AAC2692623890003", "diagnose no",
)  # fmt: skip


@pytest.mark.parametrize("state", HIDING)
@pytest.mark.parametrize("words", UNKNOWN_NAMES)
def test_a_name_that_a_missing_broker_may_know_is_not_called_missing(
    words: str, state: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with standing(state, V5_4_0, capsys, monkeypatch):
        code, said = run_words(capsys, words)
    assert (code, "broker-b could not be read" in said, "does not exist" in said) == (6, True, False), said


@pytest.mark.parametrize("words", UNKNOWN_NAMES)
def test_a_name_that_no_server_of_a_whole_cluster_knows_is_missing(words: str, capsys: Captured) -> None:
    with served(two_brokers(V5_4_0)) as address:
        assert run_words(capsys, words, "-n", address)[0] == 5


@pytest.mark.parametrize(
    "words", ["topic route no", "topic status no", "topic list no", "broker show broker-x", "message trace --key k"]
)
def test_a_name_that_a_silent_name_server_may_know_is_not_called_missing(words: str, capsys: Captured) -> None:
    with served(two_brokers(V5_4_0)) as address:
        dead = closed_address()
        code, said = run_words(capsys, words, "-n", f"{address};{dead}")
    assert (code, f"{dead} could not be read" in said, "does not exist" in said) == (6, True, False), said


@pytest.mark.parametrize("words", ["dlq list", "group members G", "group subscriptions G", "message find T"])
def test_that_there_is_nothing_is_said_of_what_was_read(
    words: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with standing(HIDING[0], V5_4_0, capsys, monkeypatch):
        code, said = run_words(capsys, words)
    assert (code, said.startswith("In the part that was read: no ")) == (8, True), said


@pytest.mark.parametrize("state", HIDING)
def test_what_a_broker_takes_with_it_is_told_with_the_states_of_group_list(
    state: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with standing(state, V5_4_0, capsys, monkeypatch):
        listed = json.loads(call(capsys, "group", "list", "-o", "json").out)["items"]
        found = json.loads(call(capsys, "whatif", "readonly", "--broker", "broker-a", "-o", "json").out)
    assert [(item["group"], item["state"], item["memberCount"]) for item in found["items"]] == [
        (item["group"], item["state"], item["memberCount"]) for item in listed
    ]
    (only,) = [each["text"] for each in found["concerns"] if each["code"] == "ONLY_BROKER"]
    assert "broker-b" in only
