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
        raise LocalProtocolError(f"A command of {length} bytes is over the limit of {MAX_FRAME_BYTES} bytes a frame.")
    return b"".join((_PREFIX.pack(length, command.encoding << 24 | len(header)), header, command.body))


class FrameBuffer:
    """Collects received bytes and cuts them into commands. Sizes are checked before anything is kept for them."""

    def __init__(self) -> None:
        self._data = bytearray()

    def __len__(self) -> int:
        return len(self._data)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._data += data

    def next_command(self) -> Command | None:
        """Return the next whole command, or None until more bytes came.

        Raises RemoteProtocolError for a frame that can't be one; what follows on the same connection is then lost.
        """
        data = self._data
        if len(data) < _LENGTH_BYTES:
            return None
        length = int.from_bytes(data[:_LENGTH_BYTES], "big")
        if length + _LENGTH_BYTES > MAX_FRAME_BYTES:
            raise RemoteProtocolError(
                f"The peer announced a frame of {length} bytes; RocketMQ's limit is {MAX_FRAME_BYTES}."
                + (" It may not be RocketMQ." if data[:4] == b"HTTP" else "")
            )
        if length < _LENGTH_BYTES:
            raise RemoteProtocolError(f"The peer announced a frame of {length} bytes, too short for its own header.")
        if len(data) < _PREFIX.size:
            return None
        encoding_and_length = _PREFIX.unpack_from(data)[1]
        header_length = encoding_and_length & 0xFFFFFF
        if header_length + _LENGTH_BYTES > length:
            raise RemoteProtocolError(f"The peer sent a header of {header_length} bytes in a frame of {length}.")
        end = _LENGTH_BYTES + length
        if len(data) < end:
            return None
        header_end = _PREFIX.size + header_length
        with memoryview(data) as view:
            header, body = bytes(view[_PREFIX.size : header_end]), bytes(view[header_end:end])
        del data[:end]
        return decode_header(encoding_and_length >> 24, header, body)
