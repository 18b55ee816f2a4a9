"""Messages before they are sent, made of what an application gives (Message)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, Unpack, get_type_hints

from msgspec.structs import replace

from rmqctl.errors import UsageError
from rmqctl.model.checked import EpochMs, Long, checked
from rmqctl.model.send_result import OutgoingMessage
from rmqctl.protocol import sends
from rmqctl.protocol.properties import SHARDING_KEY


class MessageOptions(TypedDict, total=False):
    """What a message can have besides its body; see make_message()."""

    keys: Iterable[str]
    tag: str | None
    properties: Mapping[str, str] | None
    delay_level: Long
    delay_ms: Long | None
    deliver_at_ms: EpochMs | None


# msgspec does not look into an Iterable.
_KINDS = {**get_type_hints(MessageOptions, include_extras=True), "keys": list[str]}


def make_message(body: bytes, **options: Unpack[MessageOptions]) -> OutgoingMessage:
    """Return a message to send.

    `keys` are the application's, by which messages can be found; `tag` can be subscribed to; `properties` are the
    application's own. The broker delivers the message later with a `delay_level` (1 to 18); from 5.0 on, also after
    `delay_ms`, or at `deliver_at_ms`. Raises UsageError for an empty or unusable body, and for options that brokers or
    consumers would read back changed.
    """
    if not isinstance(body, bytes):
        raise UsageError(f"The body of a message is bytes, not {type(body).__name__}.")
    if not body:
        raise UsageError("A message needs a body.")
    if isinstance(options.get("keys"), str):
        raise UsageError("The keys of a message are a list, not one text.")
    if isinstance(options.get("keys"), Iterable):
        options["keys"] = list(options["keys"])
    for name, value in options.items():
        checked(name, value, _KINDS.get(name, Any))
    delays = [options.get("delay_level") or None, options.get("delay_ms"), options.get("deliver_at_ms")]
    given = [delay for delay in delays if delay is not None]
    if len(given) > 1 or any(delay < 0 for delay in given):
        raise UsageError("A message has one of delay_level, delay_ms and deliver_at_ms, and it is not negative.")
    try:
        return OutgoingMessage(body, sends.message_properties(**options))
    except ValueError as error:
        raise UsageError(f"Invalid message: {error}.") from None


def with_sharding_key(message: OutgoingMessage, sharding_key: str) -> OutgoingMessage:
    """Return the message with its sharding key, which a dead letter keeps. Raises UsageError for an unusable key."""
    if not sharding_key:
        raise UsageError("The sharding key is empty.")
    marked = {**message.properties, SHARDING_KEY: sharding_key}
    try:
        sends.properties_text(marked)
    except ValueError as error:
        raise UsageError(f"Invalid sharding key: {error}.") from None
    return replace(message, properties=marked)
