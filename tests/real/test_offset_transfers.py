"""Offsets that come from elsewhere: another group, a file of ours, Kafka's or rpk's; real consumers begin there."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from .harness.cluster import Cluster
from .harness.rmqctl import Rmqctl

_TOPIC, _SOURCE = "Transferred", "TransferSource"


@pytest.fixture(scope="module")
def source(cluster: Cluster) -> str:
    """A group that has read 30 of 40 messages, on two brokers."""
    cluster.create_topic(_TOPIC, queue_count=2)
    cluster.java.produce(_TOPIC, 30)
    cluster.java.consume("transfer-source", _SOURCE, _TOPIC)
    cluster.java.wait_consumed("transfer-source", 30)
    cluster.java.stop("transfer-source")
    cluster.java.produce(_TOPIC, 10, prefix="late")
    return _SOURCE


def _new_group(rmqctl: Rmqctl, name: str) -> str:
    created = rmqctl("group", "create", name, "--yes", "-o", "json")
    assert created.exit_code == 0, created.stderr
    return name


def _stored(rmqctl: Rmqctl, group: str) -> dict[tuple[str, int], int | None]:
    rows = rmqctl.items("offset", "show", group, "--topic", _TOPIC)
    return {(row["brokerName"], row["queueId"]): row["consumerOffset"] for row in rows}


def _change(rmqctl: Rmqctl, *words: str) -> None:
    # Long enough for a broker that a busy machine keeps from answering.
    done = rmqctl("offset", *words, "--yes", "-o", "json", "--timeout", "40s")
    assert done.exit_code == 0, done.stderr + done.stdout
    assert {item["result"] for item in done.document["items"]} == {"CONFIRMED"}


def test_a_clone_begins_where_the_other_group_is(cluster: Cluster, rmqctl: Rmqctl, source: str) -> None:
    group = _new_group(rmqctl, "TransferClone")
    _change(rmqctl, "clone", source, group)
    assert _stored(rmqctl, group) == _stored(rmqctl, source)
    cluster.java.consume("transfer-clone", group, _TOPIC, collect=1)
    cluster.java.wait_consumed("transfer-clone", 10)
    time.sleep(1)
    assert {body.rstrip("0123456789") for body in cluster.java.bodies("transfer-clone")} == {"late"}
    cluster.java.stop("transfer-clone")


def test_a_reset_to_another_group_is_the_same(rmqctl: Rmqctl, source: str) -> None:
    group = _new_group(rmqctl, "TransferToGroup")
    _change(rmqctl, "reset", group, "--topic", _TOPIC, "--to-earliest")
    _change(rmqctl, "reset", group, "--all-topics", "--to-group", source)
    assert _stored(rmqctl, group) == _stored(rmqctl, source)


def test_what_is_exported_is_imported(rmqctl: Rmqctl, source: str, tmp_path: Path) -> None:
    group, kept = _new_group(rmqctl, "TransferImport"), tmp_path / "offsets.json"
    assert rmqctl("offset", "export", source, "--topic", _TOPIC, "--file", str(kept)).exit_code == 0
    # The JSON is its own group's only; the CSV names none.
    assert rmqctl("offset", "import", str(kept), "--group", group, "--yes").exit_code == 2
    table = tmp_path / "offsets.csv"
    assert rmqctl("offset", "export", source, "--topic", _TOPIC, "-o", "csv", "--file", str(table)).exit_code == 0
    _change(rmqctl, "import", str(table), "--group", group)
    assert _stored(rmqctl, group) == _stored(rmqctl, source)
    _change(rmqctl, "skip", source, "--topic", _TOPIC)
    assert _stored(rmqctl, group) != _stored(rmqctl, source)
    # Without --group it goes back to the group that it is of.
    _change(rmqctl, "import", str(kept))
    assert _stored(rmqctl, group) == _stored(rmqctl, source)


@pytest.mark.parametrize(
    ("name", "line"), [("kafka", '"{topic}","{broker}:{queue}",{offset}'), ("rpk", "{topic} {broker}:{queue} {offset}")]
)
def test_files_of_other_tools_are_read(name: str, line: str, rmqctl: Rmqctl, source: str, tmp_path: Path) -> None:
    group, path = _new_group(rmqctl, f"Transfer{name}"), tmp_path / name
    wanted = {("broker-a", 0): 1, ("broker-b", 1): 2}
    path.write_text(
        "".join(
            line.format(topic=_TOPIC, broker=broker, queue=queue, offset=offset) + "\n"
            for (broker, queue), offset in wanted.items()
        )
    )
    _change(rmqctl, "reset", group, "--from-file", str(path))
    assert {place: offset for place, offset in _stored(rmqctl, group).items() if offset is not None} == wanted


def test_a_change_of_several_topics_is_undone_as_a_whole(cluster: Cluster, rmqctl: Rmqctl, source: str) -> None:
    cluster.create_topic("TransferOther", queue_count=1)
    cluster.java.produce("TransferOther", 4)
    group = _new_group(rmqctl, "TransferUndo")
    for topic in (_TOPIC, "TransferOther"):
        _change(rmqctl, "reset", group, "--topic", topic, "--to-latest")
    before = json.loads(rmqctl("offset", "export", group).stdout)["items"]
    moved = rmqctl("offset", "reset", group, "--all-topics", "--to-earliest", "--yes", "-o", "json").document
    assert {item["after"] for item in moved["items"]} == {0}
    _change(rmqctl, "undo", moved["id"])
    after = json.loads(rmqctl("offset", "export", group).stdout)["items"]
    assert [item["consumerOffset"] for item in after] == [item["consumerOffset"] for item in before]
