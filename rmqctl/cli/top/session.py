"""One run of rmqctl top on a screen: reads rounds while the screen shows them."""

from __future__ import annotations

import asyncio
import math
import os
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from rmqctl.cli.output.activity_line import ActivityLine
from rmqctl.cli.output.display import Display
from rmqctl.cli.watch.session import WatchSettings, missing_groups
from rmqctl.errors import UnreachableError
from rmqctl.watch.incidents import Incidents
from rmqctl.watch.rounds import Watch, WatchRound

from .app import TopApp
from .request_rate import RequestRate
from .state import TopState

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from rmqctl.client.core import Client
    from rmqctl.observe.fleet_activity import GroupKey


class ScreenSession:
    """Opens the screen after the first round, even if no server answered it: the next rounds try again.

    Other errors of that round are raised before the screen opens, NotFoundError among them. A group that was not found
    may exist on a broker that is unreachable. The screen then opens, and ends with NotFoundError when all brokers
    answer and none of them has the group.
    """

    def __init__(self, settings: WatchSettings, display: Display, place: str) -> None:
        self._settings, self._display, self._place = settings, display, place
        self.is_interrupted = False

    async def run(self, client: Client) -> None:
        """Show the screen until the user quits, or --for or --rounds ends it."""
        settings, clock = self._settings, client.clock
        # The screen opens sooner when members are asked after that.
        sampler, window = settings.sampler(client, first_look_s=0.0), settings.window()
        incidents = Incidents(settings.notify_at, settings.quiet_ms)
        watch = Watch(sampler, window, incidents, clock=clock, every_s=settings.every_s)
        requests = RequestRate()

        def corner() -> str:
            rate = requests.update(clock.monotonic_s(), sampler.pace.counts)
            # Rounded down: a moment's delay must not make it look like more than the limit.
            return f"{math.floor(rate * 10) / 10:.1f} of at most {settings.rate_per_s:g} req/s"

        def focus_on(key: GroupKey | None) -> None:
            watch.focus = key

        async with aclosing(self._rounds(client, watch)) as rounds:
            with ActivityLine("Reading all groups", is_wanted=self._display.with_notes):
                first = await anext(rounds)
            if not self._display.with_color:
                os.environ["NO_COLOR"] = "1"  # for Textual
            state = TopState(
                found=first,
                options=self._display,
                place=self._place,
                wanted=settings.groups,
                history=window.consume_history,
                focus_on=focus_on,
                corner=corner,
                clock=clock,
            )
            app = TopApp(state)
            await self._show(app, rounds)
        self.is_interrupted = app.is_interrupted

    async def _rounds(self, client: Client, watch: Watch) -> AsyncGenerator[WatchRound]:
        """Yield the rounds. Raises NotFoundError for a group that does not exist, as soon as all brokers answer."""
        settings, are_names_checked = self._settings, False
        async with aclosing(watch.rounds(for_s=settings.for_s, most=settings.round_count, keeps_trying=True)) as rounds:
            async for found in rounds:
                is_reached = not any(isinstance(failure.error, UnreachableError) for failure in found.failures)
                if is_reached and not are_names_checked:
                    with suppress(UnreachableError):
                        await missing_groups(client, settings.groups, found)
                        are_names_checked = True
                yield found

    async def _show(self, app: TopApp, rounds: AsyncIterator[WatchRound]) -> None:
        """Run the app while rounds are read. Raises what ends either of them."""

        async def read() -> None:
            try:
                async for found in rounds:
                    app.show_round(found)
            finally:
                app.exit()

        reading = asyncio.create_task(read())
        try:
            # Without the mouse, text can be selected as in any other program.
            await app.run_async(mouse=False)
        finally:
            reading.cancel()
            await asyncio.wait([reading])
        if app.failure is not None:
            raise app.failure
        if not reading.cancelled():
            reading.result()
