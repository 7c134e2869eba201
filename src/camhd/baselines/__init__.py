"""Other methods to compare with, each a plain torch optimizer.

| class | what it is |
|---|---|
| `SGDHD`, `SGDNHD`, `AdamHD` | hypergradient descent: one learned rate, a tree of one level |
| `L4Mom`, `L4Adam` | a step as long as it takes to lower the loss to a given share of what it can reach |
| `AdaBound`, `AMSBound` | Adam whose elementwise rates are clipped to bounds that close in on one value |
"""

from .bounds import AdaBound, AMSBound
from .hd import SGDHD, SGDNHD, AdamHD, HDOptions
from .l4 import L4, L4Adam, L4Mom

__all__ = ["L4", "SGDHD", "SGDNHD", "AMSBound", "AdaBound", "AdamHD", "HDOptions", "L4Adam", "L4Mom"]
