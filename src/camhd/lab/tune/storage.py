"""Where studies are kept: an SQLite file, or any database that SQLAlchemy knows and many machines can reach."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..records.text import from_json, to_json
from .task import Task

if TYPE_CHECKING:
    import optuna
    from optuna.storages import RDBStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial

GRACE = 60  # seconds without a sign of life, after which a process counts as dead
RETRIES = 3  # of a trial whose process died
SPEC = "camhd"  # the study's attribute that says what it tunes
SURPLUS = "surplus"  # the trial's attribute that says that there were enough without it
_ATTEMPTS = 8


class StudyError(RuntimeError):
    """A study cannot go on; what is in it is kept."""


def package() -> Any:
    """Optuna, or what to install."""
    try:
        import optuna
    except ModuleNotFoundError as missing:
        if missing.name != "optuna":
            raise
        raise ModuleNotFoundError("tuning needs Optuna: pip install 'camhd[tune]'", name="optuna") from None
    return optuna


def default_url(folder: str | Path) -> str:
    """The SQLite file of a folder."""
    return f"sqlite:///{(Path(folder) / 'studies.sqlite').absolute().as_posix()}"


def checked_name(name: str) -> str:
    """A study's name, which is a folder's too."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", name):
        raise ValueError(f"'study' must be a name of letters, digits, dots and hyphens, got {name!r}.")
    return name


@contextmanager
def quiet() -> Iterator[None]:
    """Optuna's own messages are not shown: what is worth saying is said by whoever looks on."""
    logging = package().logging
    before = logging.get_verbosity()
    logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(before)


@contextmanager
def unwarned() -> Iterator[None]:
    """Parts of Optuna that have been there for years still call themselves experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", package().exceptions.ExperimentalWarning)
        yield


@contextmanager
def connected(url: str, grace: int = GRACE) -> Iterator[RDBStorage]:
    """The storage at this address; its tables are made if they are not there, its connections closed in the end.

    Args:
        url: as SQLAlchemy writes it, such as `postgresql+psycopg://user@host/database`.
        grace: seconds without a sign of life, after which a process counts as dead.

    Raises:
        ValueError: it cannot be opened.
        StudyError: it was lost.
    """
    if grace < 2:
        raise ValueError(f"'grace' must be 2 seconds or more, got {grace}.")
    found = _connect(url, grace)
    from sqlalchemy.exc import OperationalError

    try:
        yield found
    except (package().exceptions.StorageInternalError, OperationalError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise StudyError(f"The storage cannot be reached any more ({reason}); the same call goes on.") from error
    finally:
        found.remove_session()
        found.engine.dispose()


def _connect(url: str, grace: int) -> RDBStorage:
    package()
    from optuna.storages import RDBStorage
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    more = {"connect_args": {"timeout": 100}} if url.startswith("sqlite") else {"pool_pre_ping": True}
    reason: Exception | None = None
    for attempt in range(_ATTEMPTS):
        try:
            with unwarned():
                return RDBStorage(
                    url,
                    engine_kwargs=dict(more),
                    heartbeat_interval=max(1, grace // 4),
                    grace_period=grace,
                    heartbeat_stale_trial_callback=try_again,
                )
        except (ImportError, ArgumentError) as error:
            reason = error
            break
        except (SQLAlchemyError, RuntimeError) as error:
            # Two processes that make the tables at once are in each other's way, but only once.
            reason = error
            time.sleep(0.05 * 2**attempt if attempt < 4 else 0.5)
    told = str(reason).splitlines()[0]
    if isinstance(reason, ImportError) and url.startswith("postgresql"):
        told = "it needs a driver: pip install 'psycopg[binary]', and begin it with postgresql+psycopg://."
    raise ValueError(f"'storage' {_without_password(url)!r} cannot be opened: {told}") from reason


def open_study(task: Task, storage: RDBStorage, name: str | None = None) -> Study:
    """The task's study, with the trials that are in it already.

    Args:
        task: what is tuned.
        storage: where.
        name: of the study; None for a name made from the task.
    """
    optuna, spec = package(), to_json(task.spec())
    name = name or task.name()
    study = optuna.create_study(
        study_name=name,
        storage=storage,
        direction="minimize",
        load_if_exists=True,
        sampler=sampler(task),
        pruner=pruner(task),
    )
    kept = study.user_attrs.get(SPEC)
    if kept is None:
        study.set_user_attr(SPEC, spec)
    elif kept != spec:
        ours, theirs = from_json(spec), from_json(kept)
        what = next((key for key in ours if ours[key] != theirs.get(key)), "specification")
        raise ValueError(
            f"the study {name!r} exists and has another {what}: {theirs.get(what)!r}, not {ours.get(what)!r}; "
            "choose another name with 'study', or leave it out."
        )
    return study  # type: ignore[no-any-return]


def sampler(task: Task) -> optuna.samplers.BaseSampler:
    """What proposes points: TPE, or nothing that has a choice if there is a grid."""
    package()
    from optuna.samplers import RandomSampler

    from .sampler import Numbered

    return Numbered(task.seed) if task.protocol == "tpe" else RandomSampler(seed=task.seed)


def pruner(task: Task) -> optuna.pruners.BasePruner:
    """What stops trials that are worse than the median, after a fifth of their epochs; a grid is done as a whole."""
    package()
    from optuna.pruners import MedianPruner, NopPruner

    return MedianPruner(n_warmup_steps=-(-task.settings.epochs // 5)) if task.protocol == "tpe" else NopPruner()


def try_again(study: Study, trial: FrozenTrial, retries: float = RETRIES) -> None:
    """Put a trial that was broken off into the queue, unless that has been done often enough."""
    optuna = package()
    history = [*trial.system_attrs.get("retry_history", []), trial.number]
    if len(history) > retries:
        return
    study.add_trial(
        optuna.create_trial(
            state=optuna.trial.TrialState.WAITING,
            params=trial.params,
            distributions=trial.distributions,
            user_attrs=trial.user_attrs,
            system_attrs={**trial.system_attrs, "retry_history": history},
        )
    )


def settled(trials: list[FrozenTrial]) -> list[FrozenTrial]:
    """Trials that have had their turn: judged, stopped as hopeless, or failed for good."""
    states = package().trial.TrialState
    again = {number for trial in trials for number in trial.system_attrs.get("retry_history", [])}
    return [
        trial
        for trial in trials
        if trial.state in (states.COMPLETE, states.PRUNED)
        or (trial.state == states.FAIL and trial.number not in again and SURPLUS not in trial.user_attrs)
    ]


def _without_password(url: str) -> str:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return url
