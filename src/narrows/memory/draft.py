"""What drafts beside the model: its part of weights and cache, what the reserve takes for it, what is said of it."""

from __future__ import annotations

import msgspec

from narrows.deployment import Deployment
from narrows.deployment.draft import draft_bytes, draft_layers, drafting, shares_embedding
from narrows.engines.speculative import LOOKING_AHEAD, WEIGHTLESS
from narrows.memory.resident import rope_bytes
from narrows.memory.shard import draft_cache
from narrows.text import Text
from narrows.units import binary

UNSCORED = 3.0
"""Intervals of starts that draft are this many times as wide: none of them was scored."""


class DraftShare(msgspec.Struct, frozen=True):
    """What drafting takes of a device (of the last pipeline stage).

    method, tokens: how, and how many per step. model: the draft's, where it has files of its own. weights: bytes of
    `weights` that are its own; kv_bytes_per_sequence: bytes of its cache for a sequence of the deployment's length;
    slots: tokens of a sequence that are set aside beforehand.
    """

    method: str
    tokens: int
    model: str | None
    weights: int
    kv_bytes_per_sequence: int
    slots: int


def draft_share(deployment: Deployment) -> DraftShare | None:
    """What drafting takes; None where nothing drafts."""
    draft = deployment.draft
    if draft is None:
        return None
    length, bits = deployment.max_length, deployment.kv.bits
    if deployment.engine.name == "llama.cpp" and draft.model is not None:
        from narrows.memory.llamacpp import llama_shards

        (own,) = llama_shards(drafting(deployment))
        return DraftShare(draft.method, draft.tokens, draft.model.name, own.weights, own.sequence_bytes(length), 0)
    kept = sum(count * width * row.most(length) for count, width, row in draft_cache(deployment)) * bits // 8
    return DraftShare(
        draft.method,
        draft.tokens,
        draft.model.name if draft.model is not None else None,
        draft_bytes(deployment) + draft_tables(deployment),
        kept,
        draft.tokens if draft.method in LOOKING_AHEAD else 0,
    )


def draft_tables(deployment: Deployment) -> int:
    """Bytes of a whole draft model's own table of cosines and sines; others are taken to share the target's."""
    draft = deployment.draft
    if draft is None or draft.method != "draft_model" or deployment.engine.name != "vllm":
        return 0
    return rope_bytes(drafting(deployment))


def draft_buffers(deployment: Deployment) -> int:
    """Bytes of a step's hidden states that are kept for what drafts from them: a vector for each token, assumed.

    EAGLE-3 reads those of layers before the last, too. Source: vLLM's EagleProposer and gpu_model_runner (Apache-2.0).
    """
    draft = deployment.draft
    if draft is None or draft.method in (*WEIGHTLESS, "draft_model", "medusa"):
        return 0
    vectors = 1
    if draft.method == "eagle3":
        from narrows.models.drafts import AUXILIARY

        vectors += AUXILIARY
    return vectors * deployment.max_num_batched_tokens * deployment.model.hidden * deployment.dtype.bits // 8


def drafting_layers(deployment: Deployment) -> int:
    """Layers of what drafts, of which graphs are captured too."""
    return sum(count for _, count in draft_layers(deployment))


def draft_told(deployment: Deployment) -> list[Text]:
    """What drafting takes, in a sentence."""
    share = draft_share(deployment)
    return [] if share is None else [_told(share, deployment.max_length)]


def draft_notes(deployment: Deployment) -> list[Text]:
    """What is said of drafting in vLLM's figures."""
    share = draft_share(deployment)
    if share is None:
        return []
    found = draft_told(deployment)
    if share.method in ("mtp", "eagle", "eagle3") and shares_embedding(deployment):
        whole = deployment.dtype.bytes_for(deployment.model.vocab * deployment.model.hidden)
        found.append(
            Text(
                "while it loads, a second embedding can stand beside the target's ({size}) until both are one "
                "(vllm-project/vllm#53887); a device that the weights nearly fill may run out then",
                size=binary(whole // deployment.tensor_parallel),
            )
        )
    buffers = draft_buffers(deployment)
    if buffers:
        found.append(
            Text(
                "activations: {size} of hidden states are kept for what drafts from them (assumed: vLLM's code)",
                size=binary(buffers),
            )
        )
    found.append(
        Text(
            "activations and graphs of a server that drafts are otherwise assumed to be as without: none was scored, "
            "so the interval is {times} times as wide",
            times=int(UNSCORED),
        )
    )
    return found


def _told(share: DraftShare, length: int) -> Text:
    figures = {"method": share.method, "weights": binary(share.weights)}
    if not share.weights:
        return Text("drafts by {method} keep neither weights nor KV cache of their own on the device", **figures)
    if not share.kv_bytes_per_sequence:
        return Text(
            "drafts by {method}: {weights} of the weights are its own; it keeps nothing of a sequence", **figures
        )
    if not share.slots:
        return Text(
            "drafts by {method}: {weights} of the weights are its own, and {kv} of KV cache per sequence of {length} "
            "tokens",
            **figures,
            kv=binary(share.kv_bytes_per_sequence),
            length=length,
        )
    return Text(
        "drafts by {method}: {weights} of the weights are its own, and {kv} of KV cache per sequence of {length} "
        "tokens; a sequence has more slots for what is drafted ({tokens}), up to the longest length",
        **figures,
        kv=binary(share.kv_bytes_per_sequence),
        length=length,
        tokens=share.slots,
    )
