from __future__ import annotations

from pathlib import Path

import pytest

from rmqctl.cli.config.file import read_context
from rmqctl.cli.config.place import config_path

from .calls import Result, call, closed_address

_TWO = """
current-context = "prod"
[contexts.prod]
namesrv = "127.0.0.1:{prod}"
timeout = "7s"
output = "json"
[contexts.dev]
namesrv = "127.0.0.1:{dev}"
[contexts.bare]
"""


@pytest.fixture
def ports(config_file: Path) -> dict[str, str]:
    """Return addresses where nobody listens, by name; two of them stand in the configuration."""
    addresses = {name: closed_address() for name in ("prod", "dev", "flag", "env")}
    config_file.write_text(_TWO.format(**{name: address.split(":")[1] for name, address in addresses.items()}))
    return addresses


def _asked(result: Result) -> str:
    """Return the address that a call tried to reach."""
    assert result.code == 6, result.err
    return result.err.partition("Name server ")[2].partition(": connection refused")[0]


# Which name server


def test_the_current_context_is_used_when_nothing_else_is_said(
    ports: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _asked(call(capsys, "group", "list")) == ports["prod"]


def test_the_environment_stands_above_the_current_context(
    ports: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", ports["env"])
    assert _asked(call(capsys, "group", "list")) == ports["env"]


def test_an_empty_variable_is_none(
    ports: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "")
    assert _asked(call(capsys, "group", "list")) == ports["prod"]


def test_a_named_context_stands_above_the_environment(
    ports: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", ports["env"])
    assert _asked(call(capsys, "group", "list", "--context", "dev")) == ports["dev"]
    assert _asked(call(capsys, "--context", "dev", "group", "list")) == ports["dev"]


def test_the_flag_stands_above_everything(
    ports: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", ports["env"])
    assert _asked(call(capsys, "group", "list", "--context", "dev", "-n", ports["flag"])) == ports["flag"]
    assert _asked(call(capsys, "-n", ports["flag"], "group", "list")) == ports["flag"]


def test_a_flag_behind_the_command_stands_above_one_before_it(
    ports: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _asked(call(capsys, "-n", ports["dev"], "group", "list", "-n", ports["flag"])) == ports["flag"]


def test_an_empty_flag_is_a_mistake_and_does_not_fall_back_to_another_cluster(
    ports: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", ports["env"])
    result = call(capsys, "group", "list", "-n", "")
    assert result.code == 2
    assert "No name server is given" in result.err


def test_a_named_context_without_a_name_server_never_leads_to_another_cluster(
    ports: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", ports["env"])
    result = call(capsys, "group", "list", "--context", "bare")
    assert (result.code, result.out) == (2, "")
    assert "Context bare has no name server." in result.err
    assert _asked(call(capsys, "group", "list", "--context", "bare", "-n", ports["flag"])) == ports["flag"]


# What else a context says


def test_a_contexts_settings_stand_below_the_flags(config_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config_file.write_text('[contexts.c]\nnamesrv = "127.0.0.1:9"\ntimeout = "0"\noutput = "zzz"\n')
    assert "Invalid output format 'zzz'" in call(capsys, "group", "list", "--context", "c").err
    assert "the timeout must be above 0" in call(capsys, "group", "list", "--context", "c", "-o", "json").err
    assert call(capsys, "group", "list", "--context", "c", "-o", "json", "--timeout", "1s").code == 6


def test_a_context_named_beside_a_name_server_still_gives_its_other_settings(
    config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config_file.write_text('[contexts.c]\ntimeout = "nonsense"\n')
    result = call(capsys, "group", "list", "--context", "c", "-n", "127.0.0.1:9")
    assert result.code == 2
    assert "invalid duration 'nonsense'" in result.err
    assert call(capsys, "group", "list", "--context", "d", "-n", "127.0.0.1:9").code == 5


# A configuration that is none


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = [", "is not valid TOML"),
        ("\n\nnonsense", "is not valid TOML"),
        ('contexts = "x"', "is invalid: contexts must be a table"),
        ('[contexts]\nc = "x"', "is invalid: context c must be a table"),
        ("[contexts.c]\nnamesrv = 5", "is invalid: namesrv in context c must be a string"),
        ('[contexts.c]\nnamesrv = ["a:1"]', "is invalid: namesrv in context c must be a string"),
        ('[contexts.c]\nnamserv = "a:1"', "has an unknown setting 'namserv' in context c"),
        ('curent-context = "c"', "has an unknown setting 'curent-context'"),
        ("current-context = 5\n[contexts.c]", "is invalid: current-context must be a string"),
    ],
)
def test_a_configuration_that_says_what_there_is_not_is_a_mistake_that_names_the_file(
    text: str, words: str, config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config_file.write_text(text)
    argv = ["group", "list"] if "current" in text else ["group", "list", "--context", "c"]
    result = call(capsys, *argv)
    assert (result.code, result.out) == (2, "")
    assert f"The configuration file {config_file} {words}" in result.err


def test_an_unknown_setting_gets_a_suggestion(config_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config_file.write_text('[contexts.c]\nnamserv = "a:1"')
    assert "Did you mean namesrv?" in call(capsys, "group", "list", "--context", "c").err
    config_file.write_text('[contexts.c]\nzzz = "a:1"')
    assert (
        "Use one of: namesrv, description, namespace, credentials,"
        in call(capsys, "group", "list", "--context", "c").err
    )


def test_a_configuration_that_is_not_utf_8_is_a_mistake(config_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config_file.write_bytes(b'x = "\xff\xfe"')
    result = call(capsys, "group", "list")
    assert result.code == 2
    assert ": not UTF-8 text." in result.err


def test_a_configuration_that_can_not_be_opened_is_a_mistake(
    config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config_file.mkdir()
    result = call(capsys, "group", "list")
    assert result.code == 2
    assert ": is a directory." in result.err


def test_a_broken_configuration_does_not_matter_when_nothing_of_it_is_needed(
    config_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config_file.write_text("x = [")
    assert call(capsys, "explain", "206").code == 0
    assert call(capsys, "group", "list", "-n", closed_address()).code == 6
    monkeypatch.setenv("NAMESRV_ADDR", closed_address())
    assert call(capsys, "group", "list").code == 6


def test_a_context_that_does_not_exist_is_not_found_with_names_alike(
    ports: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    result = call(capsys, "group", "list", "--context", "prdo")
    assert result.code == 5
    assert "Context prdo does not exist." in result.err
    assert "Did you mean prod?" in result.err
    assert call(capsys, "group", "list", "--context", "").code == 5


def test_a_context_without_any_file_is_a_mistake(config_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, "group", "list", "--context", "prod")
    assert result.code == 2
    assert f"no configuration file {config_file}" in result.err


def test_no_file_and_no_context_is_no_context(config_file: Path) -> None:
    assert read_context(None) is None
    config_file.write_text("")
    assert read_context(None) is None


def test_a_context_is_read_as_written(ports: dict[str, str]) -> None:
    context = read_context(None)
    assert context is not None
    assert (context.name, context.namesrv, context.timeout, context.output) == ("prod", ports["prod"], "7s", "json")
    bare = read_context("bare")
    assert bare is not None
    assert (bare.namesrv, bare.timeout, bare.output) == (None, None, None)


def test_without_the_variable_the_file_is_in_the_users_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RMQCTL_CONFIG")
    assert config_path().parts[-2:] == ("rmqctl", "config.toml")


def test_errors_are_json_when_the_contexts_format_is(config_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config_file.write_text(f'[contexts.c]\nnamesrv = "{closed_address()}"\noutput = "json"')
    result = call(capsys, "group", "list", "--context", "c")
    assert (result.code, result.out) == (6, "")
    assert result.error["name"] == "UNREACHABLE"
