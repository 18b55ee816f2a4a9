"""The allocation strategy of `consume run`: its options, and whether it works for the topics and brokers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rmqctl.admin.topics.queues import QueueChoice
from rmqctl.cli.arguments import split_pair
from rmqctl.consumer.membership import own_client_id
from rmqctl.consumer.rules.strategies import NOT_ALONE
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
from rmqctl.text.names import hint_for
from rmqctl.whatif.trials import TAKERS, require_rooms, resolve_site

if TYPE_CHECKING:
    from rmqctl.client.core import Client
    from rmqctl.consumer.settings import ConsumerSettings
    from rmqctl.model.queue import MessageQueue

_CONFIG = "config"
# These work for any queues and clients, so they need no check.
_ALWAYS = frozenset({"averagely", "circle", "consistent-hash"})


class StrategyChoice:
    """A strategy, and the checks before it is used. Raises UsageError for options that do not fit the strategy.

    `given` has options by their names in Options, `choices` the queues for config, `custom` a plugin's options.
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
            raise UsageError(f"--strategy: {error}", hint=error.hint) from None

    async def require_possible(self, settings: ConsumerSettings, topics: Sequence[str], client: Client) -> None:
        """Try the strategy on each topic, with this member alone, before the group is joined.

        Raises UsageError for topics that the strategy refuses and for missing queues, NotFoundError for missing rooms,
        PluginError for a plugin that fails. Topics that do not exist yet are checked later, once they exist.
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
                raise UsageError(sentence, hint=f"Choose a queue on one of the brokers: {brokers}.")
        require_rooms(self._rooms, {mq.broker_name for mq in found})
        for topic in dict.fromkeys(mq.topic for mq in found):
            try:
                self.strategy.allocate(sort_queues(mq for mq in found if mq.topic == topic), [own_id])
            except AllocationError as error:
                raise UsageError(f"{self.strategy.name} cannot share {topic}: {error}", hint=error.hint) from None


def parse_custom(given: Sequence[str]) -> dict[str, Any]:
    """Parse NAME=VALUE; a value that is not valid JSON is a text. Raises UsageError."""
    custom: dict[str, Any] = {}
    for each in given:
        name, text = split_pair("--strategy-option", each, hint="Use for example maxShare=1.5.")
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
    if name in NOT_ALONE:
        hint = "Try it with rmqctl whatif allocate." if name != "pop-share" else None
        raise UsageError(f"--strategy {word} is not supported for members: {NOT_ALONE[name]}.", hint=hint)
    known = [each for each in (*strategy_words(), *brought) if each not in NOT_ALONE]
    if name not in known:
        raise UsageError(f"--strategy: Unknown strategy {word!r}.", hint=hint_for(word, known))


def _require_taken(
    name: str, given: Mapping[str, Any], choices: Sequence[QueueChoice], custom: Mapping[str, Any], *, is_custom: bool
) -> None:
    """Raise UsageError for an option that the strategy does not accept, and for an unsupported inner strategy."""
    for option in given:
        said, takers = TAKERS[option]
        if is_custom or name not in takers:
            usable = [taker for taker in takers if taker not in NOT_ALONE]
            raise UsageError(
                f"{said} is for {' and '.join(usable)}, not for {name}.", hint="Choose another one with --strategy."
            )
    inner = canonical_name(given.get("inner", ""))
    if inner in NOT_ALONE:
        raise UsageError(f"--inner {inner} is not supported for members: {NOT_ALONE[inner]}.")
    is_config = name == _CONFIG and not is_custom
    if choices and not is_config:
        raise UsageError(f"--queue is for {_CONFIG}, not for {name}.", hint=f"Add --strategy {_CONFIG}.")
    if is_config and not choices:
        hint = "Add --queue broker-a:0-3; it can be repeated."
        raise UsageError(f"--strategy {_CONFIG} requires --queue.", hint=hint)
    if custom and not is_custom:
        raise UsageError(f"--strategy-option is for strategies of plugins, not for {name}.")


def _by_choice(choices: Sequence[QueueChoice]) -> Strategy:
    """Return the strategy config: this member consumes the chosen queues of each topic, even if others do too."""
    return Strategy(_CONFIG, partial(_allocate_chosen, tuple(choices)), may_repeat=True)


def _allocate_chosen(
    choices: Sequence[QueueChoice], queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> Assignment:
    chosen = [mq for mq in queues if any(choice.has(mq) for choice in choices)]
    return {client_id: list(chosen) for client_id in client_ids}
