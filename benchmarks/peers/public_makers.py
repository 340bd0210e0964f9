"""Makes modules of public architectures, in training form, with what they are fed. A module returns
its loss, and nothing in it is random."""

import importlib
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from .public_models import IMAGE_SIZE, LABELS, MODELS, VOCABULARY, Config, Images

# Of plain SGD, and small: steps that overshoot multiply roundings.
LR = 1e-3


@dataclass
class Example:
    module: nn.Module
    positional: tuple
    named: dict


class Classifier(nn.Module):
    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net

    def forward(self, images, labels):
        logits = self.net(images)
        if isinstance(logits, dict):
            logits = logits["out"]
        return F.cross_entropy(logits, labels)


class FromTransformers(nn.Module):
    """A model of transformers that is fed labels. `more` are arguments that are no tensors."""

    def __init__(self, net: nn.Module, more: dict):
        super().__init__()
        self.net, self.more = net, more

    def forward(self, **fed):
        return self.net(**fed, **self.more, return_dict=False)[0]


def make(name: str) -> Example:
    """The same each time."""
    torch.manual_seed(0)
    library, _, own = name.partition("/")
    of = MODELS[name]
    if isinstance(of, Images):
        example = of_images(library, own, of)
    else:
        example = of_config(of)
    example.module.train()
    drop_nothing(example.module)
    return example


def of_images(library: str, name: str, of: Images) -> Example:
    images = torch.randn(of.batch, 3, of.size, of.size)
    if library == "timm":
        net = importlib.import_module("timm").create_model(name, num_classes=LABELS)
    else:
        models = importlib.import_module("torchvision.models")
        options: dict = {"weights": None, "num_classes": LABELS, **of.options}
        if of.pixels:
            models, options["weights_backbone"] = models.segmentation, None
        net = getattr(models, name)(**options)
    each = (of.size, of.size) if of.pixels else ()
    labels = torch.randint(0, LABELS, (of.batch, *each))
    return Example(Classifier(net), (images, labels), {})


def of_config(of: Config) -> Example:
    transformers = importlib.import_module("transformers")
    config = getattr(transformers, of.config)(**of.options)
    drop_nothing_of_config(config)
    net = getattr(transformers, of.model)(config)
    if of.experts:
        net.set_experts_implementation(of.experts)
    fed, more = FED[of.fed]()
    return Example(FromTransformers(net, more), (), fed)


def tokens() -> torch.Tensor:
    """Without the first ones, which mean padding and the like."""
    return torch.randint(3, VOCABULARY, (2, 16))


def images() -> torch.Tensor:
    return torch.randn(4, 3, IMAGE_SIZE, IMAGE_SIZE)


def text() -> tuple[dict, dict]:
    ids = tokens()
    return {"input_ids": ids, "labels": ids.clone()}, {}


FED = {
    "tokens": text,
    "sentences": lambda: ({"input_ids": tokens(), "labels": torch.tensor([0, 1])}, {}),
    "images": lambda: ({"pixel_values": images(), "labels": torch.tensor([1, 2, 3, 4])}, {}),
    "waves": lambda: ({"input_values": torch.randn(2, 800), "labels": torch.tensor([1, 2])}, {}),
    "pairs": lambda: (
        {"input_ids": tokens(), "pixel_values": images()[:2]},
        {"return_loss": True},
    ),
}


def drop_nothing_of_config(config) -> None:
    """Some models read a probability of their config in each step."""
    for key, value in list(vars(config).items()):
        if "drop" in key and isinstance(value, float):
            setattr(config, key, 0.0)
        elif hasattr(value, "to_dict"):  # of a part: CLIP's text
            drop_nothing_of_config(value)


def drop_nothing(module: nn.Module) -> None:
    """Dropout, stochastic depth and their like: each is a module's number, `p` or one that is named
    after it."""
    for each in module.modules():
        kind = type(each).__name__
        drops = "drop" in kind.lower() or kind == "StochasticDepth"
        for key, value in list(vars(each).items()):
            if isinstance(value, float) and ("drop" in key or (drops and key == "p")):
                setattr(each, key, 0.0)
