"""What a layer keeps in an engine's pages, and layers of one kind grouped (see `paging`)."""

from __future__ import annotations

import msgspec

from narrows.engines.paging import PagingRules


class LayerPages(msgspec.Struct, frozen=True):
    """What one layer keeps on one rank: bytes per token (0 for constant state), its window, bytes of constant state.

    state_blocks: pages of that state per sequence. indexed: beside the latent there is an indexer's key. block, page,
    group: tokens and bytes of a page and the group it stands in, where an engine gives the layer pages of its own
    (DeepSeek-V4; 0 and empty: as the other layers). encoder: the tokens are the encoder's, of which there are always
    `fixed`, or as many as the decoder's.
    """

    token_bytes: int
    window: int | None = None
    state_bytes: int = 0
    latent: bool = False
    indexed: bool = False
    chunked: bool = False
    state_blocks: int = 0
    block: int = 0
    page: int = 0
    group: str = ""
    encoder: bool = False
    fixed: int | None = None

    @property
    def whole(self) -> bool:
        """Whether whole sequences are kept, in pages like those of other layers."""
        own = self.block or self.page or self.group or self.encoder or self.state_bytes
        return bool(self.token_bytes) and self.window is None and not own

    def usual_block(self, rules: PagingRules, kv_bits: int) -> int:
        """Tokens of a page before constant state makes it grow."""
        if self.indexed:
            return rules.indexed_block
        if self.latent:
            return rules.latent_block_fp8 if kv_bits == 8 else rules.latent_block
        return rules.block


class PageGroup(msgspec.Struct, frozen=True):
    """Layers of one kind, cut into `number` groups, of which the largest has `layers` layers."""

    number: int
    layers: int
    kind: LayerPages
