"""The batch of one step: which sequences run how many tokens after how many cached ones."""

from __future__ import annotations

import msgspec


class Chunk(msgspec.Struct, frozen=True):
    """`count` equal sequences that each run `new` tokens after `past` tokens whose keys and values are cached.

    new = 1: decode (or a prompt of one token). sampled: whether the last of the new tokens goes through the head; of
    a prompt that is cut, only the last piece does. encoder: tokens that an encoder reads of each before its first one
    (0: as many as the sequence has; some encoders always read as many as they are built for).
    """

    count: int
    new: int
    past: int = 0
    sampled: bool = True
    encoder: int = 0


class Batch(msgspec.Struct, frozen=True):
    """Any mix of pieces of prompts and decodes that an engine runs in one step."""

    chunks: tuple[Chunk, ...]

    @classmethod
    def prefill(cls, prompt: int, batch: int = 1) -> Batch:
        """`batch` whole prompts of `prompt` tokens."""
        return cls((Chunk(batch, prompt),))

    @classmethod
    def decode(cls, batch: int, context: int) -> Batch:
        """The next token of `batch` sequences whose `context` tokens are cached."""
        return cls((Chunk(batch, 1, context),))

    @property
    def sequences(self) -> int:
        """Sequences in all."""
        return sum(chunk.count for chunk in self.chunks)

    @property
    def tokens(self) -> int:
        """New tokens in all: rows of the linear layers."""
        return sum(chunk.count * chunk.new for chunk in self.chunks)

    @property
    def sampled(self) -> int:
        """Rows of the head."""
        return sum(chunk.count for chunk in self.chunks if chunk.sampled)
