"""BLIP-2 and InstructBLIP: a small BERT whose learned queries read the tower and speak to the decoder."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.readers.families import Family
from narrows.models.readers.multimodal import text_of
from narrows.models.readers.several import together
from narrows.models.readers.towers import vision
from narrows.models.readers.towers.parts import Parts
from narrows.models.spec import ModelSpec


def read(c: Fields, model_type: str) -> ModelSpec:
    """Any of them; InstructBLIP's queries read the instruction too."""
    reads_text = model_type != "blip-2"
    kind = f"{model_type.replace('-', '_')}_vision_model"
    family = Family(text="opt", names="language_model", tied="text")
    text = text_of(c, family)
    body = vision(c.nested("vision_config"), kind, "vision_model.")
    q = c.nested("qformer_config")
    parts = _qformer(q, body.hidden, reads_text)
    hidden = q.size("hidden_size", default=768)
    between = Parts("")
    between.parameter("query_tokens", 1, c.size("num_query_tokens", default=32), hidden)
    between.found += parts.found
    between.add("language_projection", text.hidden, hidden, bias=True)
    c.read |= {"image_text_hidden_size", "use_decoder_only_language_model", "qformer_config", "num_query_tokens"}
    c.read |= {"initializer_factor"}
    return together(c, family, text, model_type, [body.parts.tower(), between.tower("query transformer")])


def _qformer(q: Fields, source: int, reads_text: bool) -> Parts:
    hidden, layers = q.size("hidden_size", default=768), q.layers("num_hidden_layers", default=12)
    inner, every = q.size("intermediate_size", default=3072), q.size("cross_attention_frequency", default=2)
    q.divide(hidden, q.size("num_attention_heads", default=12), "hidden_size", "num_attention_heads")
    parts = Parts("qformer.")
    if reads_text:
        parts.add("embeddings.word_embeddings", q.size("vocab_size", default=30522), hidden)
        parts.add("embeddings.position_embeddings", q.size("max_position_embeddings", default=512), hidden)
        parts.add("embeddings.layernorm", hidden, bias=True)
    else:
        parts.add("layernorm", hidden, bias=True)
    layer, looking = "encoder.layer.{}.", -(-layers // every)
    for stem, count, inputs in (("attention", layers, hidden), ("crossattention", looking, source)):
        parts.add(f"{layer}{stem}.attention.query", hidden, hidden, repeats=count, bias=True)
        for name in ("key", "value"):
            parts.add(f"{layer}{stem}.attention.{name}", hidden, inputs, repeats=count, bias=True)
        parts.add(f"{layer}{stem}.output.dense", hidden, hidden, repeats=count, bias=True)
        parts.add(f"{layer}{stem}.output.LayerNorm", hidden, repeats=count, bias=True)
    of_text = reads_text or q.flag("use_qformer_text_input", False)
    for kind in ("", "_query") if of_text else ("_query",):
        parts.add(f"{layer}intermediate{kind}.dense", inner, hidden, repeats=layers, bias=True)
        parts.add(f"{layer}output{kind}.dense", hidden, inner, repeats=layers, bias=True)
        parts.add(f"{layer}output{kind}.LayerNorm", hidden, repeats=layers, bias=True)
    return parts
