"""The screens of rmqctl top: all groups, one group with its queues and members, and the help."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Key, Paste
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Footer, Static

from rmqctl.cli.output.cells import cut
from rmqctl.cli.output.listing import Item
from rmqctl.cli.output.render import choose_columns
from rmqctl.cli.output.text import printable
from rmqctl.cli.output.totals import total_words
from rmqctl.cli.watch.display import show_time_lag
from rmqctl.observe.fleet_activity import GroupActivity, GroupKey
from rmqctl.text.durations import short_duration
from rmqctl.text.filters import is_met
from rmqctl.text.times import iso_time
from rmqctl.text.wildcards import matching
from rmqctl.text.words import counted, listed
from rmqctl.watch.health import worst_first
from rmqctl.watch.items import health_item
from rmqctl.watch.rounds import WatchRound, round_summary

from .columns import GROUPS, MEMBERS, QUEUES, group_item, member_items, queue_items, show_rates
from .grid import Grid
from .group_filter import filter_groups
from .help_text import HELP_TEXT
from .state import TopState

_MOST_FAILURES = 2


class RoundScreen(Screen[None]):
    """A screen that shows a round: where and when it was read, failures, tables, and words about the cursor's row."""

    DEFAULT_CSS = """
    RoundScreen {
        #state { height: 1; }
        #summary { height: auto; text-style: bold; }
        #failures { height: auto; color: ansi_red; }
        #about { height: 2; }
    }
    """

    def __init__(self, state: TopState) -> None:
        super().__init__()
        self.state = state

    def compose(self) -> ComposeResult:
        """Return the widgets from top to bottom."""
        yield Static(id="state")
        yield Static(id="summary")
        yield Static(id="failures")
        yield from self.tables()
        yield Static(id="about")
        yield Footer(compact=True, show_command_palette=False)

    def tables(self) -> Iterator[Widget]:
        """Return the widgets in the middle."""
        raise NotImplementedError

    def on_screen_resume(self) -> None:
        """Show the round of now, at first and after another screen."""
        self.show_round()

    def on_resize(self) -> None:
        """Show the state in the new width."""
        self.show_state()

    def show_state(self) -> None:
        """Show when the round was read, and the number of requests."""
        state = self.state
        age_ms = max(0, state.clock.now_ms() - state.found.at_ms) // 1000 * 1000
        left = printable(
            f"rmqctl top  {state.place}  {str(iso_time(state.found.at_ms))[11:19]}Z, {short_duration(age_ms)} ago"
        )
        if state.is_paused:
            left += "  PAUSED"
        right = f"  {state.corner()}"
        self.say("state", f"{cut(left, max(0, self.size.width - len(right)))}{right}")

    def show_round(self) -> None:
        """Show the round."""
        self.show_state()
        alike: dict[tuple[str | None, str], list[str]] = {}
        for failure in self.state.found.failures:
            alike.setdefault((failure.broker_name, failure.error.sentence), []).append(failure.what)
        lines = [
            f"Not read: {f'{broker_name}: ' if broker_name else ''}{listed(parts)}: {sentence}"
            for (broker_name, sentence), parts in alike.items()
        ]
        if len(lines) > _MOST_FAILURES:
            lines[_MOST_FAILURES:] = [f"Not read: {len(lines) - _MOST_FAILURES} more."]
        self.say("failures", *lines)
        self.query_one("#failures").display = bool(lines)

    def say(self, name: str, *lines: str) -> None:
        """Write lines into one of the texts."""
        self.query_one(f"#{name}", Static).update(Text("\n".join(map(printable, lines))))


class GroupsScreen(RoundScreen):
    """All groups, with a filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "", "Filter"),  # on_key
        Binding("h", "toggle_ok", "Hide OK"),
        Binding("escape", "cancel", "Cancel"),
        Binding("escape", "clear", "Clear"),
    ]
    DEFAULT_CSS = """
    GroupsScreen {
        #groups { height: 1fr; }
        #filter { height: 1; display: none; }
    }
    """

    def __init__(self, state: TopState) -> None:
        super().__init__(state)
        self._is_ok_hidden = False
        self._is_editing = False
        self._filter = self._filter_before = ""
        self._found: WatchRound | None = None
        self._items: list[Item] = []

    def tables(self) -> Iterator[Widget]:
        """Return the table of groups, and the line of the filter."""
        display = self.state.options
        columns = choose_columns(GROUPS, display)
        sort = next((key for key in display.sort_keys if key.removeprefix("-") in {c.key for c in columns}), "health")
        yield Grid(columns, sort=sort, with_color=display.with_color, id="groups")
        yield Static(id="filter")

    def on_mount(self) -> None:
        """Give the keys to the table."""
        self.query_one(Grid).focus()

    def show_round(self) -> None:
        """Show the groups that the conditions match."""
        super().show_round()
        state = self.state
        if self._found is not state.found:
            self._found, self._items = state.found, self._read_items(state.found)
        shown = self._items
        if self._is_ok_hidden:
            shown = [item for item in shown if item["health"] != "OK"]
        shown = list(filter_groups(shown, self._filter))
        parts = [round_summary(state.found)]
        if len(shown) < len(state.found.groups) or self._filter:
            parts.append(f"{len(shown)} shown")
        if self._filter:
            parts.append(f"filter: {self._filter}")
        names = {group.key.group for group in state.found.groups}
        missing = [name for name in state.wanted if not matching([name], names)]
        if missing and state.found.is_read:
            parts.append(f"no offsets yet: {listed(missing)}")
        self.say("summary", "  ".join(parts))
        self.query_one(Grid).show(shown)

    def _read_items(self, found: WatchRound) -> list[Item]:
        """Return the groups that meet --where, the worst first."""
        history, at_ms = self.state.history, found.at_ms
        items = [
            group_item(group, found, partial(history, group.key, at_ms))
            for group in sorted(found.groups, key=worst_first)
        ]
        return [item for item in items if all(is_met(condition, item) for condition in self.state.options.conditions)]

    def on_grid_selected(self, event: Grid.Selected) -> None:
        """Show the reason for the health of the group."""
        item = event.grid.selected
        if item is None:
            self.say("about", "No group matches." if self.state.found.groups else "")
            return
        where = f"{item['worstQueue']}: " if item["worstQueue"] is not None else ""
        self.say("about", f"{item['group']} is {item['health']}. {where}{item['reason']}.")

    def on_grid_opened(self, event: Grid.Opened) -> None:
        """Show the group."""
        self.app.push_screen(GroupScreen(self.state, GroupKey(event.item["cluster"], event.item["group"])))

    def action_toggle_ok(self) -> None:
        """Hide or show the groups that are OK."""
        self._is_ok_hidden = not self._is_ok_hidden
        self.show_round()

    # The filter line is edited here and not in a widget of its own: keys that follow the slash before such a widget has
    # the focus would be lost, or taken for commands.

    def on_key(self, event: Key) -> None:
        """Edit the filter; other keys are those of the bindings."""
        text = self._filter
        if not self._is_editing:
            if event.character != "/":
                return
            self._is_editing = True
            self._filter_before, text = text, ""
        elif event.key == "enter":
            self._is_editing = False
        elif event.key == "backspace":
            text = text[:-1]
        elif event.key == "ctrl+u":
            text = ""
        elif event.is_printable and event.character is not None:
            text += event.character
        else:
            return  # the cursor still moves
        event.stop()
        self._set_filter(text)

    def on_paste(self, event: Paste) -> None:
        """Add pasted text to the filter."""
        if self._is_editing:
            self._set_filter(self._filter + " ".join(event.text.split()))

    def action_cancel(self) -> None:
        """Restore the filter that was there before it was edited."""
        self._is_editing = False
        self._set_filter(self._filter_before)

    def action_clear(self) -> None:
        """Clear the filter."""
        self._set_filter("")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key has a meaning now: Escape cancels an edit, or clears a filter."""
        del parameters
        if action == "cancel":
            return self._is_editing
        return action != "clear" or (bool(self._filter) and not self._is_editing)

    def _set_filter(self, text: str) -> None:
        line = self.query_one("#filter", Static)
        line.display = self._is_editing
        line.update(Text(f"/{printable(text)}_"))
        is_new, self._filter = text != self._filter, text
        self.refresh_bindings()
        if is_new:
            self.show_round()


class GroupScreen(RoundScreen):
    """The queues and members of one group."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,left,backspace", "back", "Back"),
        Binding("tab", "app.focus_next", "Other table"),
    ]
    DEFAULT_CSS = """
    GroupScreen {
        #tables { height: 1fr; }
        #members { margin-top: 1; }
    }
    """

    def __init__(self, state: TopState, key: GroupKey) -> None:
        super().__init__(state)
        self._key = key

    def tables(self) -> Iterator[Widget]:
        """Return the tables of queues and of members."""
        with_color = self.state.options.with_color
        with Vertical(id="tables"):
            yield Grid(QUEUES, sort="health", with_color=with_color, id="queues")
            yield Grid(MEMBERS, sort="-lag", with_color=with_color, id="members")

    def on_mount(self) -> None:
        """Have this group read first while it is shown."""
        self.state.focus_on(self._key)
        self.query_one("#queues", Grid).focus()

    def on_unmount(self) -> None:
        """Read all groups alike again."""
        self.state.focus_on(None)

    def show_round(self) -> None:
        """Show the queues and members."""
        super().show_round()
        queues, members = self.query_one("#queues", Grid), self.query_one("#members", Grid)
        group = next((each for each in self.state.found.groups if each.key == self._key), None)
        if group is None:
            self.say("summary", f"{self._key.group}: not seen any more")
            queues.show([])
            members.show([])
            return
        item = health_item(group, None)
        activity = self.state.found.activities.get(self._key)
        found = member_items(group, activity)
        self.say(
            "summary",
            f"{self._key.group} is {group.health}: lag {total_words(item, 'lag')}, time lag {show_time_lag(item)}, "
            f"{show_rates(item)}, {_members(activity, self.state.clock.monotonic_s())}",
        )
        queues.show(queue_items(group))
        members.show(found)
        self._share_height()

    def on_resize(self) -> None:
        """Share the new height."""
        self._share_height()

    def _share_height(self) -> None:
        """Give each table the lines that it has, and the members at most 40 % of a screen that is too low for both."""
        queues, members = self.query_one("#queues", Grid), self.query_one("#members", Grid)
        height = self.query_one("#tables").size.height
        members_height = min(members.line_count, max(height - queues.line_count - 1, height * 2 // 5))
        members.styles.height = members_height
        queues.styles.height = min(queues.line_count, height - members_height - 1)

    def on_grid_selected(self, event: Grid.Selected) -> None:
        """Show the reason for the health of the queue."""
        item = event.grid.selected
        if event.grid.id != "queues" or item is None:
            return
        clients = f" Held by {', '.join(item['clientIds'])}." if item["clientIds"] else ""
        queue = f"{item['topic']}@{item['brokerName']}:{item['queueId']}"
        self.say("about", f"{queue} is {item['health']}: {item['reason']}.{clients}")

    def action_back(self) -> None:
        """Show all groups."""
        self.app.pop_screen()


def _members(activity: GroupActivity | None, now_s: float) -> str:
    members = None if activity is None else activity.members
    if activity is None or members is None:
        return "members not read yet"
    count = members.member_count
    shown = "members unknown" if count is None else counted(count, "member")
    return f"{shown}, read {short_duration(int(now_s - activity.asked_s) * 1000)} ago"


class HelpScreen(ModalScreen[None]):
    """The keys, and what is shown."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "dismiss", "Close")]
    DEFAULT_CSS = """
    HelpScreen {
        align: center middle;
        #help { width: 80; height: auto; max-height: 100%; border: solid ansi_default; }
    }
    """

    def compose(self) -> ComposeResult:
        """Return the text."""
        with VerticalScroll(id="help") as frame:
            frame.border_title = "Up and Down scroll, Escape closes"
            yield Static(Text(HELP_TEXT))
