from __future__ import annotations

import base64
import gzip
import inspect
import json
from pathlib import Path

import msgspec
import pytest

from rmqctl.errors import PluginError, UsageError
from rmqctl.plugin import builtin_codecs, hookspecs
from rmqctl.plugin.loader import body_codec, body_codecs, load_plugins, run_codec

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
    assert _hooks() == ["rmqctl_body_codecs"]
    for name in _hooks():
        text = inspect.getdoc(getattr(hookspecs, name)) or ""
        assert text.startswith("Return "), name
        assert len(text.splitlines()) > 1, name
    assert "--plugin FILE" in (hookspecs.__doc__ or "")
    assert len(Path(inspect.getfile(hookspecs)).read_text().splitlines()) < 60


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
    with pytest.raises(UsageError, match="no codec 'uper'") as caught:
        body_codec("uper", [_file(tmp_path, _GOOD)], {})
    assert caught.value.hint == "Did you mean upper?"


def test_a_file_that_there_is_not_is_a_mistake_of_the_call() -> None:
    with pytest.raises(UsageError, match=r"no plugin file 'nowhere\.py'"):
        load_plugins(["nowhere.py"], {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def broken(:", "can't be loaded: SyntaxError"),
        ("raise RuntimeError('two\\nlines')", "can't be loaded: RuntimeError: two lines"),
        ("raise SystemExit(3)", "can't be loaded: SystemExit: 3"),
        (_HEAD + "def rmqctl_no_such_hook():\n    return 1\n", "can't be loaded: PluginValidationError"),
        (_HEAD + "def rmqctl_body_codecs(wrong):\n    return {}\n", "can't be loaded: PluginValidationError"),
        (_HEAD + "def rmqctl_body_codecs():\n    1 / 0\n", "failed: ZeroDivisionError"),
        (_HEAD + "def rmqctl_body_codecs():\n    return 3\n", "failed: TypeError"),
        (_HEAD + "def rmqctl_body_codecs():\n    return {'x': 3}\n", "its codec 'x' can't be called"),
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
    with pytest.raises(PluginError, match=r"one\.py and .*two\.py bring a codec 'upper'"):
        body_codec("upper", [one, two], {})
    mine = _file(tmp_path, _GOOD.replace("'upper'", "'base64'"))
    assert body_codec("base64", [mine], {})(b"abc", {}, "T") == "ABC"


def test_the_shipped_plugin_reads_gzipped_json() -> None:
    codec = body_codec("gzip-json", [str(SHIPPED / "gzip_json.py")], {})
    body = gzip.compress(json.dumps({"a": [1, "ü"]}).encode())
    assert run_codec("gzip-json", codec, body, {}, "T") == {"a": [1, "ü"]}
    for broken, says in ((b"plain", "not gzip"), (body[:-9], "cut off"), (gzip.compress(b"{"), "JSONDecodeError")):
        with pytest.raises(PluginError, match=says):
            run_codec("gzip-json", codec, broken, {}, "T")


def test_the_shipped_plugin_is_not_hurt_by_a_bomb() -> None:
    codec = body_codec("gzip-json", [str(SHIPPED / "gzip_json.py")], {})
    with pytest.raises(PluginError, match="larger than 67108864 bytes"):
        run_codec("gzip-json", codec, gzip.compress(b" " * (70 * 1024 * 1024)), {}, "T")


def test_every_shipped_plugin_can_be_loaded() -> None:
    files = [str(path) for path in SHIPPED.glob("*.py")]
    assert files
    assert len(body_codecs(load_plugins(files, {}))) > 2
