"""ResNet-18 and ResNet-34 on CIFAR-10: table, learning curves of accuracy and both losses, γ curves."""

from __future__ import annotations

from . import sections
from .claims import Claim, better
from .grid import Grid, Method, Problem
from .plan import Number, Plan
from .scale import Change

R18, R34 = "ResNet-18", "ResNet-34"
BOTH = (R18, R34)
ADAM, HD, CAM = "Adam", "Adam-HD", "Adam-CAM-HD"
ADABOUND, ADABOUND_CAM = "Adabound", "Adabound-CAM-HD"
SGDN, SGDN_CAM = "SGDN", "SGDN-CAM-HD"
L4, RADAM = "L4", "RAdam"

TABLE = {
    ADAM: ((87.03, 0.15), (87.95, 0.22)),
    HD: ((87.26, 0.35), (88.48, 0.48)),
    CAM: ((90.31, 0.25), (90.28, 0.09)),
    ADABOUND: ((90.29, 0.15), (90.15, 0.30)),
    ADABOUND_CAM: ((90.49, 0.31), (91.12, 0.23)),
    SGDN: ((93.04, 0.21), (92.93, 0.29)),
    SGDN_CAM: ((93.35, 0.08), (93.47, 0.23)),
}
SEVEN = tuple(TABLE)
DROP = "drop:150"

PLAN = Plan(
    name="resnet",
    title="ResNet-18 and ResNet-34 on CIFAR-10",
    about="Residual networks on CIFAR-10 with crops, flips and cutout; SGDN's rate drops to a tenth after epoch "
    "150 of 200.",
    places=("Sec:5.4.5", "tab:5", "Fig:4", "Fig:8"),
    grids=(
        Grid(
            "table",
            problems=(
                Problem(R18, "resnet18", "cifar10", epochs=200, augment="crop-flip-cutout"),
                Problem(R34, "resnet34", "cifar10", epochs=200, augment="crop-flip-cutout"),
            ),
            methods=(
                Method(ADAM, "adam"),
                Method(HD, "adam-hd"),
                Method(CAM, "adam-cam-hd-2"),
                Method(ADABOUND, "adabound"),
                Method(ADABOUND_CAM, "adabound-cam-hd-2"),
                Method(SGDN, "sgdn", schedule=DROP),
                Method(SGDN_CAM, "sgdn-cam-hd-2", schedule=DROP),
                Method(L4, "l4adam"),
                Method(RADAM, "radam"),
            ),
        ),
    ),
    cpu={
        "": Change(
            seeds=3,
            epochs={"": 20},
            models={"resnet18": "resnet18:0.25", "resnet34": "resnet34:0.125"},  # a quarter: twice the time
            data={"cifar10": "cifar10:10000"},
            batch_size={"": 128},
            methods=SEVEN,
            schedules={DROP: "drop:15"},
            dtype="bfloat16",  # half the time of float32 on these CPUs; the weights stay float32
        )
    },
    smoke={
        "": Change(
            seeds=2,
            epochs={"": 2},
            models={"resnet18": "resnet18:0.0625", "resnet34": "resnet34:0.0625"},
            data={"cifar10": "digits"},
            batch_size={"": 256},
            methods=SEVEN,
            schedules={DROP: "drop:1"},
            augment=False,
        )
    },
    silent=(
        "The paper names crops, flips and cutout through the sources that it follows, not in its text; all three are "
        "taken.",
        "Weight decay is 1e-4 for the Adam family and 5e-4 for L4, as the paper says; SGDN's 5e-4 is that of the code "
        "it follows.",
        "L4 and RAdam are in the paper's figure and not in its table.",
    ),
    published=tuple(
        Number(problem, method, mean / 100, error / 100)
        for method, cells in TABLE.items()
        for problem, (mean, error) in zip(BOTH, cells, strict=True)
    ),
    sections=(
        sections.table("table", "tab:5", "Summary of test performances with ResNet-18/34"),
        sections.weights("table", ("Fig:8",), "Learning curves of γs for ResNets", (SGDN_CAM, CAM, ADABOUND_CAM)),
        sections.movement("table"),
    ),
    claims=(
        Claim(
            "The proposed CAM-HD methods (Adam-CAM-HD, Adabound-CAM-HD and SGDN-CAM-HD) can improve the corresponding "
            "baseline methods (Adam, Adabound and SGDN) with statistical significance.",
            "Sec:5.4.5",
            lambda found: [
                *better(CAM, ADAM, BOTH)(found),
                *better(ADABOUND_CAM, ADABOUND, BOTH)(found),
                *better(SGDN_CAM, SGDN, BOTH)(found),
            ],
        ),
        Claim(
            "Adabound-CAM-HD outperforms both Adam-CAM-HD and Adabound.",
            "Sec:5.4.5",
            better(ADABOUND_CAM, (CAM, ADABOUND), BOTH),
        ),
        Claim(
            "Adam-CAM-HD consistently outperforms Adam, L4 and Adam-HD.", "Sec:5.4.5", better(CAM, (ADAM, L4, HD), BOTH)
        ),
        Claim("L4 can outperform baseline Adam for both networks.", "Sec:5.4.5", better(L4, ADAM, BOTH)),
        Claim(
            "L4's training loss outperforms all other methods.",
            "Sec:5.4.5",
            better(L4, SEVEN, BOTH, metric="train_loss"),
        ),
        Claim(
            "RAdam performs slightly better than Adam-CAM-HD in validation accuracy.",
            "Sec:5.4.5",
            better(RADAM, CAM, BOTH),
        ),
        Claim(
            "The validation cross-entropy of both RAdam and Adabound are outperformed by our method.",
            "Sec:5.4.5",
            better(CAM, (RADAM, ADABOUND), BOTH, metric="valid_loss"),
        ),
        Claim(
            "The validation loss of SGDN-CAM-HD slightly outperforms SGDN.",
            "Sec:5.4.5",
            better(SGDN_CAM, SGDN, BOTH, metric="valid_loss"),
        ),
    ),
)
