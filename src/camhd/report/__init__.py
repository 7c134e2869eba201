"""Reading the rates while training: `snapshot` once, `RateLogger` as training goes on.

with camhd.report.RateLogger(opt, to="rates.csv", every=100):
    ...  # train as usual
"""

from .logger import RateLogger
from .reading import groups, rate, snapshot, weights
from .summary import QUANTILES, SAMPLE

__all__ = ["QUANTILES", "SAMPLE", "RateLogger", "groups", "rate", "snapshot", "weights"]
