"""The methods of the study of robustness: each family is one optimizer along the initial learning rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .grid import Method

RATES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
BETWEEN = (3e-4, 3e-3, 3e-2)  # so that the best constant rate is not missed by half a decade
ENDS = (1e-6, 1e-3, 1.0)


@dataclass(frozen=True)
class Family:
    """A method at several initial rates.

    Args:
        name: what tables call it.
        optimizer: in the registry.
        rates: where it starts; () for a method whose authors say that nothing is to be set: it has one row of runs,
            which stands for every initial rate.
        options: the others, the same everywhere.
        schedule: of the rate.
        option: which option the initial rate is.
    """

    name: str
    optimizer: str
    rates: tuple[float, ...] = RATES
    options: Mapping[str, Any] = field(default_factory=dict)
    schedule: str | None = None
    option: str = "lr"

    def label(self, rate: float) -> str:
        """What a cell is called."""
        return f"{self.name}, {self.option} {rate:g}" if self.rates else self.name

    @property
    def methods(self) -> tuple[Method, ...]:
        """One for each initial rate."""
        return tuple(
            Method(self.label(rate), self.optimizer, {**self._rate(rate), **self.options}, self.schedule)
            for rate in self.rates or RATES[:1]
        )

    def _rate(self, rate: float) -> dict[str, float]:
        return {self.option: rate} if self.rates else {}


def methods(*families: Family) -> tuple[Method, ...]:
    """Of several families."""
    return tuple(method for family in families for method in family.methods)


COSINE = "warmup-cosine"
DEFAULT = Family("camhd Adam", "adam-default")
ADAM = Family("Adam", "adam", tuple(sorted((*RATES, *BETWEEN))))
# β of Adam-HD's authors for networks of this size, and rates that stay at 0 or above: without that most runs from large
# rates only tell that the rate became negative.
HD = Family("Adam-HD", "adam-hd", options={"hyper_lr": 1e-7, "faithful": False})
PRODIGY = Family("Prodigy", "prodigy", ())
PRODIGY_COSINE = Family("Prodigy, cosine", "prodigy", (), schedule="cosine")
D_ADAPT = Family("D-Adapt Adam", "dadapt-adam", ())
D_ADAPT_COSINE = Family("D-Adapt Adam, cosine", "dadapt-adam", (), schedule="cosine")
SCHEDULE_FREE = Family("Schedule-Free AdamW", "schedule-free-adamw")
MECHANIC = Family("Mechanic (Adam)", "mechanic-adam", ())
MECHANIC_COSINE = Family("Mechanic (Adam), cosine", "mechanic-adam", (), schedule="cosine")
L4 = Family("L4Adam", "l4adam", ())
GDTUO = Family("GDTUO (Adam / SGD)", "gdtuo-adam")
CAM_HD = Family("Adam-CAM-HD, 2 levels", "adam-cam-hd-2")
ADAMW = Family("AdamW", "adamw")
ADAM_COSINE = Family("Adam, warm-up and cosine", "adam", schedule=COSINE)
ADAMW_COSINE = Family("AdamW, warm-up and cosine", "adamw", schedule=COSINE)
SGDN_DEFAULT = Family("camhd SGDN", "sgdn-default")
SGDN = Family("SGDN", "sgdn")
SGDN_COSINE = Family("SGDN, warm-up and cosine", "sgdn", schedule=COSINE)
ONE_LEVEL = Family("camhd Adam, one level", "adam-default-1", ENDS)
THREE_LEVELS = Family("camhd Adam, three levels", "adam-default-3", ENDS)
# What they call their first estimate, along the same grid: their authors say to leave it alone.
PRODIGY_FROM = Family("Prodigy from d0", "prodigy", ENDS, option="d0")
D_ADAPT_FROM = Family("D-Adapt Adam from d0", "dadapt-adam", ENDS, option="d0")
MECHANIC_FROM = Family("Mechanic (Adam) from s_init", "mechanic-adam", ENDS, option="s_init")

FIRST = (DEFAULT, ADAM)
PEERS = (
    HD, PRODIGY, D_ADAPT, SCHEDULE_FREE, MECHANIC, L4, PRODIGY_COSINE, D_ADAPT_COSINE, MECHANIC_COSINE,
)  # fmt: skip
LEVELS = (ONE_LEVEL, THREE_LEVELS)
SGD = (SGDN_DEFAULT, SGDN)
SCHEDULED = (ADAM_COSINE, ADAMW_COSINE, SGDN_COSINE)
REST = (CAM_HD, ADAMW, GDTUO)
STARTS = (PRODIGY_FROM, D_ADAPT_FROM, MECHANIC_FROM)
ENDS_ONLY = {family.name for family in STARTS}  # run from three initial rates, not from all
OPPONENTS = (ADAM, *PEERS, *SCHEDULED, *REST, SGDN, *STARTS)
