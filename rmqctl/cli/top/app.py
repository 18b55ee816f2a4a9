"""The full screen of rmqctl top: runs the screens while rounds arrive."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from rmqctl.watch.rounds import WatchRound

from .screens import GroupsScreen, HelpScreen, RoundScreen
from .state import TopState


class TopApp(App[None]):
    """Shows rounds as they arrive, the first one at once."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen, Footer { background: ansi_default; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p,space", "pause", "Pause"),
        Binding("question_mark", "help", "Help"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+z", "stop", show=False, priority=True),
    ]

    def __init__(self, state: TopState) -> None:
        super().__init__(ansi_color=True)
        self.state = state
        self._latest = state.found
        self.is_interrupted = False
        self._loop_handlers: dict[int, Callable[[], object]] = {}

    @property
    def failure(self) -> Exception | None:
        """The error that ended the screen."""
        return self._exception

    def show_round(self, found: WatchRound) -> None:
        """Show a round; while the screen is paused, the last one is shown when it continues."""
        self._latest = found
        if not self.state.is_paused:
            self._show_latest()

    def _show_latest(self) -> None:
        self.state.found = self._latest
        if (screen := self._round_screen()) is not None:
            screen.show_round()

    def on_mount(self) -> None:
        """Open the first screen."""
        self.theme = "ansi-dark"
        self.push_screen(GroupsScreen(self.state))
        self.set_interval(1.0, self._show_state)
        if not self.is_headless and os.name == "posix":
            # Textual's own handlers start the screen a second time when another process stopped and continued this one,
            # and SIGTERM would leave the terminal as the screen needs it.
            self._loop_handlers = {
                signal.SIGTERM: self.exit, signal.SIGTSTP: self.action_stop, signal.SIGCONT: self.screen.refresh
            }  # fmt: skip
            for number, handler in self._loop_handlers.items():
                asyncio.get_running_loop().add_signal_handler(number, handler)

    def on_unmount(self) -> None:
        """Leave the signals to the system again."""
        for number in self._loop_handlers:
            asyncio.get_running_loop().remove_signal_handler(number)

    def _show_state(self) -> None:
        if (screen := self._round_screen()) is not None:
            screen.show_state()

    def _round_screen(self) -> RoundScreen | None:
        """Return the screen to update; None for the help, and before and after a screen has its widgets."""
        # The app's timers run longer than its screens.
        if not self.is_running or not isinstance(self.screen, RoundScreen) or not self.screen.is_mounted:
            return None
        return self.screen

    def action_pause(self) -> None:
        """Keep this round on the screen, or show the latest one again. Rounds are read meanwhile, for the verdicts."""
        self.state.is_paused = not self.state.is_paused
        self._show_latest()

    def action_help(self) -> None:
        """Show the help."""
        self.push_screen(HelpScreen())

    def action_stop(self) -> None:
        """Stop this process until the shell continues it."""
        with self.suspend():
            os.kill(os.getpid(), signal.SIGSTOP)

    def action_interrupt(self) -> None:
        """End with the exit code of Ctrl-C."""
        self.is_interrupted = True
        self.exit()

    def _fatal_error(self) -> None:
        # Textual's own traceback shows values of variables; the caller raises `failure` instead.
        self._close_messages_no_wait()
