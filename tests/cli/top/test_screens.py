"""The screens of `rmqctl top` with made-up rounds: keys, filter, pause, one group, sizes, errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import pytest
from textual.pilot import Pilot

from rmqctl.cli.output.display import Display
from rmqctl.cli.top.app import TopApp
from rmqctl.cli.top.state import TopState
from rmqctl.errors import UnreachableError
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupState, ProcessQueueInfo, RunningInfo
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import GroupSample, OwnerSample, QueueSample
from rmqctl.observe.fleet_activity import GroupActivity, GroupKey
from rmqctl.observe.group_sampler import MembersSample
from rmqctl.observe.recording import QueueDetail, RecordedSample
from rmqctl.rules.health import HealthSettings
from rmqctl.watch.health import HealthWindow
from rmqctl.watch.rounds import WatchRound

if TYPE_CHECKING:
    from rmqctl.net.clock import Clock

_START_MS = 1_800_000_000_000
_Offsets = tuple[int | None, int | None]
_MEMBER = "10.0.0.7@1"


class Still:
    """A clock that moves only from round to round."""

    at_s = 0

    def now_ms(self) -> int:
        return _START_MS + self.at_s * 1000

    def monotonic_s(self) -> float:
        return self.at_s


class Fleet:
    """Makes rounds of groups with two queues each."""

    def __init__(self) -> None:
        self.clock = Still()
        self.window = HealthWindow(300_000, HealthSettings())
        self.focused: list[GroupKey | None] = []

    def round(self, groups: Mapping[str, _Offsets], *failures: Failure) -> WatchRound:
        """Return a round 15 s after the last one; the offset and the end are those of each queue."""
        self.clock.at_s += 15
        at_ms = self.clock.now_ms()
        for group, (offset, end) in groups.items():
            queues = {}
            for mq in (MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-b", 0)):
                owners = (OwnerSample(_MEMBER, offset, 0, 0),)
                reasons = {} if end is not None else dict.fromkeys(("consumerOffset", "maxOffset"), _GONE)
                queues[mq] = QueueSample(mq, offset, end, owners, reasons=reasons)
            sample = GroupSample(at_ms, 0.0, group, GroupState.ONLINE, (_MEMBER,), queues)
            details = dict.fromkeys(queues, QueueDetail(0, None, is_none_stored=False))
            self.window.add(RecordedSample(sample, "C", details))
        activities = {GroupKey("C", group): _activity(self.clock.monotonic_s()) for group in groups}
        return WatchRound(at_ms, self.window.judge(at_ms), {}, failures, activities)

    def app(self, first: WatchRound, **options: Any) -> TopApp:
        state = TopState(
            found=first,
            options=Display(**options),
            place="test",
            wanted=("fine", "late"),
            history=self.window.consume_history,
            focus_on=self.focused.append,
            corner=lambda: "1.5 of at most 2 req/s",
            clock=cast("Clock", self.clock),
        )
        return TopApp(state)


_GONE = Unknown.BROKER_UNREACHABLE


def _activity(asked_s: float) -> GroupActivity:
    queue = ProcessQueueInfo(0, 0, 0, 1, dropped=False)
    info = RunningInfo({}, {MessageQueue("orders", "broker-a", 0): queue}, {})
    members = MembersSample(
        state=GroupState.ONLINE, client_ids=(_MEMBER,), silent_ids=(), running={_MEMBER: info},
        unowned=Unknown.NOT_ASSIGNED, is_popping=False, is_broadcasting=False, forgetful=frozenset(),
        subscribed=frozenset({"orders"}), knows_topics=True, failures=(),
    )  # fmt: skip
    return GroupActivity(asked_s, members)


_ROUNDS: list[dict[str, _Offsets]] = [
    {"fine": (10 * at, 10 * at), "slow": (10 * at, 30 + 20 * at), "stuck": (7, 500 + at)} for at in range(4)
]


def shown(app: TopApp) -> list[str]:
    """Return the lines of the screen."""
    strips = app.screen._compositor.render_strips()
    assert len(strips) == app.size.height
    return [strip.text.rstrip() for strip in strips]


def _rows(app: TopApp) -> list[str]:
    return [line.split()[0] for line in shown(app) if line.startswith(("fine", "slow", "stuck", "many"))]


def _run(
    test: Callable[[Pilot[None], TopApp, Fleet], Awaitable[None]],
    rounds: list[dict[str, _Offsets]] = _ROUNDS,
    size: tuple[int, int] = (80, 24),
    **options: Any,
) -> TopApp:
    fleet = Fleet()
    found = [fleet.round(groups) for groups in rounds]
    app = fleet.app(found[-1], **options)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await test(pilot, app, fleet)

    asyncio.run(run())
    return app


def test_groups_are_shown_the_worst_first_with_reasons_and_requests() -> None:
    async def look(pilot: Pilot[None], app: TopApp, fleet: Fleet) -> None:
        lines = shown(app)
        assert lines[0].startswith("rmqctl top  test  08:01:00Z, 0s ago")
        assert lines[0].endswith("1.5 of at most 2 req/s")
        assert lines[1] == "3 groups: 1 OK, 1 WARN, 1 STALL  no offsets yet: late"
        assert _rows(app) == ["stuck", "slow", "fine", "stuck"]  # the last one is the sentence below the table
        assert lines[3].split() == ["stuck", "STALL", "992", ">=45s", "0.1", "0.0", "▁▁▁", "1", "2"]
        assert "its offset 7 did not move in 45s" in " ".join(lines)
        await pilot.press("down", "j")
        assert shown(app)[-3].startswith("fine is OK.")
        await pilot.press("g")
        assert shown(app)[-3].startswith("stuck is STALL.")

    _run(look)


def test_rows_are_sorted_by_any_column() -> None:
    async def look(pilot: Pilot[None], app: TopApp, fleet: Fleet) -> None:
        await pilot.press("r")
        assert _rows(app)[:3] == ["fine", "slow", "stuck"]
        await pilot.press("s", "s", "s")  # lag, time lag, messages in
        assert "▼IN/S" in shown(app)[2]
        assert _rows(app)[:3] == ["slow", "fine", "stuck"]
        await pilot.press("S", "S")
        assert "▼LAG" in shown(app)[2]
        assert _rows(app)[:3] == ["stuck", "slow", "fine"]

    _run(look)


def test_a_round_may_arrive_when_the_screens_are_closed() -> None:
    async def look(pilot: Pilot[None], app: TopApp, fleet: Fleet) -> None:
        await pilot.press("q")

    app = _run(look)
    app.show_round(app.state.found)
    assert app.failure is None


def test_the_filter_takes_keys_that_follow_at_once() -> None:
    async def look(pilot: Pilot[None], app: TopApp, fleet: Fleet) -> None:
        await pilot.press("slash", *"sss", "backspace", "backspace", *"low")
        lines = shown(app)
        assert lines[1] == "3 groups: 1 OK, 1 WARN, 1 STALL  1 shown  filter: slow  no offsets yet: late"
        assert (_rows(app)[:1], lines[-4]) == (["slow"], "/slow_")
        await pilot.press("enter")
        assert shown(app)[-4] == ""
        await pilot.press("h", "slash", *"fine")
        assert "No group matches." in shown(app)

    _run(look)


@pytest.mark.parametrize(
    ("keys", "filter_", "escape"),
    [
        (("slash", *"fine"), "fine", "esc Cancel"),
        (("slash", *"fine", "enter"), "fine", "esc Clear"),
        (("slash", "enter"), "", ""),
        (("slash", *"fine", "escape"), "slow", "esc Clear"),
        (("escape",), "", ""),
    ],
)
def test_a_new_filter_replaces_the_last_one_unless_it_is_cancelled(
    keys: tuple[str, ...], filter_: str, escape: str
) -> None:
    async def look(pilot: Pilot[None], app: TopApp, fleet: Fleet) -> None:
        await pilot.press("slash", *"slow", "enter", *keys)
        lines = shown(app)
        assert _rows(app)[:-1] == ([filter_] if filter_ else ["stuck", "slow", "fine"])
        assert lines[-4] == (f"/{filter_}_" if escape == "esc Cancel" else "")
        assert ("esc" in lines[-1]) is bool(escape)
        assert escape in lines[-1]

    _run(look)


def test_a_paused_screen_keeps_its_round() -> None:
    async def look(pilot: Pilot[None], app: TopApp, fleet: Fleet) -> None:
        await pilot.press("p")
        app.show_round(fleet.round({"fine": (40, 90), "stuck": (7, 900)}))
        app._show_state()  # a timer does it
        await pilot.pause()
        lines = shown(app)
        assert lines[0].startswith("rmqctl top  test  08:01:00Z, 15s ago  PAUSED")
        assert "992" in lines[3]
        await pilot.press("space")
        assert "1786" in shown(app)[3]
        assert "PAUSED" not in shown(app)[0]

    _run(look)


def test_the_cursor_stays_on_its_group_or_at_the_top() -> None:
    async def look(pilot: Pilot[None], app: TopApp, fleet: Fleet) -> None:
        await pilot.press("down")
        app.show_round(fleet.round({"fine": (40, 40), "new": (5, 5), "slow": (0, 90), "stuck": (7, 510)}))
        await pilot.pause()
        assert (_rows(app)[:2], shown(app)[-3][:8]) == (["slow", "stuck"], "slow is ")  # REWIND
        app.show_round(fleet.round({"fine": (40, 40), "slow": (0, 95), "stuck": (0, 520)}))
        await pilot.pause()
        assert (_rows(app)[0], shown(app)[-3][:8]) == ("stuck", "stuck is")

    _run(look)


def test_a_group_is_opened_with_its_queues_and_members() -> None:
    async def look(pilot: Pilot[None], app: TopApp, fleet: Fleet) -> None:
        await pilot.press("down", "enter")
        lines = shown(app)
        assert fleet.focused == [GroupKey("C", "slow")]
        assert lines[1].startswith("slow is WARN: lag 120, time lag ")
        assert "out 1.3/s, 1 member, read 0s ago" in " ".join(lines[1:3])
        assert [line.split()[:4] for line in lines if line.startswith("orders ")] == [
            ["orders", "broker-a", "0", "WARN"],
            ["orders", "broker-b", "0", "WARN"],
        ]
        assert next(line for line in lines if line.startswith(_MEMBER)).split()[:3] == [_MEMBER, "1", "60"]
        await pilot.press("tab", "down", "question_mark")
        assert any("Escape closes" in line for line in shown(app))
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert _rows(app)[:3] == ["stuck", "slow", "fine"]
        assert fleet.focused == [GroupKey("C", "slow"), None]

    _run(look)


def test_what_was_not_read_is_named_and_unknown() -> None:
    async def look(pilot: Pilot[None], app: TopApp, fleet: Fleet) -> None:
        error = UnreachableError("10.0.0.9:10911", "connection refused")
        failures = [Failure("broker-b", what, error) for what in ("offsets", "members")]
        app.show_round(fleet.round({"slow": (None, None)}, *failures))
        await pilot.pause()
        lines = shown(app)
        assert lines[2] == "Not read: broker-b: offsets, members: 10.0.0.9:10911: connection refused."
        row = next(line for line in lines if line.startswith("slow "))
        assert row.split()[:6] == ["slow", "WARN", "-", "-", "-", "-"]
        assert row.split()[6].endswith("·")
        app.show_round(fleet.round({"slow": (50, 90)}))
        await pilot.pause()
        assert not any("Not read" in line for line in shown(app))

    _run(look)


def test_a_first_round_that_no_server_answers_is_shown_until_the_next_one() -> None:
    fleet = Fleet()
    error = UnreachableError("10.0.0.5:9876", "connection refused")
    unread = WatchRound(fleet.clock.now_ms(), (), {}, [Failure(None, "all groups", error)], is_read=False)
    app = fleet.app(unread)

    async def main() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            assert shown(app)[1:3] == ["Not read yet.", "Not read: all groups: 10.0.0.5:9876: connection refused."]
            app.show_round(fleet.round(_ROUNDS[0]))
            await pilot.pause()
            assert shown(app)[1].startswith("3 groups: ")
            assert not any("Not read" in line for line in shown(app))

    asyncio.run(main())


@pytest.mark.parametrize("size", [(80, 24), (20, 5)])
def test_a_thousand_groups_fit_any_size(size: tuple[int, int]) -> None:
    rounds: list[dict[str, _Offsets]] = [
        {f"many-groups-{number:04}": (number, 2000 + at) for number in range(1000)} for at in range(3)
    ]

    async def look(pilot: Pilot[None], app: TopApp, fleet: Fleet) -> None:
        await pilot.press("end")
        assert any("-0999" in line or "999" in line for line in shown(app))
        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        lines = shown(app)
        assert max(map(len, lines)) <= 100
        assert any("many-groups-0999" in line for line in lines)
        await pilot.press("pageup", "home")
        assert "many-groups-0000" in shown(app)[3]

    _run(look, rounds, size)


def test_names_cannot_control_the_terminal_and_markup_is_text() -> None:
    async def look(pilot: Pilot[None], app: TopApp, fleet: Fleet) -> None:
        text = "\n".join(shown(app))
        assert "\\x1b[2Jx" in text
        assert "[bold]y" in text
        assert "\x1b" not in text

    _run(look, [{"\x1b[2Jx": (1, 2), "[bold]y": (1, 1)}], size=(120, 24))


def test_conditions_sort_and_columns_of_the_command_line_apply() -> None:
    from rmqctl.text.filters import parse_condition

    async def look(pilot: Pilot[None], app: TopApp, fleet: Fleet) -> None:
        lines = shown(app)
        assert lines[2].split() == ["GROUP", "▲LAG"]
        assert [line.split() for line in lines[3:5]] == [["slow", "120"], ["stuck", "992"]]

    _run(look, conditions=(parse_condition("lag>0"),), sort_keys=("lag",), columns=("group", "lag"))


@pytest.mark.parametrize(("key", "is_interrupted"), [("q", False), ("ctrl+c", True)])
def test_keys_that_end_it(key: str, is_interrupted: bool) -> None:
    async def look(pilot: Pilot[None], app: TopApp, fleet: Fleet) -> None:
        await pilot.press(key)

    assert _run(look).is_interrupted is is_interrupted


def test_an_error_of_the_screen_ends_it_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    async def look(pilot: Pilot[None], app: TopApp, fleet: Fleet) -> None:
        app.state.corner = lambda: str(1 // 0)
        await pilot.press("p")

    with pytest.raises(ZeroDivisionError):
        _run(look)
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err
