"""What holds for every command about one group: formats, reasons, hostile names, widths."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from rmqctl.cli.output.display import Display
from rmqctl.cli.output.render import render
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, running, subscribed
from tests.cli.calls import call
from tests.cli.output.hostile import raw_in
from tests.cli.output.test_rich_table import _on_a_terminal
from tests.cli.scripted_server import served
from tests.schemas import check_document, check_item
from tests.scripted_peer import V4_9_7

from .groups import SHOWN, healthy, offline, torn, torn_config

Captured = pytest.CaptureFixture[str]
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
# A time stands beside its number, and who is EMPTY or ONLINE needs no reason.
_BESIDE = ("Iso", "stateReason", "error")


def _half_down() -> Cluster:
    cluster = torn()
    cluster.stop("broker-b")
    return cluster


def _half_down_and_offline() -> Cluster:
    cluster = offline()
    cluster.stop("broker-b")
    return cluster


CLUSTERS: dict[str, Callable[[], Cluster]] = {
    "healthy": healthy,
    "healthy 4.9": lambda: healthy(V4_9_7),
    "torn": torn,
    "torn configurations": torn_config,
    "offline": offline,
    "half down": _half_down,
    "half down and offline": _half_down_and_offline,
}
every_command = pytest.mark.parametrize("command", SHOWN)
every_cluster = pytest.mark.parametrize("cluster", CLUSTERS)


def _shown(command: str, cluster: str, capsys: Captured, form: str) -> str:
    listing = SHOWN[command](CLUSTERS[cluster]())
    render(listing, Display(format=form))
    return capsys.readouterr().out


def _unexplained(value: Any, path: str = "") -> list[str]:
    """Return every null in a document that has no reason beside it."""
    if isinstance(value, list):
        return [found for index, each in enumerate(value) for found in _unexplained(each, f"{path}[{index}]")]
    if not isinstance(value, dict):
        return []
    reasons = value.get("reasons", {})
    bare = [f"{path}.{key}" for key, each in value.items() if each is None and key not in reasons]
    bare = [name for name in bare if not name.endswith(_BESIDE)]
    # Settings are RocketMQ's own, an error of no single broker has no broker's name.
    return bare + [
        found
        for key, each in value.items()
        if key not in ("reasons", "settings", "errors")
        for found in _unexplained(each, f"{path}.{key}")
    ]


@every_command
@every_cluster
def test_documents_are_as_their_schemas_say_and_every_null_has_its_reason(
    command: str, cluster: str, capsys: Captured
) -> None:
    document = json.loads(_shown(command, cluster, capsys, "json"))
    check_document(document)
    assert _unexplained(document) == []
    for item in document["items"]:
        assert {key for key in item.get("reasons", {}) if item[key] is not None} == set()
    for line in _shown(command, cluster, capsys, "jsonl").splitlines():
        check_item(document["kind"], json.loads(line))


@every_command
@every_cluster
def test_every_format_has_every_item(command: str, cluster: str, capsys: Captured) -> None:
    import yaml

    count = len(json.loads(_shown(command, cluster, capsys, "json"))["items"])
    assert len(_shown(command, cluster, capsys, "name").splitlines()) == count
    assert len(_shown(command, cluster, capsys, "csv").splitlines()) == count + 1
    assert len(_shown(command, cluster, capsys, "tsv").splitlines()) == count + 1
    as_json = json.loads(_shown(command, cluster, capsys, "json"))
    assert yaml.safe_load(_shown(command, cluster, capsys, "yaml")) == as_json


@every_command
def test_no_column_is_there_twice_and_each_is_a_key(command: str) -> None:
    listing = SHOWN[command](torn())
    assert len({column.key for column in listing.columns}) == len(listing.columns)
    assert len({column.heading for column in listing.columns}) == len(listing.columns)
    for column in listing.columns:
        assert all(column.key in item for item in listing.items), column.key


@every_command
def test_a_broker_that_is_down_makes_it_partial(command: str, capsys: Captured) -> None:
    cluster = healthy()
    cluster.stop("broker-b")
    listing = SHOWN[command](cluster)
    assert render(listing, Display(format="json")) == 8
    document = json.loads(capsys.readouterr().out)
    assert {(error["brokerName"], error["name"]) for error in document["errors"]} == {("broker-b", "UNREACHABLE")}
    render(listing, Display(with_notes=False))
    assert capsys.readouterr().err.startswith("rmqctl: not read: broker-b: ")


def _hostile() -> Cluster:
    name, group = "\x1b[31mT\u202e[red]", "G"
    a = BrokerState("broker-\x9b31ma", topics={name: [Queue(10)]}, configured={group})
    told = running(
        subscriptions=[subscribed(name, "A\x85\u2028")],
        allocateMessageQueueStrategy="x.\x1b]0;title\x07",
        PROP_CONSUME_TYPE="\x00",
        messageModel="\ud800",
        PROP_NAMESERVER_ADDR="\u2066:1",
    )
    a.groups[group] = Group({"c\x9b1": told}, (name,), languages={"c\x9b1": "\x07"}, message_model="\x1b[2J")
    a.group_configs[group] = {"consumeTimeoutMinute": "\x1b[2J", "\x1b[3J": {"\u202e": ["\x9b"]}}
    a.forbidden[group] = {name: 4}
    cluster = Cluster(a)
    cluster.addresses[a.name] = "a:1"
    cluster.network.add("a:1", a.table())
    return cluster


@every_command
def test_hostile_names_are_harmless_in_every_format(command: str, capsys: Captured) -> None:
    for form in ("table", "wide", "plain", "csv", "tsv", "name", "json", "jsonl", "yaml"):
        render(SHOWN[command](_hostile()), Display(format=form))
        captured = capsys.readouterr()
        assert raw_in(captured.out + captured.err) <= ({"\t"} if form == "tsv" else set()), form
        assert captured.out


# On a terminal, against the same cluster behind sockets


# A healthy group has no findings to show: tests/cli/test_diagnose.py has a sick one.
@pytest.mark.parametrize("command", [command for command in SHOWN if command != "diagnose"])
@pytest.mark.parametrize("width", [80, 200])
def test_tables_fit_a_terminal(command: str, width: int) -> None:
    with served(healthy()) as name_server:
        text = _on_a_terminal(*command.split(), "G", "-n", name_server, COLUMNS=str(width))
    lines = [_STYLE.sub("", line.rstrip("\r")) for line in text.split("\n")]
    assert "\x1b[1m" in text
    assert max(map(len, lines)) <= width
    assert any("c1" in line or "broker-a" in line or "T" in line.split() for line in lines)


@every_command
def test_the_whole_way_from_the_command_line(command: str, capsys: Captured) -> None:
    # Two readings, the second one soon.
    soon = ("--for", "100ms") if command == "diagnose" else ()
    with served(healthy()) as name_server:
        shown = call(capsys, *command.split(), "G", *soon, "-n", name_server, "-o", "json")
        assert shown.code == 0
        narrowed = call(capsys, *command.split(), "G", *soon, "-n", name_server, "-o", "plain", "--no-headers", "-q")
        assert (narrowed.code, narrowed.err) == (0, "")
        missing = call(capsys, *command.split(), "H", *soon, "-n", name_server, "-o", "json")
        assert (missing.code, missing.error["hint"]) == (5, None)


def test_patterns_of_groups_are_described_and_a_missing_one_is_said(capsys: Captured) -> None:
    cluster = healthy()
    for broker in cluster.brokers.values():
        broker.configured.add("Gone")
    with served(cluster) as name_server:
        result = call(capsys, "group", "describe", "G*", "-n", name_server, "-o", "name")
        assert result.out.splitlines() == ["G", "Gone"]
        result = call(capsys, "group", "describe", "G", "H", "-n", name_server, "-o", "json")
        assert result.code == 8
        assert json.loads(result.out)["errors"][0]["what"] == "group H"
