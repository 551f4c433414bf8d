"""Messages behind their version, an int16: records of internal topics, and fields of other messages."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final, Generic, TypeVar, cast

from purgatorio.protocol.decoder import UNBOUNDED, Decoder, compile_decoder
from purgatorio.protocol.encoder import Encoder, compile_encoder
from purgatorio.protocol.errors import BufferUnderflow, DecodeError, EncodeError
from purgatorio.protocol.message import LATEST, Message
from purgatorio.protocol.primitives import Buffer

M = TypeVar("M", bound=Message)

_INT16: Final = Struct(">h")


def version_of(data: Buffer) -> int:
    """Return the version in front of a message; it may be one without a codec.

    Raises:
        BufferUnderflow: there are less than two bytes.
    """
    try:
        version: int = _INT16.unpack_from(data)[0]
    except StructError as error:
        raise BufferUnderflow(f"a version in {len(data)} bytes") from error
    return version


class VersionedCodec(Generic[M]):
    """The codecs of all versions of one message; each is compiled at its first use.

    Args:
        cls: the message.
        versions: the versions that can be encoded and decoded.
        flexible_from: the first flexible version (KIP-482).
        max_elements: the most array entries, unknown tagged fields and long strings of a message, together.
        newer_as_last: take a newer version for the last known one, as it may only have more fields at its end.
    """

    __slots__ = ("_decoders", "_encoders", "_flexible_from", "_max_elements", "_newer_as_last", "cls", "versions")

    def __init__(
        self,
        cls: type[M],
        versions: range,
        *,
        flexible_from: int = LATEST,
        max_elements: int = UNBOUNDED,
        newer_as_last: bool = False,
    ) -> None:
        self.cls = cls
        self.versions = versions
        self._flexible_from = flexible_from
        self._max_elements = max_elements
        self._newer_as_last = newer_as_last
        self._decoders: dict[int, Decoder] = {}
        self._encoders: dict[int, tuple[bytes, Encoder]] = {}

    def decode(self, data: Buffer, as_version: int | None = None) -> M:
        """Decode a message; bytes after it are ignored.

        Args:
            as_version: the version whose fields are read, whatever the data say.

        Raises:
            DecodeError: the message is malformed, or its version has no codec.
        """
        version = version_of(data) if as_version is None else as_version
        decoder = self._decoders.get(version) or self._decoder(version)
        return cast(M, decoder(data, 2))

    def encode(self, message: M, version: int) -> bytes:
        """Encode a message in a version.

        Raises:
            EncodeError: the message cannot be encoded in this version, or the version has no codec.
        """
        prefix, encoder = self._encoders.get(version) or self._encoder(version)
        return b"".join((prefix, *encoder(message)))

    def _decoder(self, version: int) -> Decoder:
        known = self._known(version)
        if known is None:
            raise DecodeError(f"no codec for version {version} of {self.cls.__name__}")
        flexible = known >= self._flexible_from
        decoder = compile_decoder(self.cls, known, flexible, max_elements=self._max_elements)
        self._decoders[known] = decoder
        return decoder

    def _encoder(self, version: int) -> tuple[bytes, Encoder]:
        known = self._known(version)
        if known is None:
            raise EncodeError(f"no codec for version {version} of {self.cls.__name__}")
        encoder = _INT16.pack(known), compile_encoder(self.cls, known, known >= self._flexible_from)
        self._encoders[known] = encoder
        return encoder

    def _known(self, version: int) -> int | None:
        """Return the version to use for this one."""
        if version in self.versions:
            return version
        last = self.versions[-1]
        return last if self._newer_as_last and version > last else None
