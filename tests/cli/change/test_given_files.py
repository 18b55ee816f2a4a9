"""Files that a command reads: what fits the command line is done, all else is refused and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import call, closed_address
from tests.cli.change.seeded_sandbox import document, make_known, store, stored
from tests.sandbox.peer import Peer
from tests.sandbox.progress import send

Captured = pytest.CaptureFixture[str]
both = pytest.mark.parametrize("sandbox", ["5.4.0", "4.9.7"], indirect=True)


def _all_stored(sandbox: ThreadedSandbox) -> dict[Any, dict[int, int]]:
    """Return every stored offset of every group."""
    return sandbox.call(
        lambda inner: {place: dict(found) for place, found in inner.brokers["broker-a"].offsets.stored.items()}
    )


@both
def test_what_was_exported_is_imported(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    for form in ((), ("-o", "csv"), ("--kafka",)):
        path = tmp_path / "".join(["offsets", *form])
        store(sandbox, 0, 4)
        assert call(capsys, "offset", "export", "G", *form, "--file", str(path)).code == 0
        store(sandbox, 0, 9)
        group = () if not form else ("--group", "G")
        result = call(capsys, "offset", "import", str(path), *group, "--yes", "-o", "json")
        assert (result.code, document(result)["operation"]) == (0, "offset import"), result.err
        assert stored(sandbox) == {0: 4, 1: 6}
        store(sandbox, 0, 9)
        words = ("offset", "reset", "G", "--from-file", str(path), "--yes")
        assert call(capsys, *words).code == 0
        assert stored(sandbox) == {0: 4, 1: 6}


def _json(*, kind: str = "OffsetExport", group: str | None = "G", **changed: Any) -> str:
    item = {"topic": "T", "brokerName": "broker-a", "queueId": 0, "consumerOffset": 5}
    return json.dumps({"apiVersion": "rmqctl/v1", "kind": kind, "group": group, "items": [item], **changed})


_OURS = "topic,brokerName,queueId,offset"


@pytest.mark.parametrize(
    "text",
    [
        "T,0,5\n",
        "T,broker-a:0,5\n",
        "T 0 5\n",
        '\ufeff"T", 0 , 5 \r\n\r\n',
        f"{_OURS}\nT,broker-a,0,5\n",
        "offset,queueId,topic,brokerName\n5,0,T,broker-a\n",
        "group,topic,partition,offset\nG,T,0,5\n",
        "group,topic,brokerName,queueId,maxOffset,consumerOffset,lag\nG,T,broker-a,0,10,5,5\n",
        _json(),
        _json(group=None),
        _json(cluster="DefaultCluster"),
        _json(cluster="DefaultCluster,Other"),
    ],
)
def test_a_file_that_fits_is_read(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path, text: str) -> None:
    path = tmp_path / "offsets"
    path.write_text(text)
    result = call(capsys, "offset", "import", str(path), "--group", "G", "--yes")
    assert (result.code, stored(sandbox)) == (0, {0: 5, 1: 6}), result.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # Whose it is.
        (_json(group="H"), ("group H", "not G")),
        (_json(kind="OffsetList", group="H"), ("group H", "not G")),
        ("group,topic,partition,offset\nH,T,0,5\n", ("group H", "not G")),
        (_json(cluster="Other"), ("cluster Other", "not DefaultCluster")),
        (f"{_OURS}\nT,broker-z,0,5\n", ("broker-z:0", "broker-a:0-1")),
        # What its columns are. Each broker has a topic of its own name.
        ("T,broker-a,0,5\n", ("4 columns", "topic,brokerName,queueId,offset", "group,topic,partition,offset")),
        ("G,broker-a,0,5\n", ("4 columns", "topic,brokerName,queueId,offset", "group,topic,partition,offset")),
        ("G,T,broker-a,0,5\n", ("5 columns", "topic,brokerName,queueId,offset")),
        ("topic,broker,partition,offset\nT,broker-z,0,5\n", ("'broker'", "brokerName")),
        ("TOPIC,PARTITION,CURRENT-OFFSET\nT,0,5\n", ("'CURRENT-OFFSET'", "consumerOffset")),
        ("consumerGroup,topic,partition,offset\nH,T,0,5\n", ("'consumerGroup'", "group")),
        ("topic,queueId,offset,consumerOffset\nT,0,5,6\n", ("offset and consumerOffset",)),
        ("topic,queueId,maxOffset\nT,0,5\n", ("offset", "consumerOffset")),
        ("topic,offset\nT,5\n", ("queue", "queueId")),
        ("TOPIC Q MAX\nT 0 5\n", ("'Q'", "queueId")),
        ("TOPIC BROKER Q CONSUMER MAX\nT broker-a 0 5 10\n", ("5 columns", "TOPIC PARTITION OFFSET")),
        ("#Topic #BrokerName #QID #BrokerOffset #ConsumerOffset #Diff\nT broker-a 0 10 5 5\n", ("6 columns",)),
        (
            "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG\nG T 0 5 10 5\n",
            ("6 columns", "rmqctl offset export"),
        ),
        # What its lines say.
        ("0,T,5\n", ("'T'",)),
        ("T,0,5\nT,0,5\n", ("Line 2", "line 1")),
        ("T,0,5\nT,broker-a:0,6\n", ("broker-a:0", "lines 1 and 2")),
        ("T,1,5\nT,0,1,000\n", ("4 columns",)),
        ('T,0,"1,000"\n', ("'1,000'",)),
        ("T,9,5\n", ("broker-a:9", "broker-a:0-1")),
        ("T,0,-5\n", ("-5",)),
        ("T,0,99999999999999999999\n", ("9223372036854775807",)),
        ("T,0\n", ("2 columns",)),
        # What it is at all.
        ("", ("empty",)),
        ("\ufeff\r\n", ("empty",)),
        ("\x00", ("1 column",)),
        ("{}", ("kind ''", "OffsetExport")),
        (_json()[:-30], ("cut off",)),
        (_json(kind="Plan"), ("'Plan'", "OffsetExport", "rmqctl apply")),
        (_json(kind="Receipt"), ("'Receipt'", "OffsetExport", "rmqctl offset undo")),
        (_json(kind="GroupList"), ("'GroupList'", "OffsetExport")),
        ("[" * 100_000, ("JSON",)),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_file_that_does_not_fit_is_refused(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path, text: str, words: tuple[str, ...]
) -> None:
    async def make_topic(inner: Sandbox) -> None:
        peer = await Peer.of_broker(inner, "broker-a")
        await send(peer, "broker-a", count=9)
        await peer.aclose()

    sandbox.run(make_topic(sandbox.sandbox))
    make_known(sandbox, "H")
    store(sandbox, 0, 3, group="H")
    before = _all_stored(sandbox)
    path = tmp_path / "offsets"
    path.write_text(text)
    for command in (("import", str(path), "--group", "G"), ("reset", "G", "--from-file", str(path))):
        result = call(capsys, "offset", *command, "--yes", "-o", "json")
        assert (result.code, result.out) == (2, ""), result.err
        said = f"{result.error['message']} {result.error['hint']}"
        assert [word for word in words if word not in said] == [], said
        assert _all_stored(sandbox) == before


def test_a_topic_of_a_file_that_does_not_exist(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_text("nope,0,5\n")
    result = call(capsys, "offset", "import", str(path), "--group", "G", "--yes")
    assert (result.code, stored(sandbox)) == (5, {0: 6, 1: 6})


def test_offsets_of_another_group_are_copied_by_a_file_that_names_none(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    make_known(sandbox, "H")
    store(sandbox, 0, 3, group="H")
    path = tmp_path / "offsets"
    for form, code, after in (("json", 2, 6), ("csv", 0, 3)):
        assert call(capsys, "offset", "export", "H", "-o", form, "--file", str(path), "--force").code == 0
        result = call(capsys, "offset", "import", str(path), "--group", "G", "--yes")
        assert (result.code, stored(sandbox)) == (code, {0: after, 1: 6}), result.err


def test_a_file_of_another_group_is_refused_before_a_request(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_text(_json(group="H"))
    for command in (("import", str(path), "--group", "G"), ("reset", "G", "--from-file", str(path))):
        assert call(capsys, "offset", *command, "--yes", "-n", closed_address()).code == 2


def test_a_file_that_names_no_group(sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_text("T,0,5\n")
    result = call(capsys, "offset", "import", str(path), "--yes")
    assert (result.code, "name a group" in result.err.splitlines()[0]) == (2, True)


def test_a_topic_that_a_file_does_not_have_is_not_passed_over(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "offsets.csv"
    path.write_text("T,0,1\n")
    both_topics = ("--topic", "T", "--topic", "U", "--yes")
    for words in (("import", str(path), "--group", "G"), ("reset", "G", "--from-file", str(path))):
        result = call(capsys, "offset", *words, *both_topics)
        assert (result.code, "The file is for topic T, not U." in result.err) == (2, True)
    assert stored(sandbox) == {0: 6, 1: 6}


def test_a_queue_that_a_file_does_not_have_is_not_passed_over(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "offsets.csv"
    path.write_text("T,0,5\n")
    words = ("offset", "reset", "G", "--from-file", str(path), "--yes")
    for queue in ("broker-a:1", "broker-z"):
        result = call(capsys, *words, "--queue", queue)
        assert (result.code, f"The file is for queue T@broker-a:0, not {queue}." in result.err) == (2, True)
        assert stored(sandbox) == {0: 6, 1: 6}
    assert (call(capsys, *words, "--queue", "broker-a:0-1").code, stored(sandbox)) == (0, {0: 5, 1: 6})


def test_a_document_of_another_kind_is_refused_and_the_command_that_reads_it_is_named(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    plan, receipt, export = (tmp_path / name for name in ("plan", "receipt", "export"))
    words = ("offset", "reset", "G", "--topic", "T", "--to-offset", "2")
    assert call(capsys, *words, "--plan", str(plan)).code == 0
    receipt.write_text(call(capsys, *words, "--yes", "-o", "json").out)
    assert call(capsys, "offset", "export", "G", "--file", str(export)).code == 0
    for command, path, said in (
        (("apply",), receipt, ("'Receipt'", "Plan", "rmqctl offset undo")),
        (("apply",), export, ("'OffsetExport'", "Plan", "rmqctl offset import")),
        (("offset", "undo"), plan, ("'Plan'", "Receipt", "rmqctl apply")),
        (("offset", "import"), plan, ("'Plan'", "OffsetExport", "rmqctl apply")),
    ):
        result = call(capsys, *command, str(path), "--yes")
        assert (result.code, result.out, stored(sandbox)) == (2, "", {0: 2, 1: 2}), result.err
        assert [word for word in said if word not in result.err] == []


def test_a_receipt_that_differs_from_the_journal_is_refused(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "receipt.json"
    reset = ("offset", "reset", "G", "--topic", "T", "--to-offset", "2", "--yes", "-o", "json")
    receipt = document(call(capsys, *reset))
    edits: list[dict[str, Any]] = [
        {"group": "H"},
        {"brokers": {"broker-a": "127.0.0.1:1"}},
        {"operation": "offset skip"},
        {"items": receipt["items"][:1]},
        *(
            {"items": [{**receipt["items"][0], **edited}, *receipt["items"][1:]]}
            for edited in ({"before": 9}, {"target": 1}, {"result": "NOT_ATTEMPTED"}, {"after": 6}, {"queueId": 7})
        ),
    ]
    for edit in edits:
        path.write_text(json.dumps({**receipt, **edit}))
        for consent in ("--yes", "--dry-run"):
            refused = call(capsys, "offset", "undo", str(path), consent, "-o", "json")
            assert (refused.code, refused.error["name"]) == (1, "REFUSED"), edit
            assert receipt["id"] in refused.error["hint"]
    assert stored(sandbox) == {0: 2, 1: 2}
    # The journal of this machine does not know it: the receipt of another machine.
    path.write_text(json.dumps({**receipt, "id": "20200101T000000-abcdef"}))
    assert call(capsys, "offset", "undo", str(path), "--dry-run").code == 0
    path.write_text(json.dumps(receipt))
    assert call(capsys, "offset", "undo", str(path), "--yes").code == 0
    assert stored(sandbox) == {0: 6, 1: 6}
