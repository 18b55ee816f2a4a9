"""The limits of stored messages, and their properties as each release writes them (MessageExtEncoder)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from rmqctl.model.names import RETRY_PREFIX
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.properties import KEYS, TAGS, UNIQ_KEY
from rmqctl.sandbox.profile import Profile
from rmqctl.sandbox.request import RefusalError

from .store import NewMessage

# The length of the properties has 16 bits, one of them the sign.
LONGEST_PROPERTIES_BYTES = 2**15 - 1
LONGEST_TOPIC = 127

_INDEXED = re.compile(f"(?:^|\x02)({UNIQ_KEY}|{KEYS}|{TAGS})\x01([^\x02]+)")


def write_texts(messages: Iterable[NewMessage], profile: Profile, longest_body_bytes: int) -> None:
    """Encode the properties of each message without a text. Raises RefusalError for messages that are too long."""
    for message in messages:
        text = message.text
        if text is None:
            text = message.text = join_properties(message.properties, profile)
        if len(text) > LONGEST_PROPERTIES_BYTES or len(message.body) > longest_body_bytes:
            raise illegal_message(longest_body_bytes)


def check_topic_length(topic: str, profile: Profile, longest_body_bytes: int) -> None:
    """Raise RefusalError for a topic name that is too long for a record; 5.x allows longer retry topics."""
    if len(topic) > LONGEST_TOPIC and not (profile.is_5 and topic.startswith(RETRY_PREFIX)):
        raise illegal_message(longest_body_bytes)


def join_properties(properties: Mapping[str, str], profile: Profile) -> bytes:
    """Return the pairs as one text; only 5.x ends the last one with a separator (messageProperties2String)."""
    text = "\x02".join([f"{name}\x01{value}" for name, value in properties.items()])
    return (text + "\x02" if profile.is_5 and text else text).encode()


def split_properties(text: str) -> dict[str, str]:
    """Return the pairs of a text, without those that lack a name or a value (string2messageProperties)."""
    pairs = [pair.split("\x01", 1) for pair in text.split("\x02")]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and pair[0] and pair[1]}


def read_indexed(text: str) -> dict[str, str]:
    """Return only the indexed pairs of a text, in half the time of reading all pairs."""
    return dict(_INDEXED.findall(text))


def illegal_message(longest_body_bytes: int) -> RefusalError:
    """Return the answer for a message that cannot be written (PutMessageStatus.MESSAGE_ILLEGAL)."""
    return RefusalError(
        ResponseCode.MESSAGE_ILLEGAL,
        "the message is illegal, maybe msg body or properties length not matched. "
        f"msg body length limit {longest_body_bytes}B, msg properties length limit 32KB.",
    )
