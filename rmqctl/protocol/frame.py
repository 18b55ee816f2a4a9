"""Frames: length, header encoding, header length, header, body (NettyDecoder, RemotingCommand.decode)."""

from __future__ import annotations

import struct

from rmqctl.errors import LocalProtocolError, RemoteProtocolError

from .command import Command, decode_header, encode_header

# Netty's LengthFieldBasedFrameDecoder closes the connection above this (com.rocketmq.remoting.frameMaxLength).
MAX_FRAME_BYTES = 16 * 1024 * 1024

_PREFIX = struct.Struct(">II")  # bytes that follow the first field; encoding (1 byte) and header length (3 bytes)
_LENGTH_BYTES = 4


def encode_frame(command: Command) -> bytes:
    """Return the bytes of one command. Raises LocalProtocolError above RocketMQ's limits."""
    header = encode_header(command)
    length = _LENGTH_BYTES + len(header) + len(command.body)
    if length + _LENGTH_BYTES > MAX_FRAME_BYTES or len(header) >= 1 << 24:
        raise LocalProtocolError(f"A command of {length} bytes exceeds the frame limit of {MAX_FRAME_BYTES} bytes.")
    return b"".join((_PREFIX.pack(length, command.encoding << 24 | len(header)), header, command.body))


class FrameBuffer:
    """Collects received bytes and cuts them into commands. Sizes are checked before memory is allocated."""

    def __init__(self) -> None:
        # Commands are cut directly out of the received bytes; only incomplete ones are put together.
        self._data: bytes | bytearray = b""
        self._at = 0

    def __len__(self) -> int:
        return len(self._data) - self._at

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if self._at == len(self._data):
            self._data, self._at = data, 0
            return
        if self._at or not isinstance(self._data, bytearray):
            self._data, self._at = bytearray(memoryview(self._data)[self._at :]), 0
        self._data += data

    def next_command(self) -> Command | None:
        """Return the next whole command, or None until more bytes arrive.

        Raises RemoteProtocolError for an invalid frame; everything after it on the same connection is then lost.
        """
        data, at = self._data, self._at
        left = len(data) - at
        if left < _LENGTH_BYTES:
            return None
        length = int.from_bytes(data[at : at + _LENGTH_BYTES], "big")
        if length + _LENGTH_BYTES > MAX_FRAME_BYTES:
            raise RemoteProtocolError(
                f"The peer announced a frame of {length} bytes; RocketMQ's limit is {MAX_FRAME_BYTES}."
                + (" It may not be RocketMQ." if data[at : at + 4] == b"HTTP" else "")
            )
        if length < _LENGTH_BYTES:
            raise RemoteProtocolError(f"The peer announced a frame of {length} bytes, too short for its own header.")
        if left < _PREFIX.size:
            return None
        encoding_and_length = _PREFIX.unpack_from(data, at)[1]
        header_length = encoding_and_length & 0xFFFFFF
        if header_length + _LENGTH_BYTES > length:
            raise RemoteProtocolError(f"The peer sent a header of {header_length} bytes in a frame of {length}.")
        end = at + _LENGTH_BYTES + length
        if len(data) < end:
            return None
        header_at = at + _PREFIX.size
        body_at = header_at + header_length
        with memoryview(data) as view:
            header, body = bytes(view[header_at:body_at]), bytes(view[body_at:end])
        self._data, self._at = (b"", 0) if end == len(data) else (data, end)
        return decode_header(encoding_and_length >> 24, header, body)
