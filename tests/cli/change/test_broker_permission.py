"""`broker drain` and `broker restore` on a sandbox: which way is chosen, what is written, read back and undone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqctl.changes import late_writes
from rmqctl.changes.documents.encode import sum_of
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import Result, call
from tests.cli.change.seeded_sandbox import TOPIC, document, join, seeded

Captured = pytest.CaptureFixture[str]
JSON = ("--yes", "-o", "json")
DRAIN, RESTORE = ("broker", "drain", "broker-b"), ("broker", "restore", "broker-b")
WIPE, SETTING = ("--by", "wipeWritePerm"), ("--by", "brokerPermission")


@pytest.fixture
def sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedSandbox]:
    """Two brokers with topic T; group G has no members."""
    with seeded(getattr(request, "param", "5.4.0"), brokers=2) as running:
        monkeypatch.setenv("NAMESRV_ADDR", running.addr)
        yield running


def _perms(sandbox: ThreadedSandbox, topic: str = TOPIC) -> tuple[int, int]:
    """Return the setting of broker-b, and the permission of a topic there as the name server routes it."""
    return sandbox.call(
        lambda inner: (
            inner.brokers["broker-b"].settings.number("brokerPermission"),
            inner.name_server.brokers["broker-b"].topics[topic].perm,
        )
    )


def _item(result: Result) -> tuple[str, str, str | None]:
    """Return the way, the name server's state that is to be, and the result."""
    (item,) = document(result)["items"]
    (state,) = (value for name, value in item["target"].items() if name != "brokerPermission")
    return item["route"], state, item.get("result")


def _codes(result: Result) -> dict[str, str]:
    return {each["code"]: each["text"] for each in document(result)["consequences"]}


@pytest.mark.parametrize("sandbox", ["5.4.0", "4.9.7"], indirect=True)
@pytest.mark.parametrize(
    ("words", "route", "drained"),
    [((), "BROKER_CONFIG", (4, 4)), (SETTING, "BROKER_CONFIG", (4, 4)), (WIPE, "NAME_SERVER", (6, 4))],
)
def test_a_broker_is_drained_restored_and_each_undone(
    sandbox: ThreadedSandbox, capsys: Captured, words: tuple[str, ...], route: str, drained: tuple[int, int]
) -> None:
    done = call(capsys, *DRAIN, *words, *JSON)
    assert done.code == 0, done.err
    assert _item(done) == (route, "read-only", "CONFIRMED")
    assert (document(done)["broker"], document(done)["group"], document(done)["topic"]) == ("broker-b", None, None)
    assert _perms(sandbox) == drained
    assert call(capsys, *DRAIN, *JSON).code == 0  # nothing is left to do
    assert _perms(sandbox) == drained

    back = call(capsys, *RESTORE, *JSON)
    assert (back.code, _item(back)) == (0, (route, "read-write", "CONFIRMED"))
    assert _perms(sandbox) == (6, 6)

    again = call(capsys, "offset", "undo", document(back)["id"], *JSON)
    assert (again.code, _item(again)) == (0, (route, "read-only", "CONFIRMED"))
    assert _perms(sandbox) == drained
    assert call(capsys, "offset", "undo", document(again)["id"], *JSON).code == 0
    assert _perms(sandbox) == (6, 6)
    listed = document(call(capsys, "offset", "history", "broker-b", "-o", "json"))["items"]
    assert [(each["broker"], each["operation"]) for each in listed] == [
        ("broker-b", f"broker {each}") for each in ("restore", "drain", "restore", "drain")
    ]


def test_a_plan_shows_what_happens_to_groups_first(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    shown = call(capsys, *DRAIN, "--dry-run")
    assert shown.out.index("VERDICT") < shown.out.index("BEFORE")
    scripted = call(capsys, *DRAIN, "--dry-run", "-o", "json")
    assert "G" in _codes(scripted)["NO_MEMBERS"]
    assert _perms(sandbox) == (6, 6)


def test_routes_are_chosen_where_a_group_would_block(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    # A member that does not report how it consumes: its failed messages may be lost sight of.
    join(sandbox)
    plan = call(capsys, *DRAIN, "--dry-run", "-o", "json")
    assert (_item(plan)[0], plan.code) == ("NAME_SERVER", 8)
    assert "G (" in _codes(plan)["EFFECT_UNKNOWN"]
    assert "failed messages of G might not be stored" in _codes(plan)["WAY"]


def test_a_saved_plan_that_would_now_do_more_is_refused(
    sandbox: ThreadedSandbox, capsys: Captured, tmp_path: Path
) -> None:
    plan, edited = tmp_path / "plan.json", tmp_path / "edited.json"
    assert call(capsys, *DRAIN, "--plan", str(plan)).code == 0
    other = json.loads(plan.read_text())
    other["items"][0]["target"]["fileReservedTime"] = "1"
    edited.write_text(json.dumps({**other, "sha256": sum_of(other)}))
    assert call(capsys, "apply", str(edited), "--yes").code == 2
    call(capsys, "topic", "create", "mine", "--broker", "broker-b", *JSON)
    refused = call(capsys, "apply", str(plan), "--yes")
    assert (refused.code, "mine" in refused.err) == (7, True)
    call(capsys, "topic", "delete", "mine", *JSON)
    assert call(capsys, "apply", str(plan), "--yes").code == 0
    assert _perms(sandbox) == (4, 4)


def test_a_closed_topic_stays_closed(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    call(capsys, "topic", "create", "closed", "--perm", "r", *JSON)
    done = call(capsys, *DRAIN, *WIPE, *JSON)
    refused = call(capsys, *RESTORE, *WIPE, "--yes")
    assert (refused.code, "closed" in refused.err) == (1, True)
    for words in (RESTORE, ("offset", "undo", document(done)["id"])):
        back = call(capsys, *words, *JSON)
        assert (back.code, _item(back)) == (0, ("BROKER_CONFIG", "read-write", "CONFIRMED"))
        assert (_perms(sandbox), _perms(sandbox, "closed")) == ((6, 6), (6, 4))
        call(capsys, *DRAIN, *WIPE, *JSON)


def test_a_topic_that_a_name_server_opened_is_closed_again(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    call(capsys, "topic", "create", "closed", "--perm", "r", *JSON)
    sandbox.call(lambda inner: inner.name_server.set_write_permission("broker-b", is_writable=True))
    assert _perms(sandbox, "closed") == (6, 6)
    assert _item(call(capsys, *RESTORE, *JSON))[0] == "BROKER_CONFIG"
    assert _perms(sandbox, "closed") == (6, 4)
    # As requested, the broker registers again although nothing is known to differ.
    assert _item(call(capsys, *RESTORE, *SETTING, *JSON)) == ("BROKER_CONFIG", "read-write", "CONFIRMED")


def test_routes_do_not_open_a_broker_that_its_setting_closes(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    wiped = call(capsys, *DRAIN, *WIPE, *JSON)
    assert call(capsys, *DRAIN, *SETTING, *JSON).code == 0
    for words in ((*RESTORE, *WIPE), ("offset", "undo", document(wiped)["id"])):
        refused = call(capsys, *words, "--yes")
        assert (refused.code, "brokerPermission=4" in refused.err) == (1, True)
    assert call(capsys, *RESTORE, *JSON).code == 0
    assert _perms(sandbox) == (6, 6)


def test_a_name_server_that_does_not_answer_is_not_done(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", f"{sandbox.addr};127.0.0.1:1")
    refused = call(capsys, *DRAIN, *WIPE, *JSON)
    assert (refused.code, "127.0.0.1:1" in refused.err) == (1, True)
    part = call(capsys, *DRAIN, *WIPE, *JSON, "--partial")
    assert (part.code, _item(part)) == (8, ("NAME_SERVER", "read-only", "CONFIRMED"))


def test_every_name_server_is_named(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan, other = tmp_path / "plan.json", sandbox.addr.replace("127.0.0.1", "localhost")
    assert call(capsys, *DRAIN, *WIPE, "--plan", str(plan)).code == 0
    monkeypatch.setenv("NAMESRV_ADDR", f"{sandbox.addr};{other}")
    refused = call(capsys, "apply", str(plan), "--yes")
    assert (refused.code, f"for the name servers {sandbox.addr}" in refused.err) == (7, True)
    # An undo changes only what the change saw, whatever is named now.
    done = call(capsys, *DRAIN, *WIPE, *JSON, "-n", sandbox.addr)
    back = call(capsys, "offset", "undo", document(done)["id"], "--yes")
    assert (back.code, _perms(sandbox)) == (0, (6, 6)), back.err
    monkeypatch.setenv("NAMESRV_ADDR", other)
    shown = call(capsys, *DRAIN, *WIPE, "--dry-run", "-o", "json")
    assert sandbox.addr in _codes(shown)["OTHER_NAME_SERVERS"]


def test_a_silent_broker_leaves_the_routes_only(sandbox: ThreadedSandbox, capsys: Captured) -> None:
    sandbox.faults.silence(server="broker-b", count=None)
    stuck = call(capsys, *DRAIN, *JSON, "--timeout", "1s")
    assert (stuck.code, "--by wipeWritePerm" in stuck.err) == (6, True)
    part = call(capsys, *DRAIN, *WIPE, *JSON, "--partial", "--timeout", "4s")
    assert (part.code, _item(part)) == (8, ("NAME_SERVER", "read-only", "CONFIRMED"))


def test_a_write_that_is_not_seen_is_unknown(
    sandbox: ThreadedSandbox, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_writes, "LOOK_AGAIN_S", 0.6)
    # The broker answers, but does not register: the name server keeps the old routes.
    sandbox.faults.answer(Q.UPDATE_BROKER_CONFIG, R.SUCCESS)
    done = call(capsys, *DRAIN, *SETTING, *JSON)
    assert (done.code, _item(done)[2], _perms(sandbox)) == (1, "UNCHANGED", (6, 6))
    sandbox.faults.clear()
    sandbox.faults.silence(Q.WIPE_WRITE_PERM_OF_BROKER, count=None)
    done = call(capsys, *DRAIN, *WIPE, *JSON, "--timeout", "2s")
    assert (done.code, _item(done)[2], _perms(sandbox)) == (9, "UNKNOWN", (6, 6))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("broker", "drain", "broker-x"), 5, "broker-x"),
        (("broker", "drain", "broker-*"), 2, "wildcards"),
        ((*DRAIN, "--by", "mqadmin"), 2, "wipeWritePerm"),
    ],
)
def test_what_cannot_be_drained(
    sandbox: ThreadedSandbox, capsys: Captured, words: tuple[str, ...], code: int, said: str
) -> None:
    refused = call(capsys, *words, "--yes")
    assert (refused.code, said in refused.err) == (code, True)
