"""Plugins' strategies and resolvers in `whatif allocate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.calls import call

Captured = pytest.CaptureFixture[str]
ROOMS_FIRST = str(Path(__file__).parent.parent.parent.parent / "plugins" / "rooms_first.py")
_HEAD = "from rmqctl.plugin import hookimpl\n@hookimpl\ndef rmqctl_strategies():\n    return {'mine': "


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RMQCTL_PLUGINS", raising=False)


def _spec(tmp_path: Path, **more: object) -> str:
    queues = [{"topic": "T", "brokerName": f"b.{room}", "queueId": 0} for room in ("east", "west")]
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({"queues": queues, "clients": ["c1.west", "c2.east"], **more}))
    return str(path)


@pytest.mark.parametrize("by", ["strategy", "resolver"])
def test_the_shipped_plugin_shares_by_rooms(by: str, capsys: Captured, tmp_path: Path) -> None:
    words = ["whatif", "allocate", "--plugin", ROOMS_FIRST, "-o", "jsonl", "--spec"]
    if by == "strategy":
        options = {"custom": {"siteOf": "zone-suffix"}}
        result = call(capsys, *words, _spec(tmp_path, options=options), "--strategy", "rooms-first")
    else:
        result = call(
            capsys, *words, _spec(tmp_path, strategy="machine-room-nearby", options={"siteOf": "zone-suffix"})
        )
    assert result.code == 0
    shares = json.loads(result.out)["allocation"]
    assert {client_id: [queue["brokerName"] for queue in share] for client_id, share in shares.items()} == {
        "c1.west": ["b.west"], "c2.east": ["b.east"],
    }  # fmt: skip


@pytest.mark.parametrize("made", ["lambda *_: 1 / 0", "lambda *_: {'c9': []}", "lambda *_: exit(0)", "3"])
def test_a_bad_plugin_never_makes_a_table(made: str, capsys: Captured, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"{_HEAD}{made}}}\n")
    result = call(
        capsys, "whatif", "allocate", "--spec", _spec(tmp_path), "--strategy", "mine", "--plugin", str(file)
    )  # fmt: skip
    assert (result.code, result.out) == (1, "")
    assert str(file) in result.err
    assert len(result.err.splitlines()) == 1


def test_what_the_strategy_refuses_is_a_mistake_of_the_call(capsys: Captured, tmp_path: Path) -> None:
    spec = _spec(tmp_path, options={"custom": {"maxShare": 0}})
    result = call(capsys, "whatif", "allocate", "--spec", spec, "--strategy", "rooms-first", "--plugin", ROOMS_FIRST)
    assert (result.code, result.out) == (2, "")
    assert "maxShare 0." in result.err.splitlines()[0]
    assert "number of at least 1" in result.err.splitlines()[1]
