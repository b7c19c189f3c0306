"""What drafts for a model: whether an engine takes it, and what of it a rank keeps."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from narrows.deployment.share import layers_within, outer_rows_of, pieces, resident_bytes
from narrows.deployment.types import Deployment, Draft
from narrows.engines import Engine, held_at
from narrows.engines.speculative import WEIGHTLESS
from narrows.models import ModelSpec
from narrows.models.spec import Layer
from narrows.models.tensors import TensorRow
from narrows.precision import FORMATS
from narrows.text import BadInput, Text

_VOCABULARY = ("mtp.embedding", "mtp.head")


def check_draft(draft: Draft | None, model: ModelSpec, engine: Engine, tp: int, stages: int) -> tuple[Text, ...]:
    """What was assumed of a draft, on `tp` ranks of each of so many stages.

    Raises BadInput where the engine does not start with it, or nothing is known of what it keeps.
    """
    if draft is None:
        return ()
    if engine.name == "sglang":
        return (*draft.notes, *_on_sglang(draft, model, engine))
    if engine.name == "llama.cpp":
        return (*draft.notes, *_on_llama(draft, stages))
    own = draft.model
    if draft.method == "draft_model" and own is not None:
        if not engine.draft_models:
            raise BadInput(
                "{engine} takes no model as a draft ({source}); name another version, or draft with a head",
                engine=engine.label,
                source=engine.sources["draft_models"],
            )
        if own.vocab != model.vocab:
            raise BadInput(
                "the draft {draft} has {own} words and {model} has {vocab}; vLLM drafts with a model of the same "
                "vocabulary only",
                draft=own.name,
                own=own.vocab,
                model=model.name,
                vocab=model.vocab,
            )
    if draft.tensor_parallel not in (0, 1, tp):
        raise BadInput(
            "the draft is to run on {ranks} ranks; it runs on one, or on all {tp} of the target's",
            ranks=draft.tensor_parallel,
            tp=tp,
        )
    return draft.notes


def _on_llama(draft: Draft, stages: int) -> tuple[Text, ...]:
    """What is said of a draft on llama.cpp; refused where it is no model of its own, or there are several devices."""
    if draft.method in WEIGHTLESS:
        return ()
    if draft.method != "draft_model" or stages > 1:
        raise BadInput(
            "of drafts on llama.cpp narrows knows those by a model of its own (-md), on one device; leave it out to "
            "see the model alone"
        )
    return (
        Text(
            "the draft is whole on the device, and every slot has a context of it as long as its own, in 16 bits "
            "(llama.cpp tools/server, MIT)"
        ),
    )


def _on_sglang(draft: Draft, model: ModelSpec, engine: Engine) -> tuple[Text, ...]:
    """What is said of drafts on SGLang; refused where it is not known what it keeps."""
    from narrows.engines.sglang import sglang_facts, version_of

    facts = sglang_facts()
    if draft.method in WEIGHTLESS:
        return ()
    if not held_at(facts.counts_drafts, version_of(engine)).value:
        raise BadInput(
            "{engine} allocates what drafts beside its static share, which narrows does not model; name a newer "
            "version, such as sglang=={newest}",
            engine=engine.label,
            newest=facts.newest,
        )
    if draft.method == "medusa" or any(layer.mixer.state() or _windowed(layer) for layer, _ in model.kinds):
        raise BadInput(
            "what SGLang keeps beside {model} when it drafts by {method} is not known; leave the draft out to see the "
            "model alone",
            model=model.name,
            method=draft.method,
        )
    return (
        Text(
            "SGLang sizes its pools while what drafts has vocabulary tables of its own, and counts each of its layers "
            "as one of the target's (sgl-project/sglang#36452, #23862); activations and graphs are taken as without it"
        ),
    )


def _windowed(layer: Layer) -> bool:
    return any(row.window for row in layer.mixer.cache())


def drafting(deployment: Deployment) -> Deployment:
    """The deployment as what drafts sees it: its own model on the ranks that share it, all layers in one stage."""
    draft = deployment.draft
    assert draft is not None
    own = draft.model or deployment.model
    if draft.unquantized:
        from narrows.models.drafts import unquantized

        own = unquantized(own)
    changed = {"model": own, "pipeline_parallel": 1, "draft": None, "offload": 0, "adapters": None}
    if deployment.engine.name == "llama.cpp":
        # its own types of the cache are f16 whatever the target's are
        changed |= {"kv": FORMATS["float16"], "kv_v": FORMATS["float16"]}
    if draft.model is not None:
        tp = draft.tensor_parallel or deployment.tensor_parallel
        changed |= {"tensor_parallel": tp, "expert_parallel": 1, "attention_data_parallel": 1}
    return msgspec.structs.replace(deployment, **changed)


def draft_layers(deployment: Deployment) -> Sequence[tuple[Layer, int]]:
    """(layer, how many of it) that keep keys and values of what drafts; empty where nothing drafts."""
    draft = deployment.draft
    if draft is None:
        return ()
    if draft.model is None:
        return [(layer, 1) for layer in draft.layers]
    return [(layer, len(indices)) for layer, indices in draft.model.kinds]


def draft_bytes(deployment: Deployment) -> int:
    """Bytes of weights of what drafts on one rank of the last stage, which is where it runs."""
    draft = deployment.draft
    if draft is None or not (draft.model or draft.towers):
        return 0
    seen, engine = drafting(deployment), deployment.engine
    shared = shares_embedding(deployment)
    if draft.model is not None:
        rows: list[TensorRow] = outer_rows_of(seen, True, True)
        for layer, indices in layers_within(draft.model, range(draft.model.layers)):
            rows += draft.model.layer_rows(layer, indices)
        own = draft.method in ("draft_model", "medusa") or any(r.tensor.role == "draft.embedding" for r in rows)
        twice = engine.name == "sglang" and draft.method == "eagle"
        again = _vocabulary(seen, deployment.model) * (1 + twice)
        return resident_bytes(rows, seen) + (0 if own or shared else again)
    rows = [row for tower in draft.towers for row in seen.model.tower_rows(tower)]
    total = resident_bytes([row for row in rows if row.tensor.role not in _VOCABULARY], seen)
    if engine.name == "sglang":
        total += _vocabulary(seen, deployment.model)
    elif not engine.shares_prediction_head:
        total += resident_bytes([row for row in rows if row.tensor.role == "mtp.head"], seen)
    return total + (0 if shared else _vocabulary(seen, deployment.model))


def shares_embedding(deployment: Deployment) -> bool:
    """Whether what drafts takes the target's embedding, which lies on another rank where there are several stages."""
    return deployment.engine.shares_draft_embedding and deployment.pipeline_parallel == 1


def _vocabulary(seen: Deployment, target: ModelSpec) -> int:
    """Bytes of one more embedding on one rank."""
    size = seen.dtype.bytes_for(target.vocab * target.hidden)
    return pieces(size, target.vocab, seen.tensor_parallel)
