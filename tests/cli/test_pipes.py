from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.admin.cluster import BrokerState, Cluster
from tests.cli.scripted_server import served

from .calls import spawn


def _into_a_closed_pipe(*argv: str, stderr_too: bool = False) -> tuple[int, str]:
    """Run with a standard output whose reader is gone; return the exit code and what went to stderr."""
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        [sys.executable, "-m", "rmqctl", *argv],
        stdout=writer,
        stderr=writer if stderr_too else subprocess.PIPE,
        text=True,
    ) as process:
        os.close(writer)
        _, err = process.communicate(timeout=120)
        return process.returncode, err or ""


@pytest.mark.parametrize(
    "argv",
    [("explain", "206"), ("explain", "206", "-o", "json"), ("--help",), ("--version",), ("explain", "--help")],
    ids=" ".join,
)
def test_a_reader_that_is_gone_is_quiet(argv: tuple[str, ...]) -> None:
    assert _into_a_closed_pipe(*argv) == (0, "")


@pytest.mark.parametrize("form", ["name", "json", "plain"])
def test_a_reader_that_has_seen_enough_of_a_long_listing_is_quiet(form: str) -> None:
    broker = BrokerState("broker-a", configured={f"group-{number:04}-{'x' * 100}" for number in range(2_000)})
    with (
        served(Cluster(broker)) as address,
        subprocess.Popen(
            [sys.executable, "-m", "rmqctl", "-n", address, "group", "list", "-o", form],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process,
    ):  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait(120)) == ("", 0)


def test_an_error_keeps_its_exit_code_when_nobody_reads_it() -> None:
    assert _into_a_closed_pipe("no-such-command", stderr_too=True)[0] == 2
    assert _into_a_closed_pipe("explain", "zzz", stderr_too=True)[0] == 5


@pytest.mark.parametrize("form", ["json", "name", "plain", "csv", "yaml"])
def test_an_output_without_unicode_shows_escapes_and_no_traceback(form: str) -> None:
    with served(Cluster(BrokerState("broker-a", configured={"\u4e2d"}))) as address:
        done = spawn(
            "-n", address, "group", "list", "-o", form, env={**os.environ, "PYTHONIOENCODING": "ascii"}
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u4e2d" in done.stdout


@pytest.mark.parametrize(
    ("words", "closed", "exit_code"),
    [
        ("explain 206", ">&-", 1),
        ("explain 206 -o csv", ">&-", 1),
        ("no-such-command", "2>&-", 2),
        ("no-such-command", "2> /dev/full", 2),
        ("--help", ">&- 2>&-", 1),
        ("context list -o name", ">&-", 0),
    ],
)
def test_a_stream_that_is_closed_or_full_is_no_traceback(words: str, closed: str, exit_code: int) -> None:
    command = f"{sys.executable} -m rmqctl {words} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == exit_code
    assert "Traceback" not in done.stderr
    if exit_code == 1 and "2>" not in closed:
        assert done.stderr == "rmqctl: The output cannot be written: standard output is closed.\n"


def test_a_full_disk_is_one_sentence() -> None:
    command = f"{sys.executable} -m rmqctl explain 206 > /dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr == "rmqctl: The output cannot be written: no space left on device.\n"
