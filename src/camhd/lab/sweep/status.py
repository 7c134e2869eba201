"""How far plans have come, without carrying out anything."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from .places import Place, kept_plans, place
from .plan import Item, Plan
from .running import prepared

STATES = ("finished", "failed", "running", "begun", "new")


@dataclass(frozen=True)
class State:
    """Where one run of a plan stands.

    Args:
        run: its id.
        item: of the plan.
        state: "finished"; "failed"; "running", here or elsewhere; "begun", so that it goes on from there; "new".
    """

    run: str
    item: Item
    state: str


def survey(plan: Plan, folder: str | Path, remote: bool = False) -> list[State]:
    """What has become of every run of a plan; what is "begun" or "new" would be carried out by `run`.

    Args:
        plan: the runs.
        folder: where their records lie; it need not exist.
        remote: whether they are for a cluster, which may have devices that this machine does not have.
    """
    planned = prepared(plan, remote)
    states = _states(place(str(folder)), planned)
    return [State(run, one.item, states[run]) for run, one in planned.items()]


def surveys(folder: str | Path) -> dict[str, list[State]]:
    """Likewise for every plan that was ever started in a folder, by its name."""
    at = place(str(folder))
    found = {}
    for name, runs in kept_plans(at).items():
        states = _states(at, runs)
        found[name] = [State(run, Item.from_dict(values), states[run]) for run, values in runs.items()]
    return found


def _states(at: Place, runs: Collection[str]) -> dict[str, str]:
    found = dict.fromkeys(runs, "new")
    found |= dict.fromkeys(at.begun(runs), "begun")
    found |= {seen.run: "running" for seen in at.claims() if seen.run in found and seen.alive is not False}
    found |= dict.fromkeys(at.failed(runs), "failed")
    return found | dict.fromkeys(at.finished(runs), "finished")
