"""Bodies that clients compressed: zlib, LZ4 frames, ZSTD frames (CompressionType, Compressor)."""

from __future__ import annotations

import zlib

from rmqctl.errors import RemoteProtocolError

from .flags import COMPRESSION_LZ4, COMPRESSION_MASK, COMPRESSION_ZLIB, COMPRESSION_ZSTD

# Brokers accept messages up to 4 MiB by default (maxMessageSize); a body that grows beyond this is a bomb.
MAX_BODY_BYTES = 64 * 1024 * 1024


def decompress(sys_flag: int, data: bytes, *, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Return the decompressed body of a message, at most max_bytes.

    Raises RemoteProtocolError when it cannot be decompressed or would be larger.
    """
    kind = sys_flag & COMPRESSION_MASK
    try:
        if kind in (0, COMPRESSION_ZLIB):
            inflater = zlib.decompressobj()
            body, whole = inflater.decompress(data, max_bytes + 1), inflater.eof
        elif kind == COMPRESSION_LZ4:
            body, whole = _decompress_lz4(data, max_bytes + 1)
        elif kind == COMPRESSION_ZSTD:
            body, whole = _decompress_zstd(data, max_bytes + 1)
        else:
            raise RemoteProtocolError(f"The compression type {kind >> 8} of a message's body is unknown.")
    except (zlib.error, RuntimeError, ValueError, EOFError) as error:
        raise RemoteProtocolError(f"Cannot decompress a message's body: {error}.") from None
    if len(body) > max_bytes:
        raise RemoteProtocolError(f"A message's body is larger than {max_bytes} bytes when decompressed.")
    if not whole:
        raise RemoteProtocolError("A message's compressed body is cut off.")
    return body


def _decompress_lz4(data: bytes, max_bytes: int) -> tuple[bytes, bool]:
    import lz4.frame

    with lz4.frame.LZ4FrameDecompressor() as decompressor:
        body: bytes = decompressor.decompress(data, max_length=max_bytes)
        return body, decompressor.eof


def _decompress_zstd(data: bytes, max_bytes: int) -> tuple[bytes, bool]:
    import zstandard

    # Only a decompressobj reports whether the frame is complete (Java's ZstdOutputStream announces no size), but it
    # has no limit. Four bytes can encode a block of 128 KiB, so a step of 512 bytes grows to 16 MiB at most.
    decompressor = zstandard.ZstdDecompressor(max_window_size=2**27).decompressobj()
    parts, size_bytes = [], 0
    try:
        for at in range(0, len(data), 512):
            parts.append(decompressor.decompress(data[at : at + 512]))
            size_bytes += len(parts[-1])
            if decompressor.eof or size_bytes >= max_bytes:
                break
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None
    return b"".join(parts), decompressor.eof
