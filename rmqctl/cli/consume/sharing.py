"""How `consume run` shares queues: a strategy with its options, and whether it can do so where it is to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rmqctl.admin.queues import QueueChoice
from rmqctl.consumer.membership import own_client_id
from rmqctl.errors import NotFoundError, UsageError
from rmqctl.plugin.loader import load_plugins, site_resolvers, strategies
from rmqctl.rules.allocate import (
    AllocationError,
    Assignment,
    CustomStrategy,
    Options,
    Strategy,
    find_strategy,
    sort_queues,
    strategy_words,
)
from rmqctl.rules.allocate.strategies import canonical_name
from rmqctl.rules.names import closest
from rmqctl.whatif.trying import TAKERS, require_rooms, resolve_site, with_hint

if TYPE_CHECKING:
    from rmqctl.client.core import Client
    from rmqctl.consumer.settings import ConsumerSettings
    from rmqctl.model.queue import MessageQueue

_CONFIG = "config"
# What these make of any queues and clients needs no look.
_ALWAYS = frozenset({"averagely", "circle", "consistent-hash"})
# What each member can't find out in the same way as the others.
_NOT_ALONE = {
    "sticky": "it goes by who had which queue, which members do not tell each other",
    "lag-weighted": "it goes by lags, which each member would read at another time",
    "pop-share": "brokers share so, among clients that pop",
}


class Sharing:
    """A strategy, and what is to be looked at before it is used. Raises UsageError for what makes no sense.

    `given` are options by their names in Options, `choices` the queues for config, `custom` a plugin's options.
    """

    def __init__(
        self, word: str, given: Mapping[str, Any], choices: Sequence[QueueChoice], custom: Mapping[str, Any],
        plugin_files: Sequence[str],
    ) -> None:  # fmt: skip
        manager = load_plugins(plugin_files)
        brought = strategies(manager)
        self._choices = choices
        self._rooms: Sequence[str] = given.get("rooms", ())
        name = word if word in brought else canonical_name(word)
        _require_usable(word, name, brought)
        _require_taken(name, given, choices, custom, is_custom=name in brought)
        self._may_fail = name in brought or name not in _ALWAYS
        options = {**given}
        site_of = options.pop("site_of", "-")
        resolvers = site_resolvers(manager)
        if name == _CONFIG and name not in brought:
            self.strategy = _by_choice(choices)
            return
        try:
            self.strategy = find_strategy(
                word,
                Options(
                    broker_site=resolve_site("broker", site_of, resolvers),
                    client_site=resolve_site("client", site_of, resolvers), custom=custom, **options,
                ),
                brought,
            )  # fmt: skip
        except AllocationError as error:
            sentence, hint = with_hint(str(error))
            raise UsageError(f"--strategy: {sentence}", hint=hint) from None

    async def require_possible(self, settings: ConsumerSettings, topics: Sequence[str], client: Client) -> None:
        """Let the strategy share each topic as if nobody else was there, before anybody is joined.

        Raises UsageError for what it refuses and for queues that there are not, NotFoundError for rooms that there
        are not, PluginError for a plugin that fails. Topics that are not there yet are looked at when they are.
        """
        if not self._may_fail:
            return
        own_id = own_client_id(settings)
        found: list[MessageQueue] = []
        for topic in topics:
            try:
                route = await client.route(topic)
            except NotFoundError:
                continue
            found += route.readable_queues()
        if not found:
            return
        for choice in self._choices:
            if not any(choice.has(mq) for mq in found):
                brokers = ", ".join(sorted({mq.broker_name for mq in found}))
                sentence = f"--queue: {', '.join(topics)} has no readable queue {choice}."
                raise UsageError(sentence, hint=f"Brokers: {brokers}.")
        require_rooms(self._rooms, {mq.broker_name for mq in found})
        for topic in dict.fromkeys(mq.topic for mq in found):
            try:
                self.strategy.allocate(sort_queues(mq for mq in found if mq.topic == topic), [own_id])
            except AllocationError as error:
                raise UsageError(f"{self.strategy.name} can't share {topic}: {error}") from None


def parse_custom(given: Sequence[str]) -> dict[str, Any]:
    """Read NAME=VALUE: a value is JSON where it can be read so, else a text. Raises UsageError."""
    custom: dict[str, Any] = {}
    for each in given:
        name, sign, text = each.partition("=")
        if not name or not sign:
            raise UsageError(f"--strategy-option {each!r} is no NAME=VALUE.", hint="Such as maxShare=1.5.")
        if name in custom:
            raise UsageError(f"--strategy-option {name} is given twice.")
        try:
            custom[name] = json.loads(text)
        except (ValueError, RecursionError):
            custom[name] = text
    return custom


def _require_usable(word: str, name: str, brought: Mapping[str, CustomStrategy]) -> None:
    if name in brought:
        return
    if name in _NOT_ALONE:
        hint = "rmqctl whatif allocate tries it." if name != "pop-share" else None
        raise UsageError(f"--strategy {word} is none that members can share by: {_NOT_ALONE[name]}.", hint=hint)
    known = [each for each in (*strategy_words(), *brought) if each not in _NOT_ALONE]
    if name not in known:
        like = closest(word, known)
        hint = f"Did you mean {like[0]}?" if like else f"Known: {', '.join(known)}."
        raise UsageError(f"--strategy: There is no strategy {word!r}.", hint=hint)


def _require_taken(
    name: str, given: Mapping[str, Any], choices: Sequence[QueueChoice], custom: Mapping[str, Any], *, is_custom: bool
) -> None:
    """Raise UsageError for an option that the strategy does not take, and for an inner strategy that can't be."""
    for option in given:
        said, takers = TAKERS[option]
        if is_custom or name not in takers:
            usable = [taker for taker in takers if taker not in _NOT_ALONE]
            raise UsageError(f"{said} is for {' and '.join(usable)}, not for {name}.", hint="--strategy names one.")
    inner = canonical_name(given.get("inner", ""))
    if inner in _NOT_ALONE:
        raise UsageError(f"--inner {inner} is none that members can share by: {_NOT_ALONE[inner]}.")
    is_config = name == _CONFIG and not is_custom
    if choices and not is_config:
        raise UsageError(f"--queue is for {_CONFIG}, not for {name}.", hint=f"--strategy {_CONFIG}")
    if is_config and not choices:
        hint = "--queue broker-a:0-3; may be repeated."
        raise UsageError("--strategy: The strategy config needs to be told the queues.", hint=hint)
    if custom and not is_custom:
        raise UsageError(f"--strategy-option is for strategies of plugins, not for {name}.")


def _by_choice(choices: Sequence[QueueChoice]) -> Strategy:
    """Return the strategy config: this member takes what it was told of each topic, whoever else has it."""
    return Strategy(_CONFIG, partial(_allocate_chosen, tuple(choices)), may_repeat=True)


def _allocate_chosen(
    choices: Sequence[QueueChoice], queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> Assignment:
    chosen = [mq for mq in queues if any(choice.has(mq) for choice in choices)]
    return {client_id: list(chosen) for client_id in client_ids}
