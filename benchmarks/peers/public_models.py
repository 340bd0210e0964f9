"""Public architectures by name: what torchvision, timm and transformers are asked for.
`public_makers` makes modules of them.

Configurations of transformers are tiny; images are as small as an architecture takes. Each
library's large ones come last.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Images:
    """A classifier of square images, or of each pixel. `options` are those of its constructor."""

    size: int
    options: dict = field(default_factory=dict)
    pixels: bool = False

    @property
    def batch(self) -> int:
        """Several, so that norms over a batch stand on enough numbers."""
        return 8 if self.size <= 64 else 4 if self.size <= 128 else 2


@dataclass(frozen=True)
class Config:
    """A model of transformers, which returns its loss. `fed` is what public_makers feeds it."""

    model: str
    config: str
    options: dict
    fed: str = "tokens"
    experts: str = ""


_WITHOUT_AUXILIARY = {"aux_logits": False, "init_weights": False}
_TORCHVISION = {
    "squeezenet1_1": Images(64),
    "shufflenet_v2_x0_5": Images(64),
    "mnasnet0_5": Images(64),
    "mobilenet_v3_small": Images(64),
    "mobilenet_v2": Images(64),
    "regnet_x_400mf": Images(64),
    "regnet_y_400mf": Images(64),
    "efficientnet_b0": Images(64),
    "googlenet": Images(64, _WITHOUT_AUXILIARY),
    "densenet121": Images(64),
    "resnet18": Images(64),
    "resnet50": Images(64),
    "resnext50_32x4d": Images(64),
    "wide_resnet50_2": Images(64),
    "inception_v3": Images(128, _WITHOUT_AUXILIARY),
    "efficientnet_v2_s": Images(64),
    "convnext_tiny": Images(64),
    "swin_t": Images(64),
    "swin_v2_t": Images(64),
    "lraspp_mobilenet_v3_large": Images(64, pixels=True),
    "deeplabv3_mobilenet_v3_large": Images(64, pixels=True),
    "fcn_resnet50": Images(64, pixels=True),
    "maxvit_t": Images(224),
    "vit_b_16": Images(32, {"image_size": 32}),
    "alexnet": Images(64),
    "vgg11": Images(32),
}
_TIMM = {
    "convnextv2_atto": 64,
    "mobilevit_xxs": 64,
    "edgenext_xx_small": 64,
    "ghostnet_050": 64,
    "fastvit_t8": 64,
    "repvgg_a0": 64,
    "resnest14d": 64,
    "skresnet18": 64,
    "poolformer_s12": 64,
    "selecsls42b": 64,
    "gernet_s": 64,
    "dpn68": 64,
    "hrnet_w18_small": 64,
    "dla34": 64,
    "vovnet39a": 64,
    "nf_resnet50": 64,
    "res2net50_26w_4s": 64,
    "tresnet_m": 64,
    "convmixer_768_32": 64,
    "focalnet_tiny_srf": 64,
    "davit_tiny": 64,
    "inception_next_tiny": 64,
    "dm_nfnet_f0": 64,
    "xcit_nano_12_p16_224": 64,
    "deit_tiny_patch16_224": 224,
    "pit_ti_224": 224,
    "levit_128s": 224,
    "tiny_vit_5m_224": 224,
    "gmlp_ti16_224": 224,
    "eva02_tiny_patch14_224": 224,
    "cait_xxs24_224": 224,
    "coat_tiny": 224,
    "crossvit_tiny_240": 240,
    "visformer_tiny": 224,
    "efficientformer_l1": 224,
    "resmlp_12_224": 224,
    "mixer_s32_224": 224,
    "nest_tiny": 224,
    "twins_svt_small": 224,
    "mvitv2_tiny": 224,
    "sequencer2d_s": 224,
    "lambda_resnet26t": 256,
    "halonet26t": 256,
    "botnet26t_256": 256,
    "beit_base_patch16_224": 224,
}
VOCABULARY = 99
_HEADS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_LENGTH = {"vocab_size": VOCABULARY, "max_position_embeddings": 64}
_TEXT = {**_HEADS, **_LENGTH, "intermediate_size": 64}
_DECODER = {**_TEXT, "use_cache": False}
_GROUPED = {**_DECODER, "num_key_value_heads": 2}
# Where a library's own lie outside of such a vocabulary.
_SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
IMAGE_SIZE, LABELS = 32, 10
_PATCHES = {**_HEADS, "intermediate_size": 64, "image_size": IMAGE_SIZE, "patch_size": 8}
_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
_GPT_NEO = {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]}
_DISTILBERT = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}
_DEBERTA = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
_BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}
_SEGFORMER = {
    "num_encoder_blocks": 2,
    "depths": [1, 1],
    "sr_ratios": [2, 1],
    "hidden_sizes": [16, 32],
    "patch_sizes": [3, 3],
    "strides": [2, 2],
    "num_attention_heads": [1, 2],
    "mlp_ratios": [2, 2],
    "num_labels": LABELS,
}
_WAV2VEC2 = {
    "conv_dim": (16, 16),
    "conv_kernel": (10, 3),
    "conv_stride": (5, 2),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
    "num_labels": LABELS,
    "apply_spec_augment": False,
}
_CLIP = {
    "text_config": {**_TEXT, **_SPECIAL, "projection_dim": 16},
    "vision_config": {**_PATCHES, "projection_dim": 16},
    "projection_dim": 16,
}


def _masked(name: str, **options) -> Config:
    return Config(f"{name}ForMaskedLM", f"{name}Config", {**_TEXT, **options})


def _causal(name: str, options: dict) -> Config:
    return Config(f"{name}ForCausalLM", f"{name}Config", options)


_TRANSFORMERS = {
    "bert": _masked("Bert"),
    "roberta": _masked("Roberta"),
    "distilbert": Config("DistilBertForMaskedLM", "DistilBertConfig", {**_DISTILBERT, **_LENGTH}),
    "albert": _masked("Albert", embedding_size=16),
    "electra": _masked("Electra", embedding_size=16),
    "mpnet": _masked("MPNet"),
    "squeezebert": _masked("SqueezeBert", embedding_size=32),
    "convbert": _masked("ConvBert", embedding_size=32),
    "roformer": _masked("RoFormer", embedding_size=32),
    "deberta_v2": Config(
        "DebertaV2ForSequenceClassification",
        "DebertaV2Config",
        {**_TEXT, **_DEBERTA, "problem_type": "single_label_classification"},
        fed="sentences",
    ),
    "gpt2": Config(
        "GPT2LMHeadModel",
        "GPT2Config",
        {**_GPT2, **_SPECIAL, "vocab_size": VOCABULARY, "use_cache": False},
    ),
    "gpt_neo": _causal(
        "GPTNeo", {**_GPT_NEO, **_SPECIAL, **_LENGTH, "hidden_size": 32, "use_cache": False}
    ),
    "gpt_neox": _causal("GPTNeoX", _DECODER),
    "opt": _causal(
        "OPT", {**_HEADS, **_LENGTH, "ffn_dim": 64, "word_embed_proj_dim": 32, "use_cache": False}
    ),
    "bloom": _causal(
        "Bloom",
        {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, "use_cache": False},
    ),
    "llama": _causal("Llama", _GROUPED),
    "mistral": _causal("Mistral", _GROUPED),
    "qwen2": _causal("Qwen2", _GROUPED),
    "qwen3": _causal("Qwen3", {**_GROUPED, "head_dim": 8}),
    "gemma": _causal("Gemma", {**_DECODER, "num_key_value_heads": 1, "head_dim": 8}),
    "gemma2": _causal("Gemma2", {**_DECODER, "num_key_value_heads": 1, "head_dim": 8}),
    "phi": _causal("Phi", _DECODER),
    "falcon": _causal(
        "Falcon", {**_HEADS, **_SPECIAL, "vocab_size": VOCABULARY, "use_cache": False}
    ),
    "olmo2": _causal("Olmo2", {**_DECODER, **_SPECIAL}),
    "smollm3": _causal("SmolLM3", {**_GROUPED, **_SPECIAL}),
    "mixtral": Config(
        "MixtralForCausalLM",
        "MixtralConfig",
        {**_GROUPED, "num_local_experts": 4},
        experts="batched_mm",
    ),
    "mamba": _causal(
        "Mamba",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "vocab_size": 99,
            "state_size": 8,
            "use_cache": False,
        },
    ),
    "xlnet": Config(
        "XLNetLMHeadModel",
        "XLNetConfig",
        {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64, "vocab_size": VOCABULARY},
    ),
    "t5": Config(
        "T5ForConditionalGeneration",
        "T5Config",
        {**_T5, "vocab_size": VOCABULARY, "decoder_start_token_id": 0, "use_cache": False},
    ),
    "bart": Config(
        "BartForConditionalGeneration", "BartConfig", {**_BART, **_LENGTH, "use_cache": False}
    ),
    "vit": Config(
        "ViTForImageClassification", "ViTConfig", {**_PATCHES, "num_labels": LABELS}, fed="images"
    ),
    "segformer": Config(
        "SegformerForImageClassification", "SegformerConfig", _SEGFORMER, fed="images"
    ),
    "wav2vec2": Config(
        "Wav2Vec2ForSequenceClassification", "Wav2Vec2Config", {**_TEXT, **_WAV2VEC2}, fed="waves"
    ),
    "clip": Config("CLIPModel", "CLIPConfig", _CLIP, fed="pairs"),
}
MODELS: dict[str, Images | Config] = {
    **{f"transformers/{name}": config for name, config in _TRANSFORMERS.items()},
    **{f"torchvision/{name}": images for name, images in _TORCHVISION.items()},
    **{f"timm/{name}": Images(size) for name, size in _TIMM.items()},
}
NAMES = tuple(MODELS)
