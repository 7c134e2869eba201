"""The networks of the experiments, by family; `find` knows them by name.

All of them take a batch first and give logits (or, for a regression, the values). Where a layer has a usual name, it
has that name here, so that a table of learned rates reads well.
"""

from .catalog import NAMES, describe, find
from .ffnn import ffnn, logistic
from .lenet import LeNet5, lenet5
from .recurrent import CharacterModel, gru, lstm
from .resnet import BasicBlock, ResNet, resnet8, resnet18, resnet34
from .transformer import (
    TRANSFORMER_50M,
    TRANSFORMER_SMALL,
    Attention,
    Transformer,
    TransformerBlock,
    TransformerShape,
    transformer,
)

__all__ = [
    "NAMES",
    "TRANSFORMER_50M",
    "TRANSFORMER_SMALL",
    "Attention",
    "BasicBlock",
    "CharacterModel",
    "LeNet5",
    "ResNet",
    "Transformer",
    "TransformerBlock",
    "TransformerShape",
    "describe",
    "ffnn",
    "find",
    "gru",
    "lenet5",
    "logistic",
    "lstm",
    "resnet8",
    "resnet18",
    "resnet34",
    "transformer",
]
