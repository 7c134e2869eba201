"""The options that several commands share, and what is done with all of them alike."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
import typer

from ..lab import data as datasets
from ..lab import models
from ..lab.records import DiskError, RunLockedError
from ..lab.train import Job, leads, own

T = TypeVar("T")

SMALL = 3e7  # multiplications of a forward pass

CLUSTER = "Where it runs"
_TRAINING, _RECORDS = "Training", "Records"

Model = Annotated[
    str,
    typer.Option(help=f"{', '.join(models.describe())}; or your own function, as FILE.py:FUNCTION or module:function."),
]
Data = Annotated[
    str,
    typer.Option(help=f"{', '.join(datasets.NAMES)}; or your own function, as FILE.py:FUNCTION or module:function."),
]
Epochs = Annotated[int, typer.Option(help="Passes over the training set.", rich_help_panel=_TRAINING)]
BatchSize = Annotated[
    int | None, typer.Option(help="Examples in a step.", show_default="64", rich_help_panel=_TRAINING)
]
Paper = Annotated[
    bool,
    typer.Option("--paper", help="Take the paper's settings for this model.", rich_help_panel=_TRAINING),
]
Split = Annotated[
    str,
    typer.Option(
        help="full: learn from the training set, judge by the test set. fold:2/5, fraction:0.1: judge by a part of the "
        "training set.",
        rich_help_panel=_TRAINING,
    ),
]
Augment = Annotated[
    str | None,
    typer.Option(help="crop-flip or crop-flip-cutout.", show_default="no change", rich_help_panel=_TRAINING),
]
Schedule = Annotated[
    str | None,
    typer.Option(
        help="cosine, warmup-cosine, or drop:150 for a tenth of the learning rate after epoch 150.",
        show_default="constant",
        rich_help_panel=_TRAINING,
    ),
]
Patience = Annotated[
    int | None,
    typer.Option(
        help="Stop after so many epochs without a better validation loss.",
        show_default="never",
        rich_help_panel=_TRAINING,
    ),
]
LossScale = Annotated[
    float, typer.Option(help="A factor on the loss before its gradient is taken.", rich_help_panel=_TRAINING)
]
Dtype = Annotated[str, typer.Option(help="float32, float64, or bfloat16 (autocast).", rich_help_panel=_TRAINING)]
Device = Annotated[str, typer.Option(help="As torch calls it, such as cuda.", rich_help_panel=_TRAINING)]
Threads = Annotated[
    int | None,
    typer.Option(
        help="Threads of the CPU.", show_default="1 for small networks, else torch's choice", rich_help_panel=_TRAINING
    ),
]
Parallel = Annotated[
    str | None,
    typer.Option(
        help="ddp or fsdp: the processes that torchrun has started share the run.",
        show_default="one process",
        rich_help_panel=_TRAINING,
    ),
]
RatesEvery = Annotated[
    int | None,
    typer.Option(
        help="Steps between two records of the rates.",
        show_default="about 100 in a run",
        rich_help_panel=_RECORDS,
    ),
]
Folder = Annotated[Path, typer.Option(help="Each run gets a folder in this one.", rich_help_panel=_RECORDS)]
Minutes = Annotated[
    float, typer.Option("--checkpoint-minutes", help="Between two checkpoints.", rich_help_panel=_RECORDS)
]
Address = Annotated[
    str | None,
    typer.Option(help="Of a Ray cluster (auto, HOST:PORT) or a Dask scheduler.", rich_help_panel=CLUSTER),
]
Workers = Annotated[
    int | None,
    typer.Option(help="Runs at a time.", show_default="as many as there are cores for", rich_help_panel=CLUSTER),
]
ThreadsOfEach = Annotated[
    int | None,
    typer.Option(
        help="Threads of the CPU for each run.",
        show_default="local: cores divided by workers; else 1",
        rich_help_panel=CLUSTER,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


def checked(context: typer.Context, call: Callable[[], T]) -> T:
    """A wrong argument (2) and data or records that are not as they should be (1) are told without a traceback."""
    try:
        return call()
    except (datasets.DataError, RunLockedError, DiskError, FileExistsError) as error:
        if not leads(context.params.get("parallel")):  # the first of the processes that share a run says it
            raise typer.Exit(1) from None
        print(_in_options(context, str(error)), file=sys.stderr)
        raise typer.Exit(1) from None
    except (ValueError, TypeError, FileNotFoundError, ImportError) as error:
        if _in_own_file(context, error):
            raise
        if not leads(context.params.get("parallel")):
            raise typer.Exit(2) from None
        raise typer.BadParameter(_in_options(context, str(error))) from None


def _in_own_file(context: typer.Context, error: Exception) -> bool:
    """Whether it comes out of a file of the user's, who will want to see where."""
    given = [word for value in context.params.values() for word in (value if isinstance(value, list) else [value])]
    texts = [piece for word in given if isinstance(word, str) for piece in word.split(",")]
    files = {str(Path(text.rpartition(":")[0]).resolve()) for text in texts if ".py:" in text}
    frames = traceback.extract_tb(error.__traceback__)
    return any(frame.filename in files for frame in frames)


def _in_options(context: typer.Context, message: str) -> str:
    """What Python calls 'batch_size' is --batch-size here."""
    for parameter in context.command.params:
        message = message.replace(f"'{parameter.name}'", _option(parameter))
    return message


def set_threads(threads: int | None, job: Job) -> None:
    """Use so many threads; by default one for a small network, which more of them slow down on a busy machine."""
    if threads is not None and threads < 1:
        raise ValueError(f"'threads' must be 1 or more, got {threads}.")
    if threads is not None or _is_small(job):
        torch.set_num_threads(threads or 1)


def _is_small(job: Job) -> bool:
    """Whether a step takes but few multiplications; a function of the job alone, so that its record does not vary."""
    if own.is_own(job.config.model):
        return False
    with torch.device("meta"):
        parameters = list(job.build_model().parameters())
    if any(parameter.dim() > 2 for parameter in parameters):  # convolutions use each weight many times
        return False
    places = job.source.dataset.shape[0] if job.source.dataset.task == "language" else 1
    return sum(p.numel() for p in parameters) * job.config.batch_size * places < SMALL


def own_or_name(text: str) -> Any:
    """A name of the catalogs as it is; FILE.py:FUNCTION or module:function, here or installed, as the function."""
    own.look_in(str(Path.cwd()))
    return own.find(text)


def same_command(context: typer.Context, *more: str, without: Sequence[str] = ()) -> str:
    """The command line that was given, to be typed again."""
    as_module = Path(sys.argv[0]).parts[-2:] == ("camhd", "__main__.py")
    words = ["python", "-m", "camhd"] if as_module else ["camhd"]
    if context.params.get("parallel") is not None:
        words = ["torchrun", f"--nproc-per-node={os.environ.get('LOCAL_WORLD_SIZE', 2)}", "-m", "camhd"]
    words.append(str(context.info_name))
    for parameter in given(context, *without):
        words += _words(parameter, context.params[parameter.name])
    return shlex.join([*words, *(word for word in more if word not in words)])


def given(context: typer.Context, *without: str) -> list[Any]:
    """The parameters that were given on the command line, but for some."""
    sources = {parameter: context.get_parameter_source(parameter.name or "") for parameter in context.command.params}
    return [
        parameter
        for parameter, source in sources.items()
        if source is not None and source.name == "COMMANDLINE" and parameter.name not in without
    ]


def _words(parameter: Any, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [_option(parameter) if value else max(parameter.secondary_opts, key=len)]
    values = value if isinstance(value, (list, tuple)) else [value]
    if parameter.param_type_name == "argument":
        return [str(one) for one in values]
    return [word for one in values for word in (_option(parameter), str(one))]


def _option(parameter: Any) -> str:
    return str(max(parameter.opts, key=len))
