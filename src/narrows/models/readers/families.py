"""Which decoder, which tower, what stands between, and where names and ties are: multimodal models as data.

Source: the model and config classes of transformers 5 (Apache-2.0).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from narrows.models.readers.towers import projectors, resamplers
from narrows.models.readers.towers.projectors import Projector


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One architecture.

    text, vision: the model types of both parts where the file names none. at: where the tower is in the file (twice:
    two towers of one kind). names: how the decoder's names are moved (see `dialects_inside`). tied: what says that
    the head is the embedding: the field at the top with its default (`top`), that or the one in the text part
    (`either`), both alike (`both`), the text part alone (`text`), or nothing (`never`).
    flat: old files have the decoder's fields at the
    top.
    """

    text: str = "llama"
    vision: str = "clip_vision_model"
    at: tuple[str, ...] = ("vision_tower.",)
    names: str = "language_model"
    tied: Literal["top", "either", "both", "text", "never"] = "top"
    tied_default: bool = False
    project: Projector = projectors.llava
    flat: bool = False
    text_field: str = "text_config"


_LLAVA = Family(tied="either")
_GLM4V = Family(
    text="glm4v_text",
    vision="glm4v_vision",
    at=("model.visual.",),
    names="model.language_model",
    tied="either",
    project=projectors.nothing,
)
_QWEN2_VL = Family(
    text="qwen2_vl_text",
    vision="qwen2_vl_vision",
    at=("visual.",),
    names="",
    tied="either",
    project=projectors.nothing,
    flat=True,
)
_MINICPM = Family(
    text="qwen3_5_text",
    vision="minicpmv4_6_vision",
    at=("model.vision_tower.",),
    names="model.language_model",
    project=projectors.minicpm,
)
_IDEFICS3 = Family(
    vision="idefics3_vision",
    at=("model.vision_model.",),
    names="model.text_model",
    project=projectors.pixel_shuffle,
)

_INKLING2 = Family(
    text="inkling2_text",
    vision="inkling2_vision",
    at=("model.vision_tower.",),
    names="model.language_model",
    tied="never",
    project=projectors.nothing,
)

FAMILIES: dict[str, Family] = {
    "llava": _LLAVA,
    "llava_next": Family(project=projectors.llava_next),
    "llava_next_video": Family(tied="either", project=projectors.llava_next),
    "llava_onevision": Family(text="qwen2", vision="siglip_vision_model", tied="either", project=projectors.llava_next),
    "vipllava": Family(project=projectors.vipllava),
    "video_llava": Family(at=("image_tower.", "video_tower.")),
    "internvl": Family(text="qwen2", vision="internvl_vision", tied_default=True, project=projectors.internvl),
    "qianfan_ocr": Family(text="qwen3", vision="qianfan_ocr_vision", project=projectors.internvl),
    "internvl_chat": Family(
        text="qwen2",
        vision="intern_vit_6b",
        at=("vision_model.",),
        tied="text",
        project=projectors.internvl_chat,
        text_field="llm_config",
    ),
    "paligemma": Family(text="gemma", vision="siglip_vision_model", tied_default=True, project=projectors.linear),
    "shieldgemma2": Family(text="gemma3_text", vision="siglip_vision_model", tied="either", project=projectors.gemma3),
    "idefics3": _IDEFICS3,
    "smolvlm": msgspec.structs.replace(_IDEFICS3, vision="smolvlm_vision"),
    "granite_docling": Family(
        text="granite_docling_text",
        vision="granite_docling_vision",
        at=("model.vision_model.",),
        names="model.text_model",
        tied_default=True,
        project=projectors.granite_docling,
    ),
    "qwen2_vl": _QWEN2_VL,
    "qwen2_5_vl": msgspec.structs.replace(_QWEN2_VL, text="qwen2_5_vl_text", vision="qwen2_5_vl_vision"),
    "glm4v": _GLM4V,
    "glm4v_moe": msgspec.structs.replace(_GLM4V, text="glm4v_moe_text", vision="glm4v_moe_vision"),
    "glm46v": msgspec.structs.replace(_GLM4V, tied="top"),
    "glmga": msgspec.structs.replace(_GLM4V, tied="top"),
    "glm_ocr": msgspec.structs.replace(_GLM4V, text="glm_ocr_text", vision="glm_ocr_vision"),
    "kimi_k25": Family(text="deepseek_v3", vision="kimi_k25_vision", tied_default=True, project=projectors.kimi_k25),
    "lfm2_vl": Family(
        text="lfm2",
        vision="siglip2_vision_model",
        at=("model.vision_tower.",),
        names="model.language_model",
        tied_default=True,
        project=projectors.lfm2_vl,
    ),
    "minicpmv4_6": _MINICPM,
    "minicpmv4_7": msgspec.structs.replace(_MINICPM, vision="minicpmv4_7_vision"),
    "minicpm_ocr": msgspec.structs.replace(_MINICPM, vision="minicpm_ocr_vision", tied_default=True),
    "ovis2": Family(
        text="qwen2",
        vision="ovis2_vision",
        at=("model.vision_tower.",),
        names="model.language_model",
        tied_default=True,
        project=projectors.ovis2,
    ),
    "cohere2_vision": Family(
        text="cohere2", vision="siglip_vision_model", tied_default=True, project=projectors.cohere2_vision
    ),
    "glm5_next": Family(
        text="glm5_next_text",
        vision="glm5_next_vision",
        at=("model.visual.",),
        names="model.language_model",
        project=projectors.nothing,
    ),
    "aya_vision": Family(
        text="cohere2", vision="siglip_vision_model", tied_default=True, project=projectors.aya_vision
    ),
    "hunyuan_vl": Family(
        text="hunyuan_vl_text",
        vision="hunyuan_vl_vision",
        at=("model.vision_tower.",),
        names="model.language_model",
        tied_default=True,
        project=projectors.hunyuan_vl,
        flat=True,
    ),
    "dots_ocr": Family(
        text="qwen2",
        vision="dots_vit",
        at=("vision_tower.",),
        names="",
        tied="either",
        project=projectors.nothing,
        flat=True,
    ),
    "kimi_vl": Family(
        text="deepseek_v3", vision="moonvit", at=("vision_tower.",), tied="text", project=projectors.kimi_vl
    ),
    "exaone4_5": Family(
        text="exaone4",
        vision="exaone4_5_vision",
        at=("model.visual.",),
        names="model.language_model",
        project=projectors.nothing,
    ),
    "deepseek_vl": Family(
        vision="siglip_vision_model",
        at=("model.vision_model.",),
        names="model.language_model",
        tied_default=True,
        project=projectors.deepseek_vl,
    ),
    "lighton_ocr": Family(
        text="qwen3",
        vision="pixtral",
        at=("model.vision_encoder.",),
        names="model.language_model",
        tied_default=True,
        project=projectors.lighton_ocr,
    ),
    "paddleocr_vl": Family(
        text="paddleocr_vl_text",
        vision="paddleocr_vl_vision",
        at=("visual.",),
        names="",
        tied="either",
        tied_default=True,
        project=projectors.paddleocr_vl,
        flat=True,
    ),
    "video_llama_3": Family(
        text="qwen2",
        vision="video_llama_3_vision",
        at=("model.vision_model.",),
        names="model.language_model",
        tied="either",
        project=projectors.video_llama_3,
    ),
    "idefics2": Family(
        text="mistral",
        vision="idefics2_vision",
        at=("model.vision_model.",),
        names="model.text_model",
        project=resamplers.idefics2,
    ),
    "aria": Family(text="aria_text", vision="idefics3_vision", project=resamplers.aria),
    "ernie4_5_vl_moe": Family(
        text="ernie4_5_vl_moe_text",
        vision="ernie4_5_vl_moe_vision",
        at=("vision_model.",),
        names="",
        tied_default=True,
        project=resamplers.ernie4_5_vl_moe,
    ),
    "mistral_large4": Family(text="mistral_large4_text", vision="pixtral", names="", project=projectors.patch_merger),
    "molmo2": Family(
        text="molmo2_text",
        vision="molmo2_vision",
        at=("model.vision_backbone.image_vit.",),
        names="model.language_model",
        tied="never",
        project=resamplers.molmo2,
    ),
    "lfm3_vl": Family(
        text="lfm3",
        vision="lfm3_vl_vision",
        at=("model.vision_tower.",),
        names="model.language_model",
        tied_default=True,
        project=resamplers.lfm3_vl,
    ),
    "nemotron_h_omni": Family(
        text="nemotron_h",
        vision="radio",
        at=("vision_model.radio_model.model.",),
        tied="text",
        project=resamplers.nemotron_h_omni,
    ),
    "cosmos3_edge": Family(
        text="cosmos3_edge_text",
        vision="cosmos3_edge_vision",
        at=("model.visual.",),
        names="model.language_model",
        tied="never",
        project=projectors.cosmos3_edge,
    ),
    "florence2": Family(
        text="bart",
        vision="florence_vision",
        at=("model.vision_tower.",),
        names="model.language_model",
        tied="both",
        tied_default=True,
        project=projectors.florence2,
    ),
    "step3_vl": Family(
        text="step3_text",
        vision="step3_vision_encoder",
        at=("vision_model.",),
        names="",
        tied="text",
        project=projectors.step3,
    ),
    "step3p7": Family(
        text="step3p5",
        vision="step3p5_vision",
        at=("vision_model.",),
        names="",
        tied="never",
        project=projectors.step3p7,
    ),
    "muse_glimmer": Family(
        text="muse_glimmer_text",
        vision="muse_vision",
        at=("model.vision_tower.",),
        names="model.language_model",
        tied="never",
        project=projectors.muse,
    ),
    "minimax_m3_vl": Family(
        text="minimax_m3_vl_text", vision="minimax_m3_vl_vision", tied="either", project=projectors.minimax_m3_vl
    ),
    "inkling2": _INKLING2,
    "inkling2_loop": msgspec.structs.replace(_INKLING2, text="inkling2_loop_text"),
    "hy_v4_vl": Family(
        text="hy_v4_vl_text",
        vision="hy_v4_vl_vision",
        at=("model.vision_tower.",),
        names="model.language_model",
        project=projectors.nothing,
    ),
    "hyperclovax_vision_v2": Family(
        text="hyperclovax",
        vision="qwen2_5_vl_vision",
        at=("model.vision_model.",),
        names="model.language_model",
        tied_default=True,
        project=projectors.hyperclovax,
    ),
}
