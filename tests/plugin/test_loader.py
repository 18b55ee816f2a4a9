from __future__ import annotations

import ast
import base64
import gzip
import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from pluggy import PluginManager

import rmqctl.plugin
from rmqctl.errors import PluginError, UsageError
from rmqctl.plugin import MessageQueue, builtin_codecs, hookspecs
from rmqctl.plugin.loader import KINDS, body_codec, body_codecs, load_plugins, run_codec, site_resolvers, strategies
from tests.docs import DOCS

SHIPPED = Path(__file__).parent.parent.parent / "plugins"
_HEAD = "from rmqctl.plugin.hookspecs import hookimpl\n@hookimpl\n"
_GOOD = (
    _HEAD + "def rmqctl_body_codecs():\n    return {'upper': lambda body, properties, topic: body.decode().upper()}\n"
)


def _file(tmp_path: Path, text: str, name: str = "mine.py") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def _hooks() -> list[str]:
    return [name for name, made in vars(hookspecs).items() if hasattr(made, "rmqctl_spec")]


def test_every_hook_is_documented() -> None:
    assert set(_hooks()) == {kind.hook for kind in KINDS}
    for name in _hooks():
        text = inspect.getdoc(getattr(hookspecs, name)) or ""
        assert text.startswith("Return "), name
        assert len(text.splitlines()) > 1, name
    assert "--plugin FILE" in (hookspecs.__doc__ or "")
    assert len(Path(inspect.getfile(hookspecs)).read_text().splitlines()) < 100


def test_what_plugins_import_is_documented_and_all_that_shipped_ones_need() -> None:
    text = (Path(inspect.getfile(hookspecs)).parent / "hookspecs.py").read_text()
    for name in ("BodyCodec", "SiteResolver", "AllocationError", "hookimpl"):
        assert name in text
        assert name in rmqctl.plugin.__all__
    assert all(hasattr(rmqctl.plugin, name) for name in rmqctl.plugin.__all__)
    for path in SHIPPED.glob("*.py"):
        imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        ours = {node.module for node in imports if (node.module or "").startswith("rmqctl")}
        assert ours
        assert ours <= {"rmqctl.plugin", "rmqctl.plugin.hookspecs"}, path


def test_rmqctls_own_codecs_come_by_the_same_hook() -> None:
    assert set(body_codecs(load_plugins(environ={}))) == {"base64", "msgpack"}
    assert hasattr(builtin_codecs.rmqctl_body_codecs, "rmqctl_impl")
    text = body_codec("base64", environ={})(base64.b64encode("ü".encode()), {}, "T")
    assert text == "ü"
    value = body_codec("msgpack", environ={})(msgspec.msgpack.encode({1: [b"x", "y"]}), {}, "T")
    assert value == {"1": ["eA==", "y"]}


def test_a_plugin_comes_by_its_file_or_by_the_variable(tmp_path: Path) -> None:
    file = _file(tmp_path, _GOOD)
    other = _file(tmp_path, _GOOD.replace("upper", "lower"), "other.py")
    assert body_codec("upper", [file], {})(b"abc", {}, "T") == "ABC"
    codecs = body_codecs(load_plugins([file, file], {"RMQCTL_PLUGINS": f"{file}:{other}:"}))
    assert set(codecs) == {"base64", "msgpack", "upper", "lower"}


def test_a_codec_that_there_is_not_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="codec 'uper'") as caught:
        body_codec("uper", [_file(tmp_path, _GOOD)], {})
    assert caught.value.hint == "Did you mean upper?"


@pytest.mark.parametrize("name", ["gbk", "GB18030", "shift_jis", "utf-16", "latin-1", "utf-8"])
def test_every_text_encoding_of_python_is_a_codec(name: str) -> None:
    text = "abc" if name == "latin-1" else "中文"
    assert body_codec(name, environ={})(text.encode(name), {}, "T") == text


@pytest.mark.parametrize("name", ["zlib", "rot13", "hex", "nowhere", "", "g\0bk"])
def test_what_is_no_encoding_of_texts_is_no_codec(name: str) -> None:
    with pytest.raises(UsageError, match="Unknown codec"):
        body_codec(name, environ={})


def test_a_codec_that_nothing_looks_like_gets_the_names_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        body_codec("xml", environ={})
    assert caught.value.hint is not None
    for word in ("base64", "msgpack", "text encodings", "gbk", "--plugin"):
        assert word in caught.value.hint


def test_a_plugins_codec_goes_before_an_encoding_of_its_name(tmp_path: Path) -> None:
    file = _file(tmp_path, _GOOD.replace("upper", "gbk", 1))
    assert body_codec("gbk", [file], {})(b"abc", {}, "T") == "ABC"


def test_a_file_that_there_is_not_is_a_mistake_of_the_call() -> None:
    with pytest.raises(UsageError, match=r"Plugin file 'nowhere\.py'"):
        load_plugins(["nowhere.py"], {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def broken(:", "SyntaxError"),
        ("raise RuntimeError('two\\nlines')", ": RuntimeError: two lines."),
        ("raise SystemExit(3)", ": SystemExit: 3."),
        ("raise BaseException(3)", ": BaseException: 3."),
        (_HEAD + "def rmqctl_body_codecs():\n    raise GeneratorExit\n", "failed: GeneratorExit"),
        (_HEAD + "def rmqctl_no_such_hook():\n    return 1\n", ": PluginValidationError"),
        (_HEAD + "def rmqctl_body_codecs(wrong):\n    return {}\n", ": PluginValidationError"),
        (_HEAD + "def rmqctl_body_codecs():\n    1 / 0\n", "failed: ZeroDivisionError"),
        (_HEAD + "def rmqctl_body_codecs():\n    return 3\n", "failed: TypeError"),
        (_HEAD + "def rmqctl_body_codecs():\n    return {'x': 3}\n", "its codec 'x' is not callable"),
        (_HEAD + "def rmqctl_body_codecs():\n    return {3: len}\n", "failed: 3 is not a name"),
        (_HEAD + "def rmqctl_body_codecs():\n    return {'': len}\n", "failed: '' is not a name"),
    ],
)
def test_a_plugin_that_fails_is_one_sentence_with_its_name(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(PluginError) as caught:
        body_codec("x", [_file(tmp_path, text)], {})
    assert says in caught.value.sentence
    assert "mine.py" in caught.value.sentence
    assert "\n" not in caught.value.sentence


def test_two_plugins_with_one_name_are_refused_and_an_own_codec_can_be_taken_over(tmp_path: Path) -> None:
    one, two = _file(tmp_path, _GOOD, "one.py"), _file(tmp_path, _GOOD, "two.py")
    with pytest.raises(PluginError, match=r"one\.py and .*two\.py define a codec 'upper'"):
        body_codec("upper", [one, two], {})
    mine = _file(tmp_path, _GOOD.replace("'upper'", "'base64'"))
    assert body_codec("base64", [mine], {})(b"abc", {}, "T") == "ABC"


@pytest.mark.parametrize(
    ("hook", "noun", "asked"),
    [("rmqctl_strategies", "strategy", strategies), ("rmqctl_site_resolvers", "site resolver", site_resolvers)],
)
def test_strategies_and_resolvers_follow_the_same_rules(
    hook: str, noun: str, asked: Callable[[PluginManager], dict[str, object]], tmp_path: Path
) -> None:
    assert asked(load_plugins(environ={})) == {}
    good = f"{_HEAD}def {hook}():\n    return {{'mine': lambda *given: None}}\n"
    one, two = _file(tmp_path, good, "one.py"), _file(tmp_path, good, "two.py")
    assert set(asked(load_plugins([one], {}))) == {"mine"}
    assert set(asked(load_plugins([], {"RMQCTL_PLUGINS": one}))) == {"mine"}
    for files, says in (
        ([one, two], rf"Both .*one\.py and .*two\.py define a {noun} 'mine'\."),
        ([_file(tmp_path, f"{_HEAD}def {hook}():\n    return {{'mine': 3}}\n")], f"its {noun} 'mine' is not callable"),
        ([_file(tmp_path, f"{_HEAD}def {hook}():\n    1 / 0\n", "zero.py")], r"zero\.py failed: ZeroDivisionError"),
    ):
        with pytest.raises(PluginError, match=says):
            asked(load_plugins(files, {}))


def test_the_manuals_plugin_works(tmp_path: Path) -> None:
    (text,) = re.findall(
        r"```python\n(from rmqctl\.plugin import .*?)```", (DOCS / "plugins.md").read_text(), re.DOTALL
    )
    manager = load_plugins([_file(tmp_path, text)], {})
    queue = MessageQueue("T", "a", 0)
    assert strategies(manager)["all-to-first"]([queue], ["c1", "c2"], {}) == {"c1": [queue], "c2": []}
    assert site_resolvers(manager)["by-dash"]("broker", "east-a") == "east"
    assert body_codecs(manager)["reversed"](b"ab", {}, "T") == "ba"


def test_what_a_plugin_brings_is_guarded_and_named(tmp_path: Path) -> None:
    text = (
        f"{_HEAD}def rmqctl_strategies():\n    return {{'mine': lambda queues, clients, options: 3}}\n"
        "@hookimpl\ndef rmqctl_site_resolvers():\n    return {'mine': lambda kind, name: 3}\n"
    )
    manager = load_plugins([_file(tmp_path, text)], {})
    with pytest.raises(PluginError, match=r"^Strategy mine of plugin .*mine\.py failed: it returns 3, not"):
        strategies(manager)["mine"]([MessageQueue("T", "a", 0)], ["c"], {})
    with pytest.raises(
        PluginError, match=r"^Site resolver mine of plugin .*mine\.py failed: for broker a it returns 3"
    ):
        site_resolvers(manager)["mine"]("broker", "a")


def test_the_shipped_plugin_reads_gzipped_json() -> None:
    codec = body_codec("gzip-json", [str(SHIPPED / "gzip_json.py")], {})
    body = gzip.compress(json.dumps({"a": [1, "ü"]}).encode())
    assert run_codec("gzip-json", codec, body, {}, "T") == {"a": [1, "ü"]}
    parts = gzip.compress(b'{"a":') + gzip.compress(b"7}")
    assert run_codec("gzip-json", codec, parts, {}, "T") == {"a": 7}
    for broken, says in (
        (b"", "truncated"),
        (body + b"behind", "not gzip"),
        (gzip.compress(b""), "JSONDecodeError"),
        (b"plain", "not gzip"),
        (body[:-9], "truncated"),
        (gzip.compress(b"{"), "JSONDecodeError"),
    ):
        with pytest.raises(PluginError, match=says):
            run_codec("gzip-json", codec, broken, {}, "T")


def test_the_shipped_plugin_is_not_hurt_by_a_bomb() -> None:
    codec = body_codec("gzip-json", [str(SHIPPED / "gzip_json.py")], {})
    bomb = gzip.compress(b" " * (40 * 1024 * 1024))
    for body in (gzip.compress(b" " * (70 * 1024 * 1024)), bomb + bomb):
        with pytest.raises(PluginError, match="larger than 67108864 bytes"):
            run_codec("gzip-json", codec, body, {}, "T")


def test_a_shipped_plugin_needs_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("gzip_json", "gzip_json.py"):
        assert "gzip-json" in body_codecs(load_plugins([name], {}))
    (tmp_path / "gzip_json.py").write_text(_GOOD)
    assert "gzip-json" not in body_codecs(load_plugins(["gzip_json.py"], {}))


def test_every_shipped_plugin_can_be_loaded() -> None:
    files = [str(path) for path in SHIPPED.glob("*.py")]
    assert files
    manager = load_plugins(files, {})
    assert set(body_codecs(manager)) == {"base64", "msgpack", "gzip-json"}
    assert set(strategies(manager)) == {"rooms-first"}
    assert set(site_resolvers(manager)) == {"zone-suffix"}
