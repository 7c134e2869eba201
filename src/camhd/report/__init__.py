"""Reading the rates while training: `snapshot` once, `RateLogger` as training goes on.

with camhd.report.RateLogger(opt, to="rates.csv", every=100):
    ...  # train as usual
"""

from .flat import scalars
from .lightning import lightning_callback
from .logger import RateLogger
from .moving import effective
from .reading import groups, rate, snapshot, weights
from .summary import QUANTILES, SAMPLE

__all__ = [
    "QUANTILES",
    "SAMPLE",
    "RateLogger",
    "effective",
    "groups",
    "lightning_callback",
    "rate",
    "scalars",
    "snapshot",
    "weights",
]
