from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.admin.messages.pull import FoundMessage
from rmqctl.cli.output.body import BodyStyle, body_fields, body_lines, excerpt
from rmqctl.cli.output.message_item import MESSAGE_COLUMNS, message_item, message_name, message_sections
from rmqctl.cli.output.message_options import BodyOptions
from rmqctl.cli.output.text import printable
from rmqctl.errors import PluginError, RemoteProtocolError, UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.message import StoredMessage
from tests.protocol.records import Record, properties_text

MQ = MessageQueue("orders", "broker-a", 3)
AUTO = BodyStyle()


def _item(body: bytes, style: BodyStyle = AUTO, **changes: Any) -> dict[str, Any]:
    message = StoredMessage.decode(Record().but(body=body, **changes))
    return message_item(FoundMessage(MQ, message.queue_offset, message), style)


def _lines(body: bytes, mode: str = "auto", **settings: Any) -> tuple[str, list[str]]:
    style = BodyStyle(mode, **settings)
    return body_lines(_item(body, style), mode)


def test_json_gets_a_line_a_member_with_numbers_as_written() -> None:
    kind, lines = _lines(b' {"a":1.10,"b":[1e400,12345678901234567890123],"a":"\xc3\xbc"}')
    assert kind == "JSON"
    assert lines == ["{", '  "a": 1.10,', '  "b": [', "    1e400,", "    12345678901234567890123", "  ],",
                     '  "a": "ü"', "}"]  # fmt: skip


@pytest.mark.parametrize("body", [b'"text"', b"17", b"{broken", b"[1,]", b"plain\nlines", b"", b"[NaN]"])
def test_what_is_no_json_object_or_array_is_text(body: bytes) -> None:
    assert _lines(body) == ("text", body.decode().splitlines())


@pytest.mark.parametrize("body", [b"\xff\xfe", b"\x00\x01", b"\x1b[2J", "\u202eabc".encode(), b"\xed\xa0\x80"])
def test_what_is_no_printable_text_is_a_hex_dump(body: bytes) -> None:
    kind, lines = _lines(body)
    assert kind == "hex"
    assert lines[0].startswith(f"00000000  {body[:16].hex(' ')}")


def test_a_hex_dump_has_offsets_and_letters_and_is_short_unless_asked_for() -> None:
    assert _lines(bytes(range(60, 80)), "hex")[1] == [
        "00000000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK",
        "00000010  4c 4d 4e 4f                                      LMNO",
    ]
    lines = _lines(b"\x00" * 10_000)[1]
    assert (len(lines), lines[-1]) == (33, "... 9488 more bytes; --body hex shows them")
    assert len(_lines(b"\x00" * 10_000, "hex")[1]) == 625


def test_text_that_is_asked_for_stays_text_with_escapes_for_the_terminal() -> None:
    kind, lines = _lines(b"a\tb\r\n\x1b[31m", "text")
    assert (kind, [printable(line) for line in lines]) == ("text", ["a   b", "\\x1b[31m"])
    _, lines = _lines(b"hidden\x0bfeeds\x0care shown", "text")
    assert [printable(line) for line in lines] == ["hidden\\x0bfeeds\\x0care shown"]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"text", {"body": "text", "bodyTruncated": False}),
        (b"\xff", {"body": None, "bodyBase64": "/w==", "bodyTruncated": False}),
        (b"", {"body": "", "bodyTruncated": False}),
    ],
)
def test_json_output_has_text_or_base64(body: bytes, fields: dict[str, Any]) -> None:
    item = _item(body)
    assert {key: item[key] for key in fields} == fields
    assert ("bodyBase64" in item) == ("bodyBase64" in fields)
    assert item["reasons"].get("body") == ("NOT_UTF8" if item["body"] is None else None)


def test_json_as_a_value_is_embedded_and_what_is_none_is_said() -> None:
    style = BodyStyle("json")
    assert _item(b'{"n":12345678901234567890}', style)["body"] == {"n": 12345678901234567890}
    for hostile in (b"{", b"[" * 100_000, b"9" * 5000, b'{"a":NaN}', b"[1e999]", b"-Infinity"):
        item = _item(hostile, style)
        assert (item["body"], item["reasons"]["body"]) == (None, "NOT_JSON")
    item = _item(b"[" * 400 + b"]" * 400, style)
    assert (item["body"], item["reasons"]["body"]) == (None, "NESTED_TOO_DEEPLY")
    assert _item(b"[" * 99 + b"]" * 99, style)["body"] is not None


def test_bodies_are_bounded_at_a_whole_letter() -> None:
    item = _item("üü".encode(), BodyStyle(max_bytes=3))
    assert (item["body"], item["bodyTruncated"], item["bodySize"]) == ("ü", True, 4)
    assert _item("üü".encode(), BodyStyle(max_bytes=0))["body"] == "üü"
    assert _item(b"x" * 10, BodyStyle("hex", max_bytes=2))["body"] == "7878"
    assert _item(b"[1,2]", BodyStyle("json", max_bytes=3))["reasons"]["body"] == "TRUNCATED"


def test_none_leaves_it_out() -> None:
    item = _item(b"x", BodyStyle("none"))
    assert (item["body"], item["bodySize"], item["reasons"]["body"]) == (None, 1, "NOT_ASKED")
    assert excerpt(item) == "-"
    assert [section.title for section in message_sections(item, BodyStyle("none"))][1:] == ["properties"]


def test_a_decompression_bomb_is_a_row_with_an_error() -> None:
    bomb = zlib.compress(b"\x00" * (65 * 1024 * 1024))
    item = _item(bomb, sys_flag=0x301)
    assert "larger than 67108864 bytes" in item["error"]
    assert (item["body"], item["bodySize"], item["queueOffset"]) == (None, None, 11)
    assert item["reasons"]["body"] == item["reasons"]["bodySize"] == "PROTOCOL"
    assert "larger than" in excerpt(item)


def test_properties_that_lie_cost_only_themselves() -> None:
    record = bytearray(Record(body=b"hello").encode())
    struct.pack_into(">h", record, len(record) - len(properties_text({"TAGS": "A"})) - 2, 30_000)
    message = StoredMessage.decode(bytes(record))
    item = message_item(FoundMessage(MQ, 11, message), AUTO)
    assert "properties are longer" in item["error"]
    assert (item["body"], item["storeTimestamp"]) == ("hello", 1_700_000_000_002)
    assert item["topic"] == "orders"
    assert message_name(item) == "orders@broker-a:3#11"
    assert message_sections(item, AUTO)


def test_a_message_that_can_not_be_read_at_all_keeps_its_place() -> None:
    item = message_item(FoundMessage(MQ, 11, None, RemoteProtocolError("It is broken.")), AUTO)
    assert (item["error"], item["queueOffset"], item["msgId"]) == ("It is broken.", 11, None)
    assert all(item[key] is not None or key in item["reasons"] for key in item if not key.endswith("error"))
    assert [column.cell(item) for column in MESSAGE_COLUMNS][-1] == "(It is broken.)"
    assert message_sections(item, AUTO)


def test_a_wrong_crc_is_shown() -> None:
    item = _item(b"hello", crc=5)
    assert item["bodyCrcOk"] is False
    assert ("bodyCrcOk", "no") in message_sections(item, AUTO)[0].facts


def test_a_codec_gives_text_or_a_value_and_its_failure_costs_one_body() -> None:
    def codec(body: bytes, properties: Any, topic: str) -> Any:
        if body == b"bad":
            raise RuntimeError("no\nluck")
        return {"size": len(body), "tag": properties["TAGS"], "topic": topic}

    style = BodyStyle(codec_name="mine", codec=codec)
    assert _item(b"abc", style)["body"] == {"size": 3, "tag": "A", "topic": "orders"}
    assert body_lines(_item(b"abc", style), "auto")[0] == "JSON"
    item = _item(b"bad", style)
    assert (item["error"], item["bodySize"]) == ("Codec mine failed: RuntimeError: no luck.", 3)
    assert item["reasons"]["body"] == "PLUGIN"


def _deep(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"in": value}
    return value


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}, b"bytes", _deep(400)])
def test_a_codecs_value_that_json_can_not_hold_is_an_error(value: object) -> None:
    style = BodyStyle(codec_name="mine", codec=lambda *_: value)
    with pytest.raises(PluginError, match="Codec mine failed"):
        body_fields(b"", {}, "T", style)


def test_a_codecs_value_is_bounded_too() -> None:
    for value in ("x" * 100, ["x"] * 100):
        style = BodyStyle(codec_name="mine", codec=lambda *_, value=value: value, max_bytes=10)
        fields = body_fields(b"", {}, "T", style)
        assert (len(fields["body"]), fields["bodyTruncated"]) == (10, True)


def test_options_that_can_not_be_are_refused() -> None:
    with pytest.raises(UsageError, match="Invalid body format 'pretty'"):
        BodyOptions(body="pretty").style()
    with pytest.raises(UsageError, match="cannot be negative"):
        BodyOptions(max_body=-1).style()
    with pytest.raises(UsageError, match="requires --codec"):
        BodyOptions(plugin=["x.py"]).style()
    for mode in ("hex", "none"):
        with pytest.raises(UsageError, match=f"--codec and --body {mode} cannot be used together"):
            BodyOptions(body=mode, codec="base64").style()


@given(body=st.binary(max_size=300) | st.text(max_size=100).map(str.encode), mode=st.sampled_from(
    ["auto", "text", "json", "hex"]), max_bytes=st.integers(0, 40))  # fmt: skip
def test_any_body_is_shown_in_harmless_lines(body: bytes, mode: str, max_bytes: int) -> None:
    item = _item(body, BodyStyle(mode, max_bytes=max_bytes))
    json.dumps(item)
    _, lines = body_lines(item, mode)
    assert not any("\n" in line for line in lines)
    shown = "".join(map(printable, [*lines, excerpt(item)]))
    assert not any(letter < " " or letter in "\x7f\x9b\u202e" for letter in shown)
    assert len(excerpt(item)) < 100
