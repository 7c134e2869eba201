"""Optimizers whose learning rates learn, at every level of a network at once (CAM-HD).

    import camhd

    opt = camhd.Adam(model)
    loss.backward(); opt.step(); opt.zero_grad()
    opt.rates()

The rooms, each importing only from those above it: `levels` (who shares a rate), `combine` (how the
levels' rates become one), `hyper` (how a rate follows its hypergradient), `tree` (the rates),
`rules` (the base optimizers' directions), `backends` (how a step is carried out), `optim`, `presets` (the
paper's settings), `baselines` (other methods to compare with), `report` (reading the rates while training).
"""

from . import baselines, combine, hyper, levels, presets, report
from .optim import SGD, AdaBound, Adam, AdamW, HyperOptions, Optimizer, wrap

__version__ = "0.1.0"

__all__ = [
    "SGD",
    "AdaBound",
    "Adam",
    "AdamW",
    "HyperOptions",
    "Optimizer",
    "baselines",
    "combine",
    "hyper",
    "levels",
    "presets",
    "report",
    "wrap",
]
