from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from rmqctl.client.auth import Credentials
from rmqctl.client.secrets import credentials_of_environment, read_credentials
from rmqctl.errors import UsageError

from .calls import call, closed_address, spawn

_GOOD = "accessKey: operator\nsecretKey: s3cret-value\n"


def _file(folder: Path, data: str | bytes) -> str:
    path = folder / "rmqctl.credentials"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    path.chmod(0o600)
    return str(path)


@pytest.mark.parametrize(
    ("text", "credentials"),
    [
        (_GOOD, Credentials("operator", "s3cret-value")),
        ("# of prod\n\nsecretKey: s3cret-value\r\naccessKey:operator", Credentials("operator", "s3cret-value")),
        (_GOOD + "securityToken: tok", Credentials("operator", "s3cret-value", "tok")),
        (_GOOD + "securityToken:\n", Credentials("operator", "s3cret-value")),
        ("accessKey: \"a b\"\nsecretKey: 'it''s: # 1'\n", None),
        ("accessKey: 'a: b' # who\nsecretKey: x#y # not a secret\n", Credentials("a: b", "x#y")),
        ("\ufeff" + _GOOD, Credentials("operator", "s3cret-value")),
        ("accessKey: k\nsecretKey: a:b:c\n", Credentials("k", "a:b:c")),
    ],
    ids=["plain", "comments and line ends", "token", "no token", "quotes", "quotes and comments", "mark", "colons"],
)
def test_a_file_holds_a_name_and_a_value_a_line(text: str, credentials: Credentials | None, tmp_path: Path) -> None:
    read = read_credentials(_file(tmp_path, text))
    if credentials is None:  # a quote inside quotes: what is not understood is kept as it is
        credentials = Credentials("a b", "'it''s:")
    assert read == credentials


def _modes(is_exposed: bool, *modes: int) -> list[tuple[int, bool]]:
    return [(mode, is_exposed) for mode in modes]


@pytest.mark.parametrize(("mode", "is_exposed"), [*_modes(False, 0o600, 0o400), *_modes(True, 0o644, 0o640, 0o602)])
@pytest.mark.parametrize("kind", ["credentials", "tls-key", "tls-cert"])
def test_a_file_that_others_can_access_is_named_once_on_stderr(
    kind: str, mode: int, is_exposed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(_file(tmp_path, _GOOD))
    path.chmod(mode)
    err = call(capsys, "cluster", "list", "-n", closed_address(), f"--{kind}", str(path)).err
    assert err.count(f"chmod 600 {path}\n") == is_exposed


_BAD: list[tuple[str | bytes, str]] = [
    ("", "has no accessKey and no secretKey."),
    ("accessKey: operator\n", "has no secretKey."),
    ("accessKey: operator\nsecretKey:\n", "has no secretKey."),
    ("accessKey: operator\nsecretKey: ''\n", "has no secretKey."),
    ("accessKey: operator\ns3cret-value\n", "is not `name: value`."),
    ("s3cret-value: x\n", "Unknown name in line 1 of"),
    ("accesKey: operator\nsecretKey: s3cret-value", "Unknown name in line 1 of"),
    (b"secretKey: s3cret-value\xff\n", "it is not UTF-8."),
    (b"secretKey: " + b"s3cret-value" * 10_000, "is larger than 64 KiB."),
]


@pytest.mark.parametrize(("data", "words"), _BAD)
def test_a_file_that_can_not_be_used_is_one_sentence_without_what_it_holds(
    data: str | bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _file(tmp_path, data)
    result = call(capsys, "group", "list", "-n", "127.0.0.1:9", "--credentials", path)
    assert (result.code, result.out) == (2, "")
    assert all(part in result.err.splitlines()[0] for part in (f"credentials file {path}", words))
    assert len(result.err.splitlines()) <= 2
    assert "s3cret" not in result.err


def test_a_name_spelt_almost_right_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_credentials(_file(tmp_path, "accesskey: x"))
    assert caught.value.hint == "Did you mean accessKey?"


def test_a_file_that_can_not_be_opened_is_a_mistake(tmp_path: Path) -> None:
    for path, words in (
        (str(tmp_path), "is a directory"),
        (str(tmp_path / "gone"), "no such file or directory"),
        ("a\0b", "invalid file name"),
    ):
        with pytest.raises(UsageError, match=words):
            read_credentials(path)


def test_not_even_a_traceback_shows_a_secret(tmp_path: Path) -> None:
    for data, _ in _BAD:
        path = _file(tmp_path, data)
        done = spawn("group", "list", "-n", closed_address(), "--credentials", path, "--debug")
        assert done.returncode == 2
        assert "Traceback" in done.stderr
        assert "s3cret" not in done.stderr
    path = _file(tmp_path, _GOOD)
    done = spawn("group", "list", "-n", closed_address(), "--credentials", path, "--debug")
    assert done.returncode == 6
    assert "s3cret" not in done.stderr


_NAMES = ("RMQCTL_ACCESS_KEY", "RMQCTL_SECRET_KEY", "RMQCTL_SECURITY_TOKEN")


def _environment(monkeypatch: pytest.MonkeyPatch, *values: str | None) -> None:
    for name, value in itertools.zip_longest(_NAMES, values):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)


def test_the_environment_has_credentials_too(monkeypatch: pytest.MonkeyPatch) -> None:
    _environment(monkeypatch, "operator", "s3cret")
    assert credentials_of_environment() == Credentials("operator", "s3cret")
    _environment(monkeypatch, "operator", "s3cret", "tok")
    assert credentials_of_environment() == Credentials("operator", "s3cret", "tok")
    for values in ((), ("", ""), (None, None, "tok")):
        _environment(monkeypatch, *values)
        assert credentials_of_environment() is None


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (("operator", None), "must be set together"),
        ((None, "s3cret"), "must be set together"),
        (("operator", ""), "must be set together"),
        (("operator", "s3cret\udcff"), "Cannot read RMQCTL_SECRET_KEY: it is not UTF-8."),
    ],
)
def test_half_of_them_is_a_mistake(
    values: tuple[str | None, ...], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _environment(monkeypatch, *values)
    result = call(capsys, "group", "list", "-n", "127.0.0.1:9")
    assert result.code == 2
    assert words in result.err
    assert "s3cret" not in result.err


def test_a_file_stands_above_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _environment(monkeypatch, "operator", None)
    path = _file(tmp_path, _GOOD)
    assert call(capsys, "group", "list", "-n", "127.0.0.1:9", "--credentials", path).code == 6
