"""A decoder-only transformer."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class TransformerShape:
    """How large a transformer is."""

    width: int
    depth: int
    heads: int
    vocabulary: int
    context: int


TRANSFORMER_50M = TransformerShape(width=512, depth=12, heads=8, vocabulary=24_000, context=256)
TRANSFORMER_SMALL = TransformerShape(width=128, depth=4, heads=4, vocabulary=256, context=128)


class Attention(nn.Module):
    """Self-attention that looks back only."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"'width' must be a multiple of 'heads', but {width} is no multiple of {heads}.")
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, time, width) to the same shape."""
        batch, time, width = x.shape
        shape = (batch, time, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(x).view(shape).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        result: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, time, width))
        return result


class TransformerBlock(nn.Module):
    """Attention, then two dense layers; each behind a layer norm and with a way around it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            OrderedDict(up=nn.Linear(width, 4 * width), gelu=nn.GELU(), down=nn.Linear(4 * width, width))
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, time, width) to the same shape."""
        x = x + self.attention(self.norm1(x))
        result: Tensor = x + self.mlp(self.norm2(x))
        return result


class Transformer(nn.Module):
    """A decoder-only transformer; the token embedding is also the last layer."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.Sequential(*(TransformerBlock(shape.width, shape.heads) for _ in range(shape.depth)))
        self.norm = nn.LayerNorm(shape.width)
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)  # torch's 1 would make logits of the order of the width

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next token at every position, (batch, time, vocabulary)."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        return F.linear(self.norm(self.blocks(x)), self.tokens.weight)


def transformer(shape: TransformerShape = TRANSFORMER_50M) -> Transformer:
    """A decoder-only transformer, of about 50 million parameters unless told otherwise.

    >>> import torch
    >>> transformer(TRANSFORMER_SMALL)(torch.zeros(2, 16, dtype=torch.long)).shape
    torch.Size([2, 16, 256])
    """
    return Transformer(shape)
