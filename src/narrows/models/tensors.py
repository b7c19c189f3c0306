"""Tensors and cache rows: the two things every part of a model states about itself; and what its files hold.

From tensors follow parameters, weight bytes under any quantization, and what one device keeps of them; from cache
rows follows what a sequence costs in memory. Canonical shapes are [out, in]; a file may fuse or transpose them.
"""

from __future__ import annotations

from math import prod
from typing import Literal

import msgspec

from narrows.precision import Part

Use = Literal["linear", "plain", "table", "vector", "buffer", "built"]
"""linear: a matrix that multiplies and may be quantized. plain: one that multiplies but that no scheme quantizes
(routers, heads). table: gathered by row. vector: norms, biases, small
parameters. buffer: stored in the file, but not a parameter. built: a parameter of transformers' class that no file
holds (weights of experts that do nothing), so that it takes no memory."""


class Tensor(msgspec.Struct, frozen=True):
    """One tensor of a layer (or of the whole model).

    role: what it is, e.g. `attention.q`; a dialect maps the role to the name in the file.
    shape: canonical, [out, in] for a linear weight.
    shards: into how many equal pieces tensor parallelism can cut it; 1 means every rank keeps it whole. K and V
        projections have as many as there are KV heads, so more ranks than that replicate them.
    copies: how many such tensors stand side by side (experts).
    active: how many of the copies one token uses (None: all).
    format: a fixed format where the file's own data type does not apply (e.g. "float32").
    """

    role: str
    shape: tuple[int, ...]
    use: Use = "linear"
    shards: int = 1
    copies: int = 1
    active: int | None = None
    format: str | None = None

    @property
    def elements(self) -> int:
        """Elements of all copies."""
        return prod(self.shape, start=self.copies)

    @property
    def active_elements(self) -> int:
        """Elements of the copies that one token uses."""
        if self.active is None:
            return self.elements
        return self.elements // self.copies * self.active


class CacheRow(msgspec.Struct, frozen=True):
    """What one layer caches of every token it keeps.

    heads × width elements per token; `window` is the number of tokens kept (None: all). `heads` bounds how many
    ranks can share the row: 1 for MLA's latent, which every tensor-parallel rank keeps whole. chunked: the window
    does not slide, but begins anew when it is full. every: tokens that become one kept entry (a window is of
    entries then). waiting: kept are those that are not yet enough for an entry.
    encoder: the tokens are the encoder's (cross-attention). They are written once, before the first token is made;
    there are taken to be as many as the decoder's, unless `fixed` says how many there always are (Whisper pads or
    cuts what it hears to 30 seconds).
    """

    name: str
    heads: int
    width: int
    window: int | None = None
    chunked: bool = False
    every: int = 1
    waiting: bool = False
    encoder: bool = False
    fixed: int | None = None

    @property
    def elements_per_token(self) -> int:
        """Elements one kept token (or entry) costs."""
        return self.heads * self.width

    def tokens(self, length: int) -> int:
        """Tokens (or entries) kept of a sequence of `length` tokens."""
        if self.fixed is not None:
            return self.fixed
        kept = length % self.every if self.waiting else length // self.every
        return kept if self.window is None else min(kept, self.window)

    def most(self, length: int) -> int:
        """The most that is kept at any time while a sequence grows to `length` tokens."""
        return min(length, self.every - 1) if self.waiting else self.tokens(length)

    def heads_per_rank(self, tensor_parallel: int) -> int:
        """KV heads one rank keeps: shared out while there are enough, replicated beyond."""
        return max(1, -(-self.heads // tensor_parallel))


class StateRow(msgspec.Struct, frozen=True):
    """Constant state that one layer keeps per sequence, whatever its length.

    elements: as the reference implementation (transformers) keeps it. `shards`: pieces tensor parallelism can cut
    it into. `format`: its own format where it does not follow the model's (recurrent states are float32).
    asked: the format that the model's own file asks servers to keep it in (None: the engine decides).
    kernel: of a convolution, whose last `kernel` inputs these are (0: not inputs); engines keep one less, since the
    newest arrives with the token.
    """

    name: str
    elements: int
    shards: int
    format: str | None = None
    kernel: int = 0
    asked: str | None = None


class StoredComponent(msgspec.Struct, frozen=True):
    """What the files hold of one component: tensors, bytes, and bytes by format."""

    name: str
    tensors: int
    bytes: int
    formats: dict[str, int]


class Stored(msgspec.Struct, frozen=True):
    """What the files of a checkpoint hold, by their headers. Sizes in bytes; header_bytes is all that was read."""

    kind: str
    files: int
    header_bytes: int
    tensors: int
    bytes: int
    components: tuple[StoredComponent, ...]
    unattributed_tensors: int
    unattributed_bytes: int


class TensorRow(msgspec.Struct, frozen=True):
    """One row of the tensor table: `count` tensors of this name pattern and shape, and what the file stores of each."""

    name: str
    component: str
    tensor: Tensor
    count: int
    parts: tuple[Part, ...]
    """Stored parts of one copy."""

    @property
    def elements(self) -> int:
        """Parameters (or buffer elements) of all rows' tensors."""
        return self.tensor.elements * self.count

    @property
    def stored_bytes(self) -> int:
        """Bytes in the checkpoint."""
        return sum(part.bytes for part in self.parts) * self.tensor.copies * self.count

    @property
    def stored_elements(self) -> int:
        """Elements in the checkpoint as its header counts them (packed integers count once)."""
        return sum(part.elements for part in self.parts) * self.tensor.copies * self.count
