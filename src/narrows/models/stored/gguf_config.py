"""From the metadata of a GGUF file to the config that a family's reader reads: the same fields under other names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import SequenceMatcher
from typing import Any

from narrows.models.fields import MOST_LAYERS
from narrows.models.paths import short
from narrows.models.stored.gguf import GgufTensor
from narrows.models.stored.gguf_families import ARCHITECTURES
from narrows.text import BadInput

_LAYER = re.compile(r"blk\.([0-9]{1,6})\.(.+)")


class Facts:
    """What a file says of its model: metadata of its architecture, and which layers have which tensors."""

    def __init__(self, path: str, metadata: Mapping[str, Any], tensors: Mapping[str, GgufTensor]) -> None:
        self.path = path
        self.metadata = metadata
        self.tensors = tensors
        stated = metadata.get("general.architecture")
        self.architecture = stated if isinstance(stated, str) else ""
        self.having: dict[str, set[int]] = {}
        for name in tensors:
            found = _LAYER.fullmatch(name)
            if found:
                self.having.setdefault(found[2], set()).add(int(found[1]))
        self.layers = 0
        self.layers = self._layers()

    def _layers(self) -> int:
        """Layers of the decoder: those for prediction of further tokens stand behind them and do not count."""
        count = self.whole("block_count", least=1)
        predicted = self.whole("nextn_predict_layers", least=0, missing=0)
        if count > min(MOST_LAYERS, len(self.tensors)) or predicted >= count:
            raise self.refusal("block_count", count)
        return count - predicted

    def refusal(self, key: str, value: object) -> BadInput:
        """What a value that cannot be is answered with."""
        return BadInput(
            "'{path}' says {key} = {value}, which does not fit its tensors; download it again, or convert it anew",
            path=short(self.path),
            key=f"{self.architecture}.{key}"[:80],
            value=str(value)[:40],
        )

    def value(self, key: str) -> Any:
        """A metadata value of the architecture, None if absent. Of a list by layer, the one value it has beside 0.

        Raises BadInput where layers differ.
        """
        stated = self.metadata.get(f"{self.architecture}.{key}")
        if not isinstance(stated, list):
            return stated
        if not self.layers:
            raise self.refusal(key, f"{len(stated)} values")
        values = {one for one in stated[: self.layers] if one}
        if len(values) > 1:
            raise BadInput(
                "'{path}' has layers that differ in {key}, which narrows does not read yet for this architecture",
                path=short(self.path),
                key=f"{self.architecture}.{key}"[:80],
            )
        return values.pop() if values else 0

    def whole(self, key: str, *, least: int, missing: int | None = None) -> int:
        """A whole number that must be there, unless `missing` stands for it.

        Raises BadInput without it, or below `least`.
        """
        found = self.value(key)
        if found is None and missing is not None:
            return missing
        if isinstance(found, bool) or not isinstance(found, int) or found < least:
            if found is None:
                raise BadInput(
                    "'{path}' does not say {key}, and narrows will not guess it; download it again, or convert it anew",
                    path=short(self.path),
                    key=f"{self.architecture}.{key}"[:80],
                )
            raise self.refusal(key, found)
        return found

    def by_layer(self, key: str) -> list[Any]:
        """A value for every layer, from a list or from one for all."""
        stated = self.metadata.get(f"{self.architecture}.{key}")
        if isinstance(stated, list):
            if len(stated) < self.layers:
                raise self.refusal(key, f"{len(stated)} values")
            return stated[: self.layers]
        return [stated] * self.layers

    def layers_with(self, name: str) -> list[int]:
        """The layers of the decoder that have this tensor."""
        return sorted(i for i in self.having.get(name, ()) if i < self.layers)

    def has(self, name: str) -> bool:
        """Whether some layer, or the file outside of layers, has this tensor."""
        return name in self.having or name in self.tensors


_NOTHING = object()
_FIXED = {"None": None, "False": False}


def _source(facts: Facts, written: str) -> Any:
    """The value of a source as `gguf_families` writes it; `_NOTHING` if the file has none."""
    for one in written.split("|"):
        found = _one(facts, one)
        if found is not _NOTHING and (found or one[0] not in "+-"):
            return found
    return False if written.startswith(("+", "-")) else _NOTHING


def _one(facts: Facts, written: str) -> Any:
    if written[0] in "+-":
        return facts.has(written[1:]) == (written[0] == "+")
    if written[0] == "=":
        return _FIXED[written[1:]] if written[1:] in _FIXED else int(written[1:])
    for sign in (" / ", " - "):
        if sign in written:
            left, right = (facts.value(key) for key in written.split(sign))
            if left is None or right is None:
                return _NOTHING
            whole = all(isinstance(side, int) and not isinstance(side, bool) for side in (left, right))
            if not whole or right < 1 or (sign == " / " and left % right):
                raise facts.refusal(written, f"{left}{sign}{right}")
            return left // right if sign == " / " else left - right
    found = facts.value(written)
    return _NOTHING if found is None else found


def config_of(path: str, metadata: Mapping[str, Any], tensors: Mapping[str, GgufTensor]) -> dict[str, Any]:
    """The config of the model in a file. Raises BadInput for an architecture that no reader knows."""
    name = metadata.get("general.architecture")
    known = ARCHITECTURES.get(name) if isinstance(name, str) else None
    if not isinstance(name, str):
        raise BadInput(
            "'{path}' does not say {key}, and narrows will not guess it; download it again, or convert it anew",
            path=short(path),
            key="general.architecture",
        )
    if known is None:
        raise BadInput(
            "'{path}' is of the architecture '{name}', which narrows does not read; it reads {known}",
            path=short(path),
            name=name[:40],
            known=_nearest(name),
        )
    facts = Facts(path, metadata, tensors)
    embedding = tensors.get("token_embd.weight")
    if embedding is None or len(embedding.dims) != 2:
        raise BadInput(
            "'{path}' has no token embedding (token_embd.weight), so that it is no language model; give the model's "
            "main file",
            path=short(path),
        )
    config: dict[str, Any] = {
        "model_type": known.model_type,
        "torch_dtype": "float16",
        "vocab_size": embedding.dims[1],
        "tie_word_embeddings": "output.weight" not in tensors,
    }
    for field, source in known.fields.items():
        found = _source(facts, source.removeprefix("?"))
        if found is not _NOTHING:
            config[field] = found
    for field in ("num_hidden_layers", "n_layer", "n_layers"):
        if field in config:
            config[field] = facts.layers
    if known.by_layer:
        config |= _BY_LAYER[known.by_layer](facts, config)
    return config | _sparse_layers(facts, config["model_type"])


def _sparse_layers(f: Facts, model_type: str) -> dict[str, Any]:
    """Which layers have experts, for the families whose config can say so."""
    at = set(f.layers_with("ffn_gate_inp.weight"))
    if not at:
        return {}
    if model_type in ("deepseek_v2", "deepseek_v3", "glm_moe_dsa", "kimi_linear", "exaone_moe"):
        return {"mlp_layer_types": ["sparse" if i in at else "dense" for i in range(f.layers)]}
    if model_type in ("qwen2_moe", "qwen3_moe", "qwen3_next"):
        return {"mlp_only_layers": [i for i in range(f.layers) if i not in at]}
    return {}


def _nearest(name: str) -> str:
    """Architectures that narrows reads, those whose names are likest first, as many as a line holds."""
    found, room = "", 200
    for one in sorted(ARCHITECTURES, key=lambda one: -SequenceMatcher(None, name[:40], one).ratio()):
        if len(found) + len(one) > room:
            return found + ", …"
        found += f", {one}" if found else one
    return found


def _experts_or_not(f: Facts, config: dict[str, Any]) -> dict[str, Any]:
    """Mixtral is a Llama with experts."""
    experts = f.whole("expert_count", least=0, missing=0)
    if not experts:
        return {}
    width = f.value("expert_feed_forward_length") or config.get("intermediate_size")
    used = f.whole("expert_used_count", least=1)
    return {
        "model_type": "mixtral",
        "num_local_experts": experts,
        "num_experts_per_tok": used,
        "intermediate_size": width,
    }


def _window_pattern(f: Facts, config: dict[str, Any]) -> dict[str, Any]:
    """Which layers slide, where the file says so."""
    stated = f.metadata.get(f"{f.architecture}.attention.sliding_window_pattern")
    if isinstance(stated, list):
        return {"layer_types": [_SLIDES[bool(one)] for one in f.by_layer("attention.sliding_window_pattern")]}
    every = isinstance(stated, int) and config["model_type"] not in ("gemma2", "gpt_oss")
    return {"sliding_window_pattern": stated} if every else {}


_SLIDES = {True: "sliding_attention", False: "full_attention"}


def _olmo3_or_not(f: Facts, config: dict[str, Any]) -> dict[str, Any]:
    """OLMo 3 is OLMo 2 with windows."""
    return {"model_type": "olmo3", **_window_pattern(f, config)} if config.get("sliding_window") else {}


def _gemma4(f: Facts, config: dict[str, Any]) -> dict[str, Any]:
    """Wider heads, and other KV heads, in full layers; wider feed-forward parts where keys are borrowed."""
    slides = [bool(one) for one in f.by_layer("attention.sliding_window_pattern")]
    kv, width = f.by_layer("attention.head_count_kv"), f.by_layer("feed_forward_length")
    full = {one for one, slide in zip(kv, slides, strict=True) if not slide}
    sliding = {one for one, slide in zip(kv, slides, strict=True) if slide}
    if len(full) > 1 or len(sliding) != 1:
        raise f.refusal("attention.head_count_kv", kv[:4])
    table = f.tensors.get("per_layer_token_embd.weight")
    same = bool(set(f.layers_with("attn_k.weight")) - set(f.layers_with("attn_v.weight")))
    return {
        "layer_types": [_SLIDES[one] for one in slides],
        "num_key_value_heads": sliding.pop(),
        "num_global_key_value_heads": full.pop() if full else None,
        "attention_k_eq_v": same,
        "intermediate_size": width[0],
        "use_double_wide_mlp": width[-1] == 2 * width[0] if isinstance(width[0], int) else False,
        "vocab_size_per_layer_input": table.dims[-1] if table is not None else config["vocab_size"],
    }


def _multi_query(f: Facts, config: dict[str, Any]) -> dict[str, Any]:
    return {"multi_query": f.whole("attention.head_count_kv", least=1, missing=0) == 1}


def _falcon(f: Facts, config: dict[str, Any]) -> dict[str, Any]:
    """Falcon 40B and 180B have two norms per layer, 7B one KV head, 11B neither."""
    two, kv = f.has("attn_norm_2.weight"), config["num_kv_heads"]
    new = two or kv not in (1, config["num_attention_heads"])
    return {"new_decoder_architecture": new, "multi_query": kv == 1, "num_ln_in_parallel_attn": 2 if two else 1}


def _deepseek(f: Facts, config: dict[str, Any]) -> dict[str, Any]:
    """V3 and its relatives correct their router; V2 does not."""
    return {} if f.has("exp_probs_b.bias") or f.has("exp_probs_b") else {"model_type": "deepseek_v2"}


def _shared_or_not(f: Facts, config: dict[str, Any]) -> dict[str, Any]:
    return {} if config.get("shared_intermediate_size") else {"model_type": "granitemoe", "shared_intermediate_size": 0}


def _full_where(name: str, otherwise: str) -> Callable[[Facts, dict[str, Any]], dict[str, Any]]:
    """Layers with this tensor attend to everything, the others are of another kind."""

    def found(f: Facts, config: dict[str, Any]) -> dict[str, Any]:
        at = set(f.layers_with(name))
        return {"layer_types": ["full_attention" if i in at else otherwise for i in range(f.layers)]}

    return found


def _one_part_layers(f: Facts, config: dict[str, Any]) -> dict[str, Any]:
    """Every layer is one part only, and its tensors tell which."""
    kinds = {}
    for kind, name in (
        ("mlp", "ffn_up.weight"),
        ("moe", "ffn_gate_inp.weight"),
        ("full_attention", "attn_q.weight"),
        ("linear_attention", "ssm_in.weight"),
    ):
        kinds.update(dict.fromkeys(f.layers_with(name), kind))
    missing = [i for i in range(f.layers) if i not in kinds]
    if missing:
        raise f.refusal("block_count", f.layers)
    return {"layers_block_type": [kinds[i] for i in range(f.layers)]}


def _jamba(f: Facts, config: dict[str, Any]) -> dict[str, Any]:
    """Attention and experts stand in every n-th layer."""
    found: dict[str, Any] = {}
    for part, name in (("attn", "attn_q.weight"), ("expert", "ffn_gate_inp.weight")):
        at = f.layers_with(name)
        period = at[1] - at[0] if len(at) > 1 else f.layers
        offset = at[0] if at else 0
        if at != list(range(offset, f.layers, period)) and (part == "attn" or at):
            raise f.refusal("block_count", f.layers)
        found |= {f"{part}_layer_period": period, f"{part}_layer_offset": offset}
    return found


_BY_LAYER: dict[str, Callable[[Facts, dict[str, Any]], dict[str, Any]]] = {
    "experts_or_not": _experts_or_not,
    "window_pattern": _window_pattern,
    "olmo3_or_not": _olmo3_or_not,
    "gemma4": _gemma4,
    "multi_query": _multi_query,
    "falcon": _falcon,
    "deepseek": _deepseek,
    "shared_or_not": _shared_or_not,
    "linear_layers": _full_where("attn_q.weight", "linear_attention"),
    "convolution_layers": _full_where("attn_q.weight", "conv"),
    "latent_layers": _full_where("attn_kv_a_mqa.weight", "linear_attention"),
    "one_part_layers": _one_part_layers,
    "jamba": _jamba,
}
