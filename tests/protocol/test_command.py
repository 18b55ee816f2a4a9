from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqctl.errors import LocalProtocolError, RemoteProtocolError
from rmqctl.protocol.command import Command, HeaderEncoding, decode_header, encode_header
from rmqctl.protocol.frame import encode_frame
from tests.protocol.golden import decode
from tests.protocol.strategies import JSON_VALUES, commands

ROCKETMQ = HeaderEncoding.ROCKETMQ

EXAMPLE = Command(11, {"k": "v"}, remark="hé", language="JAVA", version=0, encoding=ROCKETMQ)
EXAMPLE_FRAME = bytes.fromhex(
    "00000024 01000020"  # 36 bytes follow, binary header of 32
    "000b 00 0000 00000000 00000000"  # code 11, JAVA, version 0, opaque 0, flag 0
    "00000003 68c3a9"  # remark
    "00000008 0001 6b 00000001 76"  # 8 bytes of fields: k, v
)


def read_json(header: object) -> Command:
    text = header if isinstance(header, str) else json.dumps(header)
    return decode_header(HeaderEncoding.JSON, text.encode(), b"")


def binary(
    fixed: tuple[int, ...] = (11, 0, 0, 0, 0), remark: bytes = b"\0\0\0\0", fields: bytes = b"\0\0\0\0"
) -> bytes:
    return struct.pack(">hbhii", *fixed) + remark + fields


@settings(max_examples=150, deadline=None)
@given(commands(HeaderEncoding.JSON))
def test_json_header_comes_back(command: Command) -> None:
    assert decode(encode_frame(command)) == command


@settings(max_examples=150, deadline=None)
@given(commands(ROCKETMQ))
def test_binary_header_comes_back(command: Command) -> None:
    assert decode(encode_frame(command)) == command


def test_binary_example_byte_for_byte() -> None:
    assert encode_frame(EXAMPLE) == EXAMPLE_FRAME
    assert decode(EXAMPLE_FRAME) == EXAMPLE


def test_json_header_is_what_java_writes() -> None:
    command = Command(14, {"topic": "T\x01é"}, opaque=7, flag=1, remark='"', language="JAVA", version=407)
    assert encode_header(command).decode() == (
        '{"code":14,"extFields":{"topic":"T\\u0001é"},"flag":1,"language":"JAVA","opaque":7,"remark":"\\"",'
        '"serializeTypeCurrentRPC":"JSON","version":407}'
    )


def test_flags() -> None:
    told = [(Command(1, flag=flag).is_response, Command(1, flag=flag).is_oneway) for flag in range(4)]
    assert told == [(False, False), (True, False), (False, True), (True, True)]


@pytest.mark.parametrize("code", [32768, 200050, 200151, -32769])
def test_a_code_over_16_bits_is_refused_by_the_binary_header(code: int) -> None:
    with pytest.raises(LocalProtocolError, match=f"{code} does not fit the binary header"):
        encode_header(Command(code, encoding=ROCKETMQ))
    assert decode(encode_frame(Command(code))).code == code


@pytest.mark.parametrize(
    "command",
    [
        Command(1, version=32768, encoding=ROCKETMQ),
        Command(1, opaque=2**31, encoding=ROCKETMQ),
        Command(1, {"k" * 32768: ""}, encoding=ROCKETMQ),
        Command(1, {"é" * 16384: ""}, encoding=ROCKETMQ),
        Command(1, language="COBOL", encoding=ROCKETMQ),
    ],
    ids=["version", "opaque", "key", "key in bytes", "language"],
)
def test_what_else_does_not_fit_the_binary_header(command: Command) -> None:
    with pytest.raises(LocalProtocolError, match="does not fit the binary header"):
        encode_header(command)


@pytest.mark.parametrize("encoding", HeaderEncoding)
@pytest.mark.parametrize(
    "command", [Command(1, {"k": "\ud800"}), Command(1, {"\ud800": ""}), Command(1, remark="\udfff")]
)
def test_a_lone_surrogate_is_not_sent(command: Command, encoding: HeaderEncoding) -> None:
    with pytest.raises(LocalProtocolError):
        encode_header(Command(1, command.ext_fields, remark=command.remark, encoding=encoding))


def test_an_empty_remark_is_none_in_the_binary_header() -> None:
    assert decode(encode_frame(Command(1, remark="", encoding=ROCKETMQ))).remark is None


def test_what_a_json_header_leaves_out() -> None:
    assert read_json({}) == Command(0, language="JAVA", version=0)
    assert read_json({"extFields": None, "remark": None, "language": None}) == Command(0, language="OTHER", version=0)


def test_json_header_in_any_order_with_unknown_keys() -> None:
    command = read_json(
        '{ "x":[1], "version":3,\n"extFields":{"a":"b"},"opaque":-1, "flag":2,"code":5,"language":"GO"}'
    )
    assert command == Command(5, {"a": "b"}, opaque=-1, flag=2, language="GO", version=3)


@pytest.mark.parametrize("language", ["COBOL", "java", "", 3, {}, True])
def test_an_unknown_language_is_other(language: object) -> None:
    assert read_json({"language": language}).language == "OTHER"


def test_an_unknown_language_ordinal_is_other() -> None:
    assert [decode_header(1, binary((0, ordinal, 0, 0, 0)), b"").language for ordinal in (-1, 14)] == ["OTHER"] * 2


def test_fields_that_are_no_texts_become_their_json() -> None:
    # Java reads them into a HashMap<String, String> the same way; null is no field.
    fields = {"int": 1, "bool": True, "list": [1, "é"], "null": None, "text": "1"}
    assert read_json({"extFields": fields}).ext_fields == {"int": "1", "bool": "true", "list": '[1,"é"]', "text": "1"}
    assert read_json({"remark": 5}).remark == "5"


@pytest.mark.parametrize("key", ["code", "opaque", "flag", "version"])
@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 10**400, 1.0, "1", True, None, [], {}])
def test_a_number_of_the_json_header_has_32_bits(key: str, value: object) -> None:
    with pytest.raises(RemoteProtocolError, match=f"{key} is not a 32-bit number"):
        read_json({key: value})


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"null",
        b"1",
        b"[]",
        b'"code"',
        b"{",
        b'{"code":1',
        b'{"code":1}x',
        b"\xef\xbb\xbf{}",
        b'{"remark":"\xff"}',
        b'{"remark":"\xed\xa0\x80"}',  # a surrogate, which is no UTF-8
        '{"code":1}'.encode("utf-16"),
        '{"code":1}'.encode("utf-32-le"),
        b'{"remark":"\n"}',
        b'{"extFields":[1]}',
        b'{"extFields":"a"}',
        b'{"extFields":1}',
        b'{"code":' + b"9" * 5000 + b"}",
        b'{"extFields":{"a":' + b"[" * 5000 + b"]" * 5000 + b"}}",
        b"[" * 100_000,
    ],
    ids=lambda header: repr(header[:30]),
)
def test_a_json_header_that_is_none(header: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_header(HeaderEncoding.JSON, header, b"")


def test_no_depth_of_nesting_is_a_bug() -> None:
    # Reading and writing JSON run out of stack at different depths.
    for depth in range(50, 1100, 3):
        try:
            read_json('{"extFields":{"a":' + "[" * depth + "]" * depth + "}}")
        except RemoteProtocolError:
            continue


@settings(max_examples=100, deadline=None)
@given(JSON_VALUES)
def test_any_json_is_a_header_or_refused(value: object) -> None:
    for header in (value, {"code": value}, {"extFields": value}, {"extFields": {"k": value}, "remark": value}):
        try:
            command = read_json(header)
        except RemoteProtocolError:
            continue
        assert all(isinstance(text, str) for text in (*command.ext_fields, *command.ext_fields.values()))


@pytest.mark.parametrize(
    "header",
    [
        binary(remark=struct.pack(">i", -1)),
        binary(remark=struct.pack(">i", 1)),
        binary(remark=struct.pack(">i", 2**31 - 1)),
        binary(remark=struct.pack(">i", 1) + b"\xff"),
        binary(fields=b""),
        binary(fields=b"\0\0\0"),
        binary(fields=struct.pack(">i", -1)),
        binary(fields=struct.pack(">i", 1)),
        binary(fields=struct.pack(">i", 2**31 - 1)),
        binary(fields=struct.pack(">ih", 2, -1)),
        binary(fields=struct.pack(">ih", 2, 1)),
        binary(fields=struct.pack(">ih1s", 3, 1, b"k")),
        binary(fields=struct.pack(">ih1si", 7, 1, b"k", -1)),
        binary(fields=struct.pack(">ih1si", 7, 1, b"k", 1)),
        binary(fields=struct.pack(">ih1si", 7, 1, b"k", 2**31 - 1)),
        binary(fields=struct.pack(">ih1si1s", 8, 1, b"\xff", 1, b"v")),
        binary(fields=struct.pack(">ih1si1s", 8, 1, b"k", 1, b"\xc3")),
        binary(fields=struct.pack(">ih1si1s", 7, 1, b"k", 1, b"v")),  # one less than its entry
    ],
    ids=lambda header: header[13:].hex(),
)
def test_a_binary_header_that_lies(header: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_header(ROCKETMQ, header, b"")


@settings(max_examples=100, deadline=None)
@given(commands(ROCKETMQ), st.data())
def test_a_cut_binary_header_is_refused(command: Command, data: st.DataObject) -> None:
    header = encode_header(command)
    with pytest.raises(RemoteProtocolError):
        decode_header(ROCKETMQ, header[: data.draw(st.integers(0, len(header) - 1))], b"")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80), st.sampled_from([0, 1, 2, 255]))
def test_any_header_bytes_are_a_command_or_refused(header: bytes, encoding: int) -> None:
    try:
        command = decode_header(encoding, header, b"")
    except RemoteProtocolError:
        return
    assert decode(encode_frame(command)) == command
