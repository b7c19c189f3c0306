"""Attention of encoders and encoder-decoders: over the encoder's output, and over all tokens at once."""

from __future__ import annotations

import msgspec

from narrows.models.mixers.attention import Attention
from narrows.models.tensors import CacheRow, StateRow, Tensor


class SelfAndCross(msgspec.Struct, frozen=True, tag="self_and_cross"):
    """A decoder layer's self-attention, and then attention over the encoder's output (T5, BART, Whisper).

    attention: over the tokens made so far. cross: the same over the encoder's, which are `source` channels wide.
    merged: both use one set of projections (T5Gemma 2). encoder_tokens: how many tokens the encoder always gives
    (Whisper: 1500); None: as many as it is given. encoded: there is an encoder (a decoder class taken out of an
    encoder-decoder keeps the weights, and never fills the cache). more: further tensors of the self-attention
    (tables of relative positions).
    """

    attention: Attention
    cross: Attention
    source: int
    merged: bool = False
    encoder_tokens: int | None = None
    encoded: bool = True
    more: tuple[Tensor, ...] = ()

    @property
    def hidden(self) -> int:
        """Width of the layer."""
        return self.attention.hidden

    @property
    def window(self) -> int | None:
        """Of the self-attention."""
        return self.attention.window

    def tensors(self) -> list[Tensor]:
        """Those of both; keys and values of the cross-attention come from `source` channels."""
        found = [*self.attention.tensors(), *self.more]
        if self.merged:
            return found
        for tensor in self.cross.tensors():
            role = tensor.role.replace("attention.", "cross.", 1)
            shape = (tensor.shape[0], self.source) if role in ("cross.k", "cross.v") else tensor.shape
            found.append(msgspec.structs.replace(tensor, role=role, shape=shape))
        return found

    def cache(self) -> list[CacheRow]:
        """Keys and values of the decoder's tokens, and of the encoder's."""
        found = self.attention.cache()
        if self.encoded:
            heads, width = self.cross.kv_heads, self.cross.head_dim
            found += [
                CacheRow(name, heads, width, encoder=True, fixed=self.encoder_tokens)
                for name in ("cross keys", "cross values")
            ]
        return found

    def state(self) -> list[StateRow]:
        """None."""
        return []


class Bidirectional(msgspec.Struct, frozen=True, tag="bidirectional"):
    """Attention of an encoder: every token sees all others, so that nothing can be cached (BERT).

    more: further tensors, as in a decoder.
    """

    attention: Attention
    more: tuple[Tensor, ...] = ()

    @property
    def hidden(self) -> int:
        """Width of the layer."""
        return self.attention.hidden

    @property
    def window(self) -> int | None:
        """Of the attention."""
        return self.attention.window

    def tensors(self) -> list[Tensor]:
        """Those of the attention."""
        return [*self.attention.tensors(), *self.more]

    def cache(self) -> list[CacheRow]:
        """Nothing."""
        return []

    def state(self) -> list[StateRow]:
        """None."""
        return []
