from __future__ import annotations

import pytest

from .calls import call, closed_address, spawn

_N = ("-n", "127.0.0.1:9")


@pytest.mark.parametrize(
    ("argv", "sentence", "hint"),
    [
        (("ofset", "show"), "Unknown command 'ofset'.", "Did you mean offset? See rmqctl --help."),
        (("offset", "shwo"), "Unknown command 'offset shwo'.", "Did you mean offset show? See rmqctl offset --help."),
        (("show",), "Unknown command 'show'.", "Did you mean offset show? See rmqctl --help."),
        (("group", "show"), "Unknown command 'group show'.", "Did you mean group describe? See rmqctl group --help."),
        (("topic", "make"), "Unknown command 'topic make'.", "See rmqctl topic --help."),
        (("offset", "seek"), "Unknown command 'offset seek'.", "Did you mean offset reset?"),
        (("zzz",), "Unknown command 'zzz'.", "See rmqctl --help."),
        (("offset", "zzz", "g"), "Unknown command 'offset zzz'.", "See rmqctl offset --help."),
        (("offset", "show"), "Missing argument 'GROUP...'.", "See rmqctl offset show --help."),
        (("explain",), "Missing argument 'CODE'.", "See rmqctl explain --help."),
        (("explain", "1", "2"), "Got unexpected extra argument(s) (2).", "See rmqctl explain --help."),
        (("-q",), "Missing command.", "See rmqctl --help."),
        (("explain", "206", "-o", "jsn"), "Invalid output format 'jsn'.", "Did you mean json or jsonl?"),
        (("explain", "206", "-o", "zzz"), "Invalid output format 'zzz'.", "Use one of: table, wide, plain, vertical"),
        (("explain", "206", "-o", ""), "Invalid output format ''.", "Use one of: table"),
        (("explain", "206", "--columns", "nmae"), "Unknown column 'nmae'.", "Did you mean name?"),
        (("explain", "206", "--columns", "zzz"), "Unknown column 'zzz'.", "Use one of: code, name, role"),
        (
            ("offset", "skip", "g", *_N, "--topic", "t", "--yes", "--columns", "reconsumed"),
            "Unknown column 'reconsumed'.",
            "That is a column of the plan",
        ),
        (("explain", "206", "--columns", ""), "--columns requires at least one column.", None),
        (("explain", "206", "--columns", " , "), "--columns requires at least one column.", None),
        (("group", "list"), "No name server is given.", "Use -n HOST:9876, the variable NAMESRV_ADDR"),
        (("group", "list", "-n", ""), "No name server is given.", None),
        (("group", "list", "-n", ";"), "No name server is given.", None),
        (("group", "list", "-n", "non sense"), "Invalid address 'non sense'.", "Write host:port"),
        (("group", "list", "-n", "h:1;h:99999"), "Invalid address 'h:99999'.", "Write host:port"),
        (("group", "list", "-n", "ftp://h"), "Invalid URL ftp://... for name servers.", "Write http://"),
        (("group", "list", *_N, "--timeout", "soon"), "--timeout: invalid duration 'soon'", None),
        (("group", "list", *_N, "--timeout", ""), "--timeout: invalid duration ''", None),
        (("group", "list", *_N, "--timeout", "-5s"), "--timeout: invalid duration '-5s'", None),
        (("group", "list", *_N, "--timeout", "0"), "--timeout: the timeout must be above 0.", None),
        (("group", "list", *_N, "--timeout", "0.4ms"), "--timeout: the timeout must be above 0.", None),
        (("group", "list", *_N, "--timeout", "9999999d"), "--timeout: invalid duration '9999999d'", None),
    ],
)
def test_a_mistake_is_one_sentence_and_a_hint_and_exits_2(
    argv: tuple[str, ...], sentence: str, hint: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    result = call(capsys, *argv)
    assert (result.code, result.out) == (2, "")
    lines = result.err.splitlines()
    assert lines[0].startswith(f"rmqctl: {sentence}")
    assert len(lines) <= 2
    if hint is not None:
        assert lines[1].startswith(f"        {hint}")


@pytest.mark.parametrize("argv", [("--bogus",), ("offset", "show", "g", "--bogus"), ("offset", "--bogus", "show")])
def test_an_unknown_option_is_a_mistake(argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, *argv)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("rmqctl: No such option")
    assert "--bogus" in result.err


def test_an_option_spelt_almost_right_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--topic" in call(capsys, "offset", "show", "g", "--topci", "t").err


@pytest.mark.parametrize("number", ["\uff11\uff12", "1_000", " 12 ", "1e3", "\u0663", "0x10", ""])
@pytest.mark.parametrize(
    "argv",
    [
        ("offset", "reset", "g", "--topic", "t", "--to-offset"),
        ("message", "get", "--topic", "t", "--queue", "b:0", "--offset"),
        ("message", "find", "t", "--limit"),
        ("watch", "--rounds"),  # with a range
        ("watch", "--rate"),  # may have decimals
        ("group", "update", "g", "--retries"),
        ("group", "update", "g", "--set", "retryMaxTimes="),
        ("offset", "show", "g", "--queue", "b:"),
        ("offset", "show", "g", "--timeout", "s"),
        ("message", "find", "t", "--since", "m"),
        ("group", "list", "-n", "127.0.0.1:"),
    ],
    ids=" ".join,
)
def test_a_number_is_written_in_plain_digits(
    argv: tuple[str, ...], number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    *words, last = argv
    joined = {"s": f"{number}s", "m": f"{number}m"}.get(last, last + number)
    given = (*words, joined) if last[-1:] in "=:sm" and not last.startswith("--") else (*words, last, number)
    result = call(capsys, *given, *(() if "-n" in argv else _N))
    assert (result.code, result.out) == (2, "")
    assert "rmqctl: " in result.err


@pytest.mark.parametrize("option", ["-n", "--context", "-o", "--columns", "--timeout"])
def test_an_option_without_its_value_is_a_mistake(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, "group", "list", option)
    assert result.code == 2
    assert "requires an argument" in result.err


def test_a_mistake_is_told_as_json_when_json_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (
        ("explain", "-o", "json"),
        ("-o", "json", "explain"),
        ("explain", "-ojson"),
        ("explain", "--output=json"),
        ("explain", "--output", "jsonl"),
        ("explain", "-o", "json", "--bogus"),
        ("nonsense", "-o", "json"),
    ):
        result = call(capsys, *argv)
        assert (result.code, result.out) == (2, "")
        document = result.error
        assert (document["apiVersion"], document["kind"]) == ("rmqctl/v1", "Error")
        assert (document["name"], document["exitCode"]) == ("USAGE", 2)
        assert document["message"]
        assert result.err.count("\n") == 1


def test_terminal_escapes_in_words_are_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (
        ("\x1b[31mred",),
        ("explain", "\x1b[31mred\u202e"),
        ("explain", "1", "-o", "\x9b31m"),
        ("--\x1b]0;x\x07",),
    ):
        result = call(capsys, *argv)
        assert result.code in (2, 5)
        assert not set(result.err) & set("\x1b\x9b\u202e\x07")


def test_words_that_are_no_unicode_are_no_traceback() -> None:
    done = spawn("-n", closed_address(), "offset", "show", "\udcff")
    assert done.returncode in (1, 6)
    assert done.stderr.startswith("rmqctl: ")
    assert spawn("explain", "\udcff").returncode == 5


def test_with_debug_the_traceback_is_shown_and_the_exit_code_stays() -> None:
    done = spawn("-n", closed_address(), "group", "list", "--debug")
    assert done.returncode == 6
    assert "Traceback" in done.stderr
    assert "UnreachableError" in done.stderr
    assert "connection refused" in done.stderr.splitlines()[-2]
