"""What rmqctl remembers between runs, on a sandbox of which a broker stops."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from rmqctl.changes.journal.cluster_memory import forget, forget_cluster, note_sightings, read_memory
from rmqctl.model.cluster_memory import ClusterMemory, SeenBroker, SeenQueues, Sightings
from rmqctl.net.file_lock import lock_file
from tests.cli.calls import call
from tests.cli.change.seeded_sandbox import seeded

Captured = pytest.CaptureFixture[str]

NOW_MS = 1_800_000_000_000


def _sightings() -> Sightings:
    return Sightings(
        brokers={"broker-a": SeenBroker("C", "a:1", NOW_MS)}, topics={"T": {"broker-a": SeenQueues(4, 4, 6, NOW_MS)}}
    )


def _read(*servers: str) -> ClusterMemory:
    memory, problems = read_memory(servers, NOW_MS)
    assert problems == []
    return memory


def test_a_memory_is_read_as_it_was_written_by_any_of_its_name_servers(tmp_path: Path) -> None:
    note_sightings(("ns:1", "ns:2"), _sightings(), NOW_MS)
    for servers in (["ns:1"], ["ns:2"], ["ns:2", "ns:1"]):
        memory = _read(*servers)
        assert (memory.brokers, dict(memory.topics)) == (_sightings().brokers, _sightings().topics)
    assert _read("ns:3") == ClusterMemory()
    files = list((tmp_path / "state").glob("cluster-*.json"))
    assert len(files) == 2
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert forget(["ns:1"], "broker-a", NOW_MS)
    assert not forget(["ns:1"], "broker-a", NOW_MS)
    assert _read("ns:1").brokers == {}


def test_names_of_this_machine_are_one_name_server() -> None:
    note_sightings(("localhost:9876",), _sightings(), NOW_MS)
    for spelling in ("LOCALHOST:9876", "127.0.0.1:9876", "[::1]:9876", "::1:9876"):
        assert list(_read(spelling).brokers) == ["broker-a"], spelling
    assert _read("localhost:9877") == ClusterMemory()


def test_while_another_run_writes_what_this_one_saw_is_left_out(tmp_path: Path) -> None:
    note_sightings(("ns:1",), _sightings(), NOW_MS)
    (file,) = (tmp_path / "state").glob("cluster-*.json")
    descriptor = os.open(file.with_suffix(".lock"), os.O_RDWR)
    lock_file(descriptor)
    other = Sightings(brokers={"broker-b": SeenBroker("C", "b:1", NOW_MS)})
    assert note_sightings(("ns:1",), other, NOW_MS) == []
    assert list(_read("ns:1").brokers) == ["broker-a"]
    os.close(descriptor)
    assert note_sightings(("ns:1",), other, NOW_MS) == []
    assert list(_read("ns:1").brokers) == ["broker-a", "broker-b"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"brokers": 7}', "\x00" * 100, "[" * 100_000])
def test_a_damaged_memory_is_told_by_every_command_until_it_is_deleted(
    text: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with seeded(brokers=2) as sandbox:
        monkeypatch.setenv("NAMESRV_ADDR", sandbox.addr)
        assert call(capsys, "cluster", "list").code == 0
        (file,) = (tmp_path / "state").glob("cluster-*.json")
        file.write_text(text)
        for words in (("cluster", "list"), ("offset", "show", "G"), ("cluster", "list")):
            assert f"{file} is damaged" in call(capsys, *words).err, words
        rows = json.loads(call(capsys, "doctor", "-o", "json").out)["items"]
        assert [(row["status"], str(file) in row["found"]) for row in rows if row["check"] == "memory"] == [
            ("WARN", True)
        ]
        refused = call(capsys, "doctor", "--forget-broker", "broker-b")
        assert (refused.code, "is damaged" in refused.err, "is forgotten" in refused.err) == (2, True, False)
        assert file.read_text() == text
        file.unlink()
        assert call(capsys, "cluster", "list").err == ""


def test_a_memory_that_cannot_be_written_is_told_by_every_command(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with seeded(brokers=2) as sandbox:
        monkeypatch.setenv("NAMESRV_ADDR", sandbox.addr)
        assert call(capsys, "cluster", "list").code == 0
        sandbox.stop_broker("broker-b")
        # A file stands where the lock would: nobody writes there, root neither.
        (file,) = (tmp_path / "state").glob("cluster-*.json")
        file.with_suffix(".lock").unlink()
        file.with_suffix(".lock").mkdir()
        refused = call(capsys, "doctor", "--forget-broker", "broker-b")
        assert (refused.code, "Cannot use" in refused.err, "is forgotten" in refused.err) == (2, True, False)
        assert call(capsys, "cluster", "list").code == 8
        monkeypatch.setenv("RMQCTL_STATE", os.devnull)
        for words in (("cluster", "list"), ("offset", "show", "G")):
            assert f"{os.devnull} is not a folder" in call(capsys, *words).err, words
        monkeypatch.setenv("RMQCTL_MEMORY", "0")
        assert call(capsys, "cluster", "list").err == ""


def test_a_broker_that_was_there_is_named_until_it_is_forgotten(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with seeded(brokers=2) as sandbox:
        monkeypatch.setenv("NAMESRV_ADDR", sandbox.addr)
        assert call(capsys, "offset", "show", "G").code == 0
        sandbox.stop_broker("broker-b")
        shown = call(capsys, "offset", "show", "G", "-o", "json")
        assert shown.code == 8
        rows = {(item["brokerName"], item["queueId"]): item for item in json.loads(shown.out)["items"]}
        assert len(rows) == 4
        assert rows["broker-b", 0]["reasons"]["lag"] == "BROKER_NOT_REGISTERED"
        monkeypatch.setenv("RMQCTL_MEMORY", "0")
        assert call(capsys, "offset", "show", "G").code == 0
        monkeypatch.setenv("RMQCTL_MEMORY", "soon")
        result = call(capsys, "offset", "show", "G")
        assert (result.code, "RMQCTL_MEMORY" in result.err) == (2, True)
        monkeypatch.delenv("RMQCTL_MEMORY")
        found = [
            (item["subject"], item["status"])
            for item in json.loads(call(capsys, "doctor", "-o", "json").out)["items"]
            if item["check"] == "brokers"
        ]
        assert found == [("broker-b", "FAIL")]
        assert "broker-b is forgotten" in call(capsys, "doctor", "--forget-broker", "broker-b").err
        assert call(capsys, "doctor", "--forget-broker", "broker-b").code == 5
        assert call(capsys, "offset", "show", "G").code == 0


@pytest.mark.parametrize("lost", ["cache", "memory", "memory, before a change"])
def test_reads_and_changes_expect_the_same_whatever_was_emptied(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    reset = ("offset", "reset", "G", "--topic", "T", "--to-offset")
    with seeded(brokers=2) as sandbox:
        monkeypatch.setenv("NAMESRV_ADDR", sandbox.addr)
        assert call(capsys, *reset, "2", "--yes").code == 0
        sandbox.stop_broker("broker-b")
        if lost == "cache":
            monkeypatch.setenv("RMQCTL_CACHE", str(tmp_path / "another"))
        else:
            # The journal replaces it.
            (memory,) = (tmp_path / "state").glob("cluster-*.json")
            memory.unlink()
        if lost != "memory, before a change":
            assert call(capsys, "offset", "show", "G").code == 8
        result = call(capsys, *reset, "4", "--yes")
        assert result.code == 1
        assert "Missing: 2 queues at broker-b (broker-b: not registered; rmqctl last saw it at " in result.err
        assert call(capsys, *reset, "4", "--yes", "--partial").code == 8
        assert call(capsys, "doctor", "--forget-broker", "broker-b").code == 0
        for words in (("offset", "show", "G"), ("doctor",), (*reset, "3", "--yes"), ("cluster", "list")):
            assert call(capsys, *words).code == 0, words


def test_a_new_cluster_at_an_address_is_not_taken_for_the_one_before(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with seeded(brokers=2) as sandbox:
        monkeypatch.setenv("NAMESRV_ADDR", sandbox.addr)
        assert call(capsys, "offset", "reset", "G", "--topic", "T", "--to-offset", "2", "--yes").code == 0
        (memory,) = (tmp_path / "state").glob("cluster-*.json")
        memory.unlink()
        # Another name server has another memory, and another journal's changes are not its own.
        assert (list(_read(sandbox.addr).brokers), _read("127.0.0.1:1")) == (["broker-a", "broker-b"], ClusterMemory())
        forget_cluster(sandbox.addr)
        assert _read(sandbox.addr) == ClusterMemory()
        sandbox.stop_broker("broker-b")
        assert call(capsys, "offset", "reset", "G", "--topic", "T", "--to-offset", "4", "--yes").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("watch", "--rounds", "1", "--rate", "100", "--each-round"),
        ("top", "--rounds", "1", "--rate", "100", "-o", "plain"),
        ("consume", "run", "G", "T", "--print", "--for", "100ms", "--yes"),
    ],
)
def test_a_command_that_runs_for_long_reads_and_writes_it_like_every_other(
    words: tuple[str, ...], capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with seeded(brokers=2) as sandbox:
        monkeypatch.setenv("NAMESRV_ADDR", sandbox.addr)
        assert call(capsys, *words).code == 0
        sandbox.stop_broker("broker-b")
        # What that run saw is in the memory, and it reads what another run saw.
        for other in (("group", "list"), words):
            result = call(capsys, *other)
            assert result.code == 8, other
            assert "broker-b: not registered; rmqctl last saw it at " in result.err, other
        assert not re.search(r"\bOK\b", result.out)


def test_a_command_that_runs_for_long_expects_the_brokers_of_its_context(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("consume", "run", "G", "T", "--print", "--for", "100ms", "--yes")
    config = tmp_path / "config.toml"
    monkeypatch.setenv("RMQCTL_CONFIG", str(config))
    with seeded(brokers=1) as sandbox:
        config.write_text(f'[contexts.c]\nnamesrv = "{sandbox.addr}"\nbrokers = "broker-a,broker-b"\n')
        result = call(capsys, "--context", "c", *words)
    assert (result.code, "Queues of broker-b are not consumed." in result.err) == (8, True)
