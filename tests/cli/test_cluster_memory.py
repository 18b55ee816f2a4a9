"""What rmqctl remembers between runs, on a sandbox of which a broker stops."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rmqctl.cli.cluster_memory import forget, note_sightings, read_memory
from rmqctl.model.cluster_memory import ClusterMemory, SeenBroker, SeenQueues, Sightings

from .calls import call
from .change.seeded import seeded

Captured = pytest.CaptureFixture[str]

NOW_MS = 1_800_000_000_000


def _sightings() -> Sightings:
    return Sightings(
        brokers={"broker-a": SeenBroker("C", "a:1", NOW_MS)}, topics={"T": {"broker-a": SeenQueues(4, 4, 6, NOW_MS)}}
    )


def test_a_memory_is_read_as_it_was_written_by_any_of_its_name_servers(tmp_path: Path) -> None:
    note_sightings(("ns:1", "ns:2"), _sightings(), NOW_MS)
    for servers in (["ns:1"], ["ns:2"], ["ns:2", "ns:1"]):
        memory = read_memory(servers)
        assert (memory.brokers, dict(memory.topics)) == (_sightings().brokers, _sightings().topics)
    assert read_memory(["ns:3"]) == ClusterMemory()
    files = list((tmp_path / "cache").glob("cluster-*.json"))
    assert len(files) == 2
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert forget(["ns:1"], "broker-a", NOW_MS)
    assert not forget(["ns:1"], "broker-a", NOW_MS)
    assert read_memory(["ns:1"]).brokers == {}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"brokers": 7}', "\x00" * 100, "[" * 100_000])
def test_a_file_that_is_none_is_nothing_to_expect(text: str, tmp_path: Path) -> None:
    note_sightings(("ns:1",), _sightings(), NOW_MS)
    (file,) = (tmp_path / "cache").glob("cluster-*.json")
    file.write_text(text)
    assert read_memory(["ns:1"]) == ClusterMemory()
    note_sightings(("ns:1",), _sightings(), NOW_MS)
    assert list(read_memory(["ns:1"]).brokers) == ["broker-a"]


def test_where_nothing_can_be_written_nothing_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQCTL_CACHE", os.devnull)
    note_sightings(("ns:1",), _sightings(), NOW_MS)
    assert read_memory(["ns:1"]) == ClusterMemory()
    assert not forget(["ns:1"], "broker-a", NOW_MS)


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


def test_a_change_remembers_by_its_journal_what_the_cache_has_lost(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQCTL_CACHE", os.devnull)
    with seeded(brokers=2) as sandbox:
        monkeypatch.setenv("NAMESRV_ADDR", sandbox.addr)
        reset = ("offset", "reset", "G", "--topic", "T", "--to-offset")
        assert call(capsys, *reset, "2", "--yes").code == 0
        sandbox.stop_broker("broker-b")
        result = call(capsys, *reset, "4", "--yes")
        assert result.code == 1
        assert "only partly seen: 2 queues at broker-b (broker-b: registered until " in result.err
        assert call(capsys, *reset, "4", "--yes", "--partial").code == 8
        # Reading does not open the journal.
        assert call(capsys, "offset", "show", "G").code == 0
