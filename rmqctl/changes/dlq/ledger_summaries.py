"""What ledgers of replays say as a whole: their runs, and what the last one left."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from msgspec import Struct

from rmqctl.changes.dlq.rules.replay import ReplayTarget, ReplayTargetKind
from rmqctl.model.receipt import ChangeState
from rmqctl.state.database import format_number
from rmqctl.state.process import change_state

from .ledger import LedgerState, ledger_folder, ledger_paths, read_only


class ReplayRun(Struct, frozen=True):
    """One run of a replay: how many were to be sent, and the results. `ended_at_ms`: None if it runs or was killed.

    `unread` are brokers whose dead letters were not all read, `beyond_count` are those beyond the requested maximum.
    """

    started_at_ms: int
    ended_at_ms: int | None
    state: ChangeState
    reason: str | None
    user: str
    host: str
    pid: int
    planned_count: int
    sent_count: int
    dropped_count: int
    unread: tuple[str, ...] = ()
    beyond_count: int = 0

    @property
    def left_count(self) -> int:
        """Number of planned dead letters that were not sent, or may not have been sent."""
        return max(0, self.planned_count - self.sent_count - self.dropped_count)


class LedgerSummary(Struct, frozen=True):
    """A ledger as a whole."""

    id: str
    name: str
    path: Path
    cluster: str
    group: str
    target: ReplayTarget
    created_at_ms: int
    sent_count: int
    dropped_count: int
    in_doubt_count: int
    runs: tuple[ReplayRun, ...]


def read_ledgers(groups: Collection[str] = ()) -> list[LedgerSummary]:
    """Return all ledgers of this user, or only those of some groups, the newest first."""
    found = [_summary(path) for path in ledger_paths(ledger_folder(create=False))]
    chosen = [each for each in found if each is not None and (not groups or each.group in groups)]
    return sorted(chosen, key=lambda each: -each.created_at_ms)


def _summary(path: Path) -> LedgerSummary | None:
    """Return a ledger's summary; None if its first process ended before it wrote what the ledger is for."""
    with read_only(path) as connection:
        if format_number(connection) == 0:
            return None
        row = connection.execute(
            "SELECT id, name, cluster, group_name, kind, topic, created_at_ms FROM ledger"
        ).fetchone()
        if row is None:
            return None
        found = connection.execute("SELECT run, state, count(*) FROM letters GROUP BY run, state")
        counts = {(run, state): count for run, state, count in found}
        in_doubt = connection.execute("SELECT count FROM under_way").fetchone()
        # Ledgers of earlier versions have no such table.
        has_gaps = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'gaps'").fetchone() is not None
        gaps = connection.execute("SELECT run, broker_name, left_count FROM gaps").fetchall() if has_gaps else []
        runs = connection.execute(
            "SELECT id, started_at_ms, ended_at_ms, reason, user, host, pid, process_start, planned_count FROM runs"
            " ORDER BY id"
        )
        return LedgerSummary(
            id=row[0],
            name=row[1],
            path=path,
            cluster=row[2],
            group=row[3],
            target=ReplayTarget(ReplayTargetKind(row[4]), row[5]),
            created_at_ms=row[6],
            sent_count=_total(counts, LedgerState.SENT),
            dropped_count=_total(counts, LedgerState.DROPPED),
            in_doubt_count=0 if in_doubt is None else in_doubt[0],
            runs=tuple(
                ReplayRun(
                    started_at_ms=started_at_ms,
                    ended_at_ms=ended_at_ms,
                    state=change_state(ended_at_ms, host, pid, start),
                    reason=reason,
                    user=user,
                    host=host,
                    pid=pid,
                    planned_count=planned_count,
                    sent_count=counts.get((number, LedgerState.SENT), 0),
                    dropped_count=counts.get((number, LedgerState.DROPPED), 0),
                    unread=tuple(sorted(name for run, name, _ in gaps if run == number and name is not None)),
                    beyond_count=sum(count for run, _, count in gaps if run == number),
                )
                for number, started_at_ms, ended_at_ms, reason, user, host, pid, start, planned_count in runs
            ),
        )


def _total(counts: Mapping[tuple[int, int], int], wanted: LedgerState) -> int:
    return sum(count for (_, state), count in counts.items() if state == wanted)
