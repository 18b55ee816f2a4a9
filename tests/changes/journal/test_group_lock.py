"""One writer at a time in a group, and how long the next one waits. Other processes are real ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.admin.topics.queues import QueueChoice
from rmqctl.changes.journal.group_lock import cool_down_ms, group_lock, lock_places
from rmqctl.errors import BusyError, UsageError
from rmqctl.model.plan import Operation, Subject
from tests.changes.change_case import ask, planned, two_brokers

HERE = ("a:1",)
_ROOT = Path(__file__).parents[2]
_HOLD = """
import sys
from pathlib import Path
from rmqctl.changes.journal.group_lock import group_lock
from rmqctl.model.plan import Subject
with group_lock(Subject(sys.argv[2]), "offset reset", sys.argv[3:], folder=Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(folder: Path, group: str, *places: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has a group's lock until its input ends, or it is killed."""
    command = [sys.executable, "-c", _HOLD, str(folder), group, *(places or HERE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_a_group_that_another_process_changes_is_refused_with_who_and_what(tmp_path: Path) -> None:
    with holder(tmp_path, "G") as process:
        with pytest.raises(BusyError) as raised, group_lock(Subject("G"), Operation.OFFSET_SKIP, HERE, folder=tmp_path):
            pytest.fail("two have the lock")
        assert raised.value.sentence == f"Group G is being changed by process {process.pid} (offset reset)."
        assert (raised.value.exit_code, raised.value.name) == (1, "BUSY")


def test_the_lock_is_free_when_its_process_ended_by_itself_or_was_killed(tmp_path: Path) -> None:
    with holder(tmp_path, "G") as process:
        process.communicate("")
        assert process.returncode == 0
        with group_lock(Subject("G"), "offset skip", HERE, folder=tmp_path):
            pass
    with holder(tmp_path, "G") as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        with group_lock(Subject("G"), "offset skip", HERE, folder=tmp_path):
            pass


def test_who_comes_after_a_killed_process_is_the_one_that_is_named(tmp_path: Path) -> None:
    with holder(tmp_path, "G") as process:
        process.kill()
        process.wait()
    with group_lock(Subject("G"), "group delete", HERE, folder=tmp_path), pytest.raises(BusyError) as raised:
        group_lock(Subject("G"), "offset skip", HERE, folder=tmp_path).__enter__()
    assert raised.value.sentence == f"Group G is being changed by process {os.getpid()} (group delete)."


def test_who_has_not_written_yet_who_it_is_is_another_process(tmp_path: Path) -> None:
    with group_lock(Subject("G"), "offset skip", HERE, folder=tmp_path):
        (file,) = (tmp_path / "locks").iterdir()
        os.truncate(file, 0)
        with pytest.raises(BusyError, match="is being changed by another process"):
            group_lock(Subject("G"), "offset skip", HERE, folder=tmp_path).__enter__()


def test_other_groups_are_free_whatever_their_names(tmp_path: Path) -> None:
    with (
        group_lock(Subject("G"), "offset reset", HERE, folder=tmp_path),
        group_lock(Subject("g"), "offset reset", HERE, folder=tmp_path),
        group_lock(Subject("../../G" + "x" * 300), "offset reset", HERE, folder=tmp_path),
        group_lock(Subject("%RETRY%\udcff"), "offset reset", HERE, folder=tmp_path),
    ):
        files = list((tmp_path / "locks").iterdir())
    assert len(files) == 4
    assert {len(file.stem) for file in files} == {16}
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_groups_of_one_name_in_two_clusters_are_changed_at_the_same_time(tmp_path: Path) -> None:
    with (
        holder(tmp_path, "G", "C@ns:1", "a:1", "b:1"),
        group_lock(Subject("G"), "offset reset", ("C@other:1", "x:1", "y:1"), folder=tmp_path),
    ):
        pass


@pytest.mark.parametrize(
    "places",
    [("C@ns2:1", "a:1", "b:1"), ("C@ns2:1", "b:1"), ("C@ns:1", "moved:1")],
    ids=["by another name server", "while a broker is away", "while all brokers moved"],
)
def test_one_cluster_is_locked_however_it_is_named(tmp_path: Path, places: tuple[str, ...]) -> None:
    with holder(tmp_path, "G", "C@ns:1", "a:1", "b:1") as process:
        with pytest.raises(BusyError, match=f"by process {process.pid} "):
            group_lock(Subject("G"), "offset skip", places, folder=tmp_path).__enter__()
        # What it had taken by then is free again.
        with group_lock(
            Subject("G"), "offset skip", [place for place in places if place == "C@ns2:1"], folder=tmp_path
        ):
            pass


def test_a_group_is_locked_at_all_masters_of_its_cluster_whichever_its_plan_touches() -> None:
    cluster = two_brokers()
    plan = planned(cluster, queues=(QueueChoice("broker-a", 0, 0),)).plan
    assert set(plan.brokers.values()) == {"a:1"}
    assert ask(cluster, lambda client: lock_places(client, plan)) == {"a:1", "b:1", plan.cluster}


def test_the_lock_is_given_up_and_the_error_kept_when_the_change_fails(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError, match="of the change"),
        group_lock(Subject("G"), "offset reset", HERE, folder=tmp_path),
    ):
        raise FileNotFoundError("of the change")
    with group_lock(Subject("G"), "offset reset", HERE, folder=tmp_path):
        pass
    (file,) = (tmp_path / "locks").iterdir()
    assert file.read_bytes() == b""


def test_locks_stand_in_the_users_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))
    with group_lock(Subject("G"), "offset reset", HERE):
        assert len(list((tmp_path / "state" / "locks").iterdir())) == 1


def test_a_folder_that_cannot_be_used_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("a file")
    with pytest.raises(UsageError, match="file exists") as raised:
        group_lock(Subject("G"), "offset reset", HERE, folder=tmp_path).__enter__()
    assert "RMQCTL_STATE" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("since_ms", "wait_ms"), [(0, 15_000), (1, 14_999), (10_000, 5_000), (14_999, 1), (15_000, 0), (10**12, 0)]
)
def test_after_a_push_the_pause_of_clients_and_a_persist_are_waited_for(since_ms: int, wait_ms: int) -> None:
    assert cool_down_ms((2_000_000, 1), 2_000_000 + since_ms) == wait_ms


def test_nothing_is_waited_for_after_other_ways() -> None:
    assert cool_down_ms((1000, 0), 1000) == 0


def test_clients_that_are_told_of_several_topics_stand_still_for_one_after_the_other() -> None:
    assert cool_down_ms((1000, 3), 1000) == 15_000 + 2 * 16_500


def test_nothing_is_waited_for_before_the_first_change() -> None:
    assert cool_down_ms(None, 1000) == 0


@given(st.integers(0, 2**63), st.integers(0, 2**63))
def test_a_clock_that_was_set_back_never_makes_it_wait_longer_than_the_full_time(last_ms: int, now_ms: int) -> None:
    wait_ms = cool_down_ms((last_ms, 1), now_ms)
    assert 0 <= wait_ms <= 15_000
    if now_ms < last_ms:
        assert wait_ms == 15_000
