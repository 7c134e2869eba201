"""Character models with gates: an embedding, an LSTM or a GRU, a linear layer."""

from __future__ import annotations

from torch import Tensor, nn


class CharacterModel(nn.Module):
    """Reads tokens one after another and gives the logits of the next one.

    Args:
        cells: "lstm" or "gru"; the layer has this name in the model, so that a table of learned rates reads well.
        vocabulary: how many different tokens there are.
        width: the size of the embedding and of the state.
        depth: how many recurrent layers lie on each other.
    """

    def __init__(self, cells: str, vocabulary: int, width: int = 128, depth: int = 1) -> None:
        super().__init__()
        kinds = {"lstm": nn.LSTM, "gru": nn.GRU}
        if cells not in kinds:
            raise ValueError(f"'cells' must be 'lstm' or 'gru', got {cells!r}.")
        self.cells = cells
        self.tokens = nn.Embedding(vocabulary, width)
        self.add_module(cells, kinds[cells](width, width, depth, batch_first=True))
        self.out = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, time) to logits of the next token at every position, (batch, time, vocabulary)."""
        states, _ = self.get_submodule(self.cells)(self.tokens(tokens))
        logits: Tensor = self.out(states)
        return logits


def lstm(vocabulary: int = 256, width: int = 128, depth: int = 1) -> CharacterModel:
    """A character model with LSTM layers.

    >>> import torch
    >>> lstm(vocabulary=50, width=8)(torch.zeros(2, 16, dtype=torch.long)).shape
    torch.Size([2, 16, 50])
    """
    return CharacterModel("lstm", vocabulary, width, depth)


def gru(vocabulary: int = 256, width: int = 128, depth: int = 1) -> CharacterModel:
    """A character model with GRU layers.

    >>> [name for name, _ in gru(width=8).named_parameters()][:2]
    ['tokens.weight', 'gru.weight_ih_l0']
    """
    return CharacterModel("gru", vocabulary, width, depth)
