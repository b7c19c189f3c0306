"""What leads from a vision tower's output into the decoder: linear layers, mergers of patches, resamplers."""

from __future__ import annotations

from collections.abc import Callable

from narrows.models.fields import Fields
from narrows.models.readers.towers.encoder import Body
from narrows.models.readers.towers.extras import merge_of, window_of
from narrows.models.readers.towers.parts import Parts, levels
from narrows.models.spec import ModelSpec
from narrows.text import BadInput

Projector = Callable[[Fields, Body, ModelSpec], Parts]
"""From the whole config, the tower and the decoder: the tensors between."""

LINEARS = ("linear_1", "linear_2")


def nothing(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """The tower itself ends as wide as the decoder."""
    return Parts("")


def llava(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """LLaVA: two linear layers from the outputs of one or several layers."""
    parts = Parts("multi_modal_projector.")
    wide = body.width * levels(c, "vision_feature_layer")
    parts.mlp("", wide, text.hidden, text.hidden, names=LINEARS, bias=c.flag("multimodal_projector_bias", True))
    return parts


def llava_next(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """LLaVA-NeXT's, and a mark of the end of a line."""
    parts = llava(c, body, text)
    parts.found = [*parts.found, *_alone("image_newline", text.hidden).found]
    return parts


def _alone(name: str, *shape: int) -> Parts:
    parts = Parts("")
    parts.parameter(name, *shape)
    return parts


def vipllava(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """LLaVA's after a norm, from the outputs of five layers."""
    parts = Parts("multi_modal_projector.")
    wide = body.width * levels(c, "vision_feature_layer", 5)
    parts.add("projector_layernorm", wide, bias=True)
    parts.mlp("", wide, text.hidden, text.hidden, names=LINEARS)
    return parts


def internvl(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """InternVL: neighbouring patches side by side, a norm and two linear layers."""
    parts = Parts("multi_modal_projector.")
    wide = body.width * max(1, int(1 / c.factor("downsample_ratio", 0.5))) ** 2
    parts.add("layer_norm", wide, bias=True)
    parts.mlp("", wide, text.hidden, text.hidden, names=LINEARS)
    return parts


def internvl_chat(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """InternVL's, by the names of its own files."""
    parts = internvl(c, body, text)
    return parts.renamed("mlp1.", ("layer_norm", "0"), ("linear_1", "1"), ("linear_2", "3"))


def linear(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """PaliGemma: one linear layer, to `projection_dim`."""
    parts = Parts("multi_modal_projector.")
    parts.add("linear", c.size("projection_dim", default=2048), body.width, bias=True)
    return parts


def gemma3(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Gemma 3: a norm and a matrix."""
    parts = Parts("multi_modal_projector.")
    parts.parameter("mm_input_projection_weight", body.width, text.hidden)
    parts.add("mm_soft_emb_norm", body.width)
    return parts


def pixel_shuffle(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Idefics 3 and SmolVLM: neighbouring patches side by side, one linear layer."""
    parts = Parts("model.connector.modality_projection.")
    parts.add("proj", text.hidden, body.width * merge_of(c, "scale_factor"))
    return parts


def patch_merger(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Mistral 3: a norm, a merger of neighbouring patches, two linear layers."""
    parts = Parts("multi_modal_projector.")
    bias, hidden = c.flag("multimodal_projector_bias", False), body.width
    parts.add("norm", hidden)
    parts.add("patch_merger.merging_layer", hidden, hidden * merge_of(c))
    wide = hidden * levels(c, "vision_feature_layer")
    parts.mlp("", wide, text.hidden, text.hidden, names=LINEARS, bias=bias)
    return parts


def lighton_ocr(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Mistral 3's, of one layer, without biases."""
    parts = Parts("model.vision_projection.")
    parts.add("norm", body.width)
    parts.add("patch_merger.merging_layer", body.width, body.width * merge_of(c))
    parts.mlp("", body.width, text.hidden, text.hidden, names=LINEARS, bias=False)
    return parts


def cohere2_vision(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Command A Vision: neighbouring patches side by side, and a gated unit: half of the inner width is the gate."""
    parts = Parts("multi_modal_projector.")
    inner = c.size("alignment_intermediate_size", default=36864, least=2)
    parts.add("linear_1", inner, body.width * merge_of(c, "downsample_factor"), bias=True)
    parts.add("linear_2", text.hidden, inner // 2, bias=True)
    return parts


def aya_vision(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Aya Vision: neighbouring patches side by side, a norm and a gated unit."""
    parts = Parts("multi_modal_projector.")
    wide = body.width * merge_of(c, "downsample_factor")
    inner = c.size("alignment_intermediate_size", default=text.hidden, least=2)
    parts.add("layernorm", wide, bias=True)
    parts.add("linear_1", inner, wide, bias=True)
    parts.add("linear_2", text.hidden, inner // 2, bias=True)
    c.read |= {"adapter_layer_norm_eps", "max_splits_per_img"}
    return parts


def lfm2_vl(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """LFM2-VL: neighbouring patches side by side, a norm where it is used, two linear layers."""
    parts = Parts("model.multi_modal_projector.")
    wide = body.width * merge_of(c, "downsample_factor")
    if c.flag("projector_use_layernorm", True):
        parts.add("layer_norm", wide, bias=True)
    inner = c.size("projector_hidden_size", default=2560)
    parts.mlp("", wide, inner, text.hidden, names=LINEARS, bias=c.flag("projector_bias", True))
    return parts


def deepseek_vl(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """DeepSeek-VL: two linear layers."""
    parts = Parts("model.aligner.")
    parts.mlp("", body.width, text.hidden, text.hidden, names=("linear1", "linear2"))
    return parts


def kimi_k25(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Kimi K2.5: a norm, neighbouring patches side by side, two linear layers."""
    parts = Parts("mm_projector.")
    wide = body.width * window_of(c.nested("vision_config"), "merge_kernel_size")
    norm = c.maybe_size("projection_hidden_size", default=1152)
    parts.add("pre_norm", 1152 if norm is None else norm, bias=True)
    parts.mlp("", wide, wide, text.hidden, names=("proj.0", "proj.2"))
    return parts


def hunyuan_vl(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Hunyuan VL and OCR: two convolutions over neighbouring patches, a matrix between two norms, and four marks."""
    parts, hidden, out = Parts("model.vision_tower.patch_merger."), body.width, text.hidden
    v = c.nested("vision_config")
    side = v.size("spatial_merge_size", default=2, most=1024)
    v.read |= {"text_hidden_size", "out_hidden_size", "interpolate_mode", "img_max_token_num", "min_image_size"}
    parts.parameter("image_newline", 4 * hidden)
    for mark in ("begin", "end", "sep"):
        parts.parameter(f"image_{mark}", out)
    parts.add("proj_conv", 2 * hidden, hidden, side, side, bias=True)
    parts.add("proj_out", 4 * hidden, 2 * hidden, 1, 1, bias=True)
    parts.add("mlp", out, 4 * hidden, bias=True)
    parts.add("before_rms", hidden)
    parts.add("after_rms", out)
    c.read |= {"im_start_id", "im_end_id", "im_newline_id"}
    return parts


def kimi_vl(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Kimi-VL: a norm, neighbouring patches side by side, two linear layers."""
    parts = Parts("multi_modal_projector.")
    wide = body.width * window_of(c.nested("vision_config"), "merge_kernel_size")
    parts.add("pre_norm", body.width, bias=True)
    parts.mlp("", wide, wide, text.hidden, names=LINEARS)
    c.read |= {"media_placeholder_token_id"}
    return parts


def video_llama_3(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """VideoLLaMA 3: two linear layers."""
    parts = Parts("model.projector.readout.")
    parts.mlp("", body.width, text.hidden, text.hidden, names=("0", "2"))
    return parts


def paddleocr_vl(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """PaddleOCR-VL: a norm, neighbouring patches side by side, two linear layers."""
    parts = Parts("mlp_AR.")
    wide = body.width * merge_of(c.nested("vision_config"))
    parts.add("pre_norm", body.width, bias=True)
    parts.mlp("", wide, wide, text.hidden, names=LINEARS)
    return parts


def minicpm(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """MiniCPM-V: mergers of four patches, one after another, the last as wide as the decoder."""
    times, wide = c.size("merger_times", default=1, most=64), 4 * body.width
    parts = Parts("model.merger.mlp.")
    for index in range(times):
        parts.add(f"{index}.pre_norm", wide, bias=True)
        parts.mlp(f"{index}.", wide, wide, text.hidden if index == times - 1 else body.width, names=LINEARS)
    return parts


def ovis2(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Ovis 2: a table of visual tokens."""
    hidden = c.size("hidden_size", default=1536)
    for name, stated, own in (
        ("hidden_size", hidden, text.hidden),
        ("vocab_size", c.size("vocab_size", default=151643), text.vocab),
    ):
        if not text.head_tied and stated != own:
            raise BadInput(
                "config field '{field}' differs from that of the text part; the file contradicts itself", field=name
            )
    parts = Parts("model.")
    parts.add("visual_embeddings_table", body.width, hidden)
    return parts


def hyperclovax(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """HyperCLOVA X: one linear layer."""
    parts = Parts("model.")
    parts.add("projector", text.hidden, body.width, bias=True)
    return parts


def step3p7(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Step 3.7: one linear layer."""
    parts = Parts("")
    parts.add("multi_modal_projector", text.hidden, body.width, bias=c.flag("projector_bias", False))
    return parts


def step3(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Step 3: two convolutions that halve the sides, and one linear layer."""
    parts = Parts("")
    wide = c.nested("vision_config").size("output_hidden_size", default=4096)
    parts.add("vit_downsampler", wide, body.hidden, 2, 2, bias=True)
    parts.add("vit_downsampler2", 2 * wide, wide, 3, 3, bias=True)
    parts.add("vit_large_projector", text.hidden, 2 * wide, bias=c.flag("projector_bias", False))
    c.read |= {"understand_projector_stride", "image_token_len", "patch_token_len"}
    return parts


def granite_docling(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Granite Docling: a router between the two ways, where there is one."""
    parts = Parts("model.density_router.")
    inner = c.maybe_size("density_router_hidden_size", default=None)
    if inner is not None:
        parts.add("att", 1, body.hidden, bias=True)
        parts.add("norm", body.hidden, bias=True)
        parts.mlp("", body.hidden, inner, 1)
    return parts


def cosmos3_edge(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Cosmos 3 Edge: a norm, neighbouring patches side by side, two linear layers."""
    parts = Parts("model.projector.")
    wide, inner = body.width * merge_of(c.nested("vision_config")), c.size("projector_hidden_size", default=11520)
    parts.add("norm", body.width, bias=True)
    parts.mlp("", wide, inner, text.hidden, names=("linear_fc1", "linear_fc2"))
    return parts


def florence2(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Florence-2: a projection and a norm, learned positions of rows and columns."""
    parts, v = Parts("model.multi_modal_projector."), c.nested("vision_config")
    out, rows = v.size("projection_dim", default=1024), v.size("max_position_embeddings", default=50)
    parts.add("image_projection", out, body.width)
    parts.add("image_proj_norm", out, bias=True)
    half = body.width // 2
    parts.add("image_position_embed.row_embeddings", rows, half)
    parts.add("image_position_embed.column_embeddings", rows, body.width - half)
    return parts


def muse(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """Muse: two linear layers on neighbouring patches side by side, and one into the decoder."""
    parts, inner = Parts("model."), c.size("projector_hidden_size", default=4096)
    wide = c.size("out_hidden_size", default=6144)
    parts.mlp("vision_adapter.", wide, inner, inner, names=("fc1", "fc2"), bias=False)
    parts.add("vision_projection", text.hidden, inner)
    return parts


def minimax_m3_vl(c: Fields, body: Body, text: ModelSpec) -> Parts:
    """MiniMax M3: two linear layers, neighbouring patches side by side, two more."""
    parts = Parts("multi_modal_projector.")
    inner, merged = c.size("projector_hidden_size", default=6144), merge_of(c.nested("vision_config"))
    parts.mlp("", body.width, inner, text.hidden, names=LINEARS)
    parts.mlp("", text.hidden * merged, inner, text.hidden, names=("merge_linear_1", "merge_linear_2"))
    return parts
