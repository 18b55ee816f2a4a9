"""Where plugins are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqctl.errors import PluginError, UsageError
from rmqctl.plugin.inventory import take_inventory
from rmqctl.plugin.loader import load_plugins, strategies
from rmqctl.plugin.sources import Origin, find_sources

_STRATEGY = (
    "from rmqctl.plugin import hookimpl\n@hookimpl\ndef rmqctl_strategies():\n    return {'NAME': lambda *_: {}}\n"
)


def install(folder: Path, name: str, module: str, *, text: str = _STRATEGY) -> None:
    """Lay a distribution as pip does, with one plugin that is called like it."""
    info = folder / f"{name}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[rmqctl]\n{name}-point = {module}\n[other]\nx = {module}\n")
    (folder / f"{module}.py").write_text(text.replace("NAME", name))


def test_an_installed_plugin_is_found_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "acme", "acme_of_test_sources")
    monkeypatch.syspath_prepend(tmp_path)
    assert set(strategies(load_plugins(environ={}))) == {"acme"}
    own, source = find_sources(environ={})
    assert (own.origin, own.label) == (Origin.BUILT_IN, "rmqctl's own")
    assert (source.name, source.origin, source.distribution, source.version, source.path) == (
        "acme-point", Origin.INSTALLED, "acme", "1.2", None,
    )  # fmt: skip


def test_an_installed_plugin_that_fails_is_named_with_its_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "acme", "acme_broken_of_test_sources", text="import no_such_module\n")
    install(tmp_path, "fine", "fine_of_test_sources")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match=r"plugin acme-point of acme 1\.2: ModuleNotFoundError"):
        load_plugins(environ={})
    states = {report.source.name: not report.errors for report in take_inventory(environ={}).reports}
    assert states == {"rmqctl": True, "acme-point": False, "fine-point": True}


def test_a_file_that_is_named_twice_is_one(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(_STRATEGY)
    link = tmp_path / "link.py"
    link.symlink_to(file)
    sources = find_sources([str(file), f"{tmp_path}/./mine.py"], {"RMQCTL_PLUGINS": f"{link}::{file}"})
    assert [source.path for source in sources] == [None, str(file.resolve())]


def test_links_that_go_in_a_circle_are_no_file(tmp_path: Path) -> None:
    link = tmp_path / "circle.py"
    link.symlink_to(link)
    with pytest.raises(UsageError, match="does not exist"):
        load_plugins([str(link)], {})


def test_files_of_one_name_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    files = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        files.append(tmp_path / name / "plugin.py")
        files[-1].write_text(_STRATEGY.replace("NAME", name))
    assert set(strategies(load_plugins([str(file) for file in files], {}))) == {"one", "two"}


def test_a_plugin_may_have_dataclasses(tmp_path: Path) -> None:
    """They look up their module to understand what `from __future__ import annotations` leaves as texts."""
    file = tmp_path / "mine.py"
    head = "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom typing import ClassVar\n"
    file.write_text(f"{head}@dataclass\nclass C:\n    x: int\n    y: ClassVar[int] = 1\n{_STRATEGY}")
    assert set(strategies(load_plugins([str(file)], {}))) == {"NAME"}


def test_what_is_no_python_file_is_said(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text(_STRATEGY)
    with pytest.raises(PluginError, match=r"mine\.txt: ImportError: it is not a Python file"):
        load_plugins([str(file)], {})
