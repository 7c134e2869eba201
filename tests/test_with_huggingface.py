"""Hugging Face: `transformers.Trainer` on a small random model, and `accelerate`; both go on exactly."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import camhd
from examples_run import run, run_blocks

pytestmark = pytest.mark.usefixtures("papers_form")

for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "DISABLE_TELEMETRY"):
    os.environ.setdefault(name, "1")  # no test asks for the network

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # whatever they say while they are imported
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")

FAST: dict[str, Any] = {"hyper_lr": 1e-5, "combine_lr": 0.1}
MAKERS = {
    "default": lambda model: camhd.Adam(model, hyper_rule="long_horizon"),
    "AdamW": lambda model: camhd.AdamW(model, lr=3e-3, levels=("global", "layer"), **FAST),
    "SGD": lambda model: camhd.SGD(model, lr=0.1, momentum=0.9, levels=("global", "layer", "unit"), hyper_lr=1e-2),
    "wrapped": lambda model: camhd.wrap(torch.optim.RMSprop(model.parameters(), lr=1e-3), model, **FAST),
}
every_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
STEPS = 12


class Sentences(Dataset[dict[str, Tensor]]):
    """Runs of numbers that go up by one, so that there is something to learn."""

    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        ids = (torch.arange(12) + 7 * index) % 32
        return {"input_ids": ids, "labels": ids}


def language_model() -> Any:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=32, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config)  # with its dropout, so that the random state matters


def trainer(folder: Path, make: Any, **options: Any) -> Any:
    model = language_model()
    optimizer = make(model)
    scheduler = transformers.get_cosine_schedule_with_warmup(optimizer, 4, STEPS)
    settings = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=STEPS,
        per_device_train_batch_size=options.pop("batch", 8),
        logging_steps=1,
        save_steps=options.pop("save_steps", STEPS + 1),
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        seed=3,
        **options,
    )
    return transformers.Trainer(
        model=model, args=settings, train_dataset=Sentences(), optimizers=(optimizer, scheduler)
    )


def curve(one: Any, key: str = "loss") -> list[float]:
    return [row[key] for row in one.state.log_history if key in row]


@every_maker
def test_the_trainer_trains_and_an_interrupted_run_goes_on_exactly(make: Any, tmp_path: Path) -> None:
    whole = trainer(tmp_path, make, save_steps=5)
    whole.train()
    resumed = trainer(tmp_path, make)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
    losses = curve(whole)
    assert len(losses) == STEPS
    assert curve(resumed) == losses, "its log has the steps before the checkpoint, too"
    assert losses[-1] < losses[0]
    for one, other in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)
    a, b = (getattr(found.optimizer, "optimizer", found.optimizer) for found in (whole, resumed))
    assert a.rates()["layer"] == b.rates()["layer"]
    assert a.combination() == b.combination()
    assert a.tree.state.step == b.tree.state.step == STEPS
    assert a.rates()["global"] != pytest.approx(a.param_groups[0]["lr0"], rel=1e-4)
    assert a.skipped == 0


def test_the_trainer_logs_the_schedule_as_learning_rate(tmp_path: Path) -> None:
    """`learning_rate` in its log is `scheduler.get_last_lr()`: the schedule, before anything is learned."""
    one = trainer(tmp_path, MAKERS["AdamW"])
    one.train()
    found = curve(one, "learning_rate")
    assert max(found) == pytest.approx(3e-3)
    assert found[0] < found[3]
    assert found[-1] < 3e-4


def test_without_learning_the_trainer_gives_what_torchs_optimizer_gives(tmp_path: Path) -> None:
    still = {"hyper_lr": 0.0, "combine_lr": 0.0}
    found = []
    for make in (
        lambda model: camhd.AdamW(model, lr=3e-3, **still),
        lambda model: torch.optim.AdamW(model.parameters(), lr=3e-3),
    ):
        one = trainer(tmp_path, make)
        one.train()
        found.append(curve(one))
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_clipping_and_accumulation_of_the_trainer(tmp_path: Path) -> None:
    """Four quarters of a batch are the batch; the Trainer clips at norm 1 by itself. Dropout would draw by batch."""

    def make(model: Any) -> Any:
        for part in model.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.0
        return MAKERS["AdamW"](model)

    found = []
    for options in ({}, {"gradient_accumulation_steps": 4, "batch": 2}):
        one = trainer(tmp_path, make, **options)
        one.train()
        found.append((curve(one), one.optimizer.optimizer.rates()))
    (whole, rates), (parts, others) = found
    assert parts == pytest.approx(whole, rel=1e-4)
    assert others["layer"] == pytest.approx(rates["layer"], rel=1e-4)


# accelerate


def regression() -> Any:
    random = torch.Generator().manual_seed(2)
    x = torch.randn(64, 4, generator=random)
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), batch_size=8)


class Session:
    """A training loop as accelerate's documentation writes it."""

    def __init__(self, make: Any, dropout: float = 0.2, **options: Any) -> None:
        accelerate.state.AcceleratorState._reset_state(True)
        torch.manual_seed(0)
        self.accelerator = accelerate.Accelerator(cpu=True, **options)
        model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 1))
        self.inner = make(model)
        scheduler = torch.optim.lr_scheduler.LambdaLR(self.inner, lambda t: min(1.0, t / 6))
        found = self.accelerator.prepare(model, self.inner, regression(), scheduler)
        self.model, self.optimizer, self.loader, self.scheduler = found
        self.losses: list[float] = []

    def train(self, epochs: int, clip: float | None = None) -> None:
        for _ in range(epochs):
            for x, y in self.loader:
                with self.accelerator.accumulate(self.model):
                    loss = nn.functional.mse_loss(self.model(x), y)
                    self.accelerator.backward(loss)
                    if clip is not None and self.accelerator.sync_gradients:
                        self.accelerator.clip_grad_norm_(self.model.parameters(), clip)
                    self.optimizer.step()
                    self.scheduler.step()
                    self.optimizer.zero_grad()
                self.losses.append(float(loss.detach()))


@every_maker
def test_accelerate_saves_its_state_and_goes_on_exactly(make: Any, tmp_path: Path) -> None:
    whole = Session(make)
    whole.train(2)
    whole.accelerator.save_state(str(tmp_path))
    whole.train(2)
    resumed = Session(make)
    resumed.accelerator.load_state(str(tmp_path))
    resumed.train(2)
    assert resumed.losses == whole.losses[16:]
    assert resumed.inner.rates()["layer"] == whole.inner.rates()["layer"]
    assert whole.inner.rates()["global"] != pytest.approx(whole.inner.param_groups[0]["lr0"], rel=1e-5)


def test_accelerates_steps_are_those_of_a_loop_of_ones_own(tmp_path: Path) -> None:
    make = MAKERS["SGD"]
    session = Session(make, dropout=0.0, gradient_accumulation_steps=2)
    session.train(2, clip=0.1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(0.0), nn.Linear(16, 1))
    optimizer = make(model)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: min(1.0, t / 6))
    losses = []
    for i, (x, y) in enumerate([*regression(), *regression()]):
        loss = nn.functional.mse_loss(model(x), y)
        (loss / 2).backward()
        losses.append(float(loss.detach()))
        if i % 2:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    assert session.losses == pytest.approx(losses, rel=1e-5)
    assert session.inner.rates()["layer"] == pytest.approx(optimizer.rates()["layer"], rel=1e-5)


def test_rates_are_read_through_accelerates_shell() -> None:
    session, seen = Session(MAKERS["AdamW"]), []
    assert session.optimizer is not session.inner
    with camhd.report.RateLogger(session.optimizer, lambda step, _: seen.append(step), every=3):
        session.train(1)
    assert seen == [3, 6]
    assert camhd.report.scalars(session.optimizer) == camhd.report.scalars(session.inner)
    assert camhd.report.snapshot(session.optimizer) == camhd.report.snapshot(session.inner)
    assert camhd.report.rate(session.optimizer) == session.inner.rates()["global"]


def test_accelerates_mixed_precision_trains() -> None:
    session = Session(MAKERS["AdamW"], mixed_precision="bf16")
    session.train(6)
    assert sum(session.losses[-8:]) < sum(session.losses[:8])
    assert session.inner.skipped == 0


def test_the_examples_run(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    found = run("with_transformers", folder=str(tmp_path / "a"), steps=20)
    assert curve(found)[-1] < curve(found)[0]
    accelerate.state.AcceleratorState._reset_state(True)
    first, second = run("with_accelerate", folder=str(tmp_path / "b"), epochs=2)
    assert first == second


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accelerate.state.AcceleratorState._reset_state(True)
    monkeypatch.chdir(tmp_path)
    found = run_blocks("using-with.md", "huggingface")
    assert found["opt"].tree.state.step == 12
    assert (tmp_path / "out" / "checkpoint-8").is_dir()
