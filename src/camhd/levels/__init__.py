"""Who shares a learning rate: the levels of the tree, root to leaf.

| level | a group is |
|---|---|
| `Global` | everything |
| `Group` | one torch param group |
| `Block` | what your function of the parameter's name says |
| `Layer` | all tensors of one module |
| `Gate` | one gate of an LSTM or GRU layer |
| `Unit` | one output filter or neuron (or one input) |
| `Parameter` | one scalar |
"""

from .kinds import Block, Gate, Global, Group, Layer, Level, Parameter, Split, Unit, level
from .layout import Family, Layout, Partition, lay_out
from .slots import Owner, Slot, owners_of, slots_of, split_name

__all__ = [
    "Block",
    "Family",
    "Gate",
    "Global",
    "Group",
    "Layer",
    "Layout",
    "Level",
    "Owner",
    "Parameter",
    "Partition",
    "Slot",
    "Split",
    "Unit",
    "lay_out",
    "level",
    "owners_of",
    "slots_of",
    "split_name",
]
