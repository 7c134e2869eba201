"""Write the state files of this version of the format: ``python tests/states/make.py``, from the project's folder.

Run it once for a version of the format, and never again: the files are what that version wrote. A file that is there
is left alone.
"""

from __future__ import annotations

import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "src")]

import camhd  # noqa: E402 - after the path is set
from camhd.tree.checkpoint import VERSION  # noqa: E402 - after the path is set
from state_cases import CASES, FIRST, model, train  # noqa: E402 - after the path is set


def main() -> None:
    """One file for each case, in the folder of this version."""
    folder = HERE / f"v{VERSION}"
    folder.mkdir(exist_ok=True)
    for name, make in CASES.items():
        path = folder / f"{name}.pt"
        if path.exists():
            continue
        net = model()
        opt = make(net)
        train(net, opt, 0, FIRST)
        torch.save({"camhd": camhd.__version__, "model": net.state_dict(), "optimizer": opt.state_dict()}, path)
        print(f"wrote {path.relative_to(HERE)}, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
