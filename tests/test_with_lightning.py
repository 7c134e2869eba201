"""Lightning's Trainer: automatic and manual optimization, exact resume, a callback that logs rates."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import camhd
from cases import EXACT
from examples_run import run, run_blocks

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # whatever it says while it is imported
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not installed")

pytestmark = [
    pytest.mark.usefixtures("papers_form"),
    pytest.mark.filterwarnings("ignore::lightning.pytorch.utilities.warnings.PossibleUserWarning"),
    pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty:UserWarning"),
]

FAST: dict[str, Any] = {"hyper_lr": 1e-4, "combine_lr": 0.1}
MAKERS = {
    "default": lambda model: camhd.Adam(model, hyper_rule="long_horizon"),
    "SGD": lambda model: camhd.SGD(model, lr=0.05, momentum=0.9, nesterov=True, **FAST),
    "Adam": lambda model: camhd.Adam(model, lr=0.01, levels=("global", "layer", "unit", "parameter"), **FAST),
    "wrapped": lambda model: camhd.wrap(torch.optim.RMSprop(model.parameters(), lr=0.01), model, **FAST),
}
every_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def loader() -> Any:
    random = torch.Generator().manual_seed(5)
    x = torch.randn(64, 4, generator=random)
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), batch_size=8)  # 8 batches an epoch


class Batches:
    """The same batches from a loader that knows where it is: what Lightning needs to resume within an epoch."""

    def __init__(self) -> None:
        self.at = 0

    def __len__(self) -> int:
        return 8

    def __iter__(self) -> Iterator[Any]:
        first = self.at % len(self)
        for self.at, batch in enumerate(loader(), start=1):
            if self.at > first:
                yield batch

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class Module(lightning.LightningModule):  # type: ignore[misc, name-defined] # Lightning may be absent
    """A small network that notes every loss; dropout makes the random state matter."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 1))
        self.make = make
        self.losses: list[float] = []

    def loss(self, batch: Any) -> Tensor:
        return nn.functional.mse_loss(self.net(batch[0]), batch[1])

    def training_step(self, batch: Any, index: int) -> Tensor:
        loss = self.loss(batch)
        self.losses.append(float(loss.detach()))
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        optimizer = self.make(self.net)
        warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: min(1.0, t / 6))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": warm_up, "interval": "step"}}


class Manual(Module):
    """The same by hand: two optimizers that take turns."""

    def configure_optimizers(self) -> Any:
        first, last = self.net[0], self.net[3]
        return camhd.Adam(first, lr=0.01, **FAST), camhd.SGD(last, lr=0.05, **FAST)

    def __init__(self, make: Any = None) -> None:
        super().__init__(make)
        self.automatic_optimization = False

    def training_step(self, batch: Any, index: int) -> Tensor:
        for optimizer in self.optimizers():
            optimizer.zero_grad()
            loss = self.loss(batch)
            self.manual_backward(loss)
            optimizer.step()
        self.losses.append(float(loss.detach()))
        assert "rates/layer/(root)" in camhd.report.scalars(self.optimizers()[0]), "Lightning's shell is looked into"
        return loss


class SeededEpochs(lightning.Callback):  # type: ignore[misc, name-defined] # Lightning may be absent
    """Dropout draws the same numbers at a step, whether or not the run was interrupted before it."""

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        torch.manual_seed(trainer.fit_loop.epoch_loop.total_batch_idx)


def trainer(folder: Path, epochs: int = 4, **options: Any) -> Any:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu", "devices": 1}
    options = {"logger": False, **options}
    callbacks = [SeededEpochs(), *options.pop("callbacks", [])]
    return lightning.Trainer(default_root_dir=folder, max_epochs=epochs, callbacks=callbacks, **quiet, **options)


def saver(folder: Path, **when: int) -> Any:
    return lightning.callbacks.ModelCheckpoint(folder, filename="{step}", save_top_k=-1, **when)


def own_loop(make: Any, epochs: int = 4) -> Module:
    """What the trainer does, in a loop of our own."""
    module = Module(make)
    found = module.configure_optimizers()
    optimizer, scheduler = found["optimizer"], found["lr_scheduler"]["scheduler"]
    step = 0
    for _ in range(epochs):
        for batch in loader():
            torch.manual_seed(step)
            optimizer.zero_grad()
            loss = module.loss(batch)
            module.losses.append(float(loss.detach()))
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
    return module


@every_maker
def test_the_trainer_makes_the_steps_of_a_loop_of_ones_own(make: Any, tmp_path: Path) -> None:
    module, own = Module(make), own_loop(make)
    trainer(tmp_path, enable_checkpointing=False).fit(module, loader())
    assert module.losses == own.losses
    assert len(set(module.losses)) == 32


@every_maker
@pytest.mark.parametrize("at", [16, 13], ids=["between epochs", "within an epoch"])
def test_an_interrupted_run_goes_on_exactly(make: Any, at: int, tmp_path: Path) -> None:
    whole = Module(make)
    first = trainer(tmp_path, callbacks=[saver(tmp_path, every_n_train_steps=at)])
    first.fit(whole, Batches())
    resumed = Module(make)
    second = trainer(tmp_path, callbacks=[saver(tmp_path, every_n_train_steps=at)])
    second.fit(resumed, Batches(), ckpt_path=tmp_path / f"step={at}.ckpt")
    assert resumed.losses == whole.losses[at:]
    assert len(resumed.losses) == 32 - at
    for one, other in zip(whole.net.parameters(), resumed.net.parameters(), strict=True):
        assert torch.equal(one, other)
    (a,), (b,) = first.optimizers, second.optimizers
    assert a.rates()["layer"] == b.rates()["layer"]
    assert a.rates()["global"] != pytest.approx(a.param_groups[0]["lr0"], rel=1e-4)
    assert a.combination() == b.combination()


def test_manual_optimization_of_two_optimizers_and_its_resume(tmp_path: Path) -> None:
    whole, resumed = Manual(), Manual()
    trainer(tmp_path, 3, callbacks=[saver(tmp_path, every_n_epochs=2)]).fit(whole, loader())
    second = trainer(tmp_path, 3, callbacks=[saver(tmp_path, every_n_epochs=2)])
    second.fit(resumed, loader(), ckpt_path=tmp_path / "step=32.ckpt")
    assert resumed.losses == whole.losses[16:]
    own = Manual()
    optimizers = own.configure_optimizers()
    for step, batch in enumerate([*loader(), *loader(), *loader()]):
        torch.manual_seed(step)
        for optimizer in optimizers:
            optimizer.zero_grad()
            loss = own.loss(batch)
            loss.backward()
            optimizer.step()
        own.losses.append(float(loss.detach()))
    assert whole.losses == own.losses


def test_clipping_and_accumulation_by_the_trainer_are_seen_by_the_hypergradient(tmp_path: Path) -> None:
    make = MAKERS["SGD"]
    module, own = Module(make), Module(make)
    own.configure_optimizers()
    options = {"accumulate_grad_batches": 4, "gradient_clip_val": 0.05, "enable_checkpointing": False}
    one = trainer(tmp_path, 2, **options)
    one.fit(module, loader())
    found = own.configure_optimizers()
    optimizer, scheduler = found["optimizer"], found["lr_scheduler"]["scheduler"]
    for step, batch in enumerate([*loader(), *loader()]):
        torch.manual_seed(step)
        (own.loss(batch) / 4).backward()
        if step % 4 == 3:
            nn.utils.clip_grad_norm_(own.net.parameters(), 0.05)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    assert one.optimizers[0].rates() == optimizer.rates()
    for p, q in zip(own.net.parameters(), module.net.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true"])
def test_lightnings_precisions_train(precision: str, tmp_path: Path) -> None:
    module = Module(MAKERS["Adam"])
    one = trainer(tmp_path, 4, precision=precision, enable_checkpointing=False)
    one.fit(module, loader())
    assert sum(module.losses[-8:]) < sum(module.losses[:8])
    assert one.optimizers[0].skipped == 0
    assert one.optimizers[0].rates()["unit"]["0"].dtype == torch.float32


class Noted(lightning.loggers.logger.DummyLogger):  # type: ignore[misc, name-defined] # Lightning may be absent
    """Lightning's own logger that keeps nothing, but for what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[int, dict[str, float]] = {}

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        assert step is not None
        self.seen.setdefault(step, {}).update(copy.deepcopy(metrics))


def test_the_callback_logs_rates_and_the_monitor_the_schedule(tmp_path: Path) -> None:
    logger = Noted()
    callbacks = [lightning.callbacks.LearningRateMonitor("step"), camhd.report.lightning_callback(every=4)]
    one = trainer(tmp_path, 2, logger=logger, callbacks=callbacks, log_every_n_steps=1, enable_checkpointing=False)
    module = Module(MAKERS["SGD"])
    one.fit(module, loader())
    (optimizer,) = one.optimizers
    curve = [step for step, metrics in logger.seen.items() if "rates/global" in metrics]
    assert curve == [3, 7, 11, 15], "where Lightning itself puts the loss of these steps"
    last = logger.seen[15]
    assert {key: last[key] for key in camhd.report.scalars(optimizer)} == camhd.report.scalars(optimizer)
    schedule = [metrics["lr-SGD"] for _, metrics in sorted(logger.seen.items()) if "lr-SGD" in metrics]
    assert schedule == pytest.approx([0.05 * min(1.0, t / 6) for t in range(len(schedule))], rel=EXACT)
    assert schedule[-1] == 0.05, "warm-up is over, and the monitor shows the schedule's lr"
    assert last["lr/0"] != pytest.approx(0.05, rel=1e-4), "what the group moves with is learned"


def test_the_callback_names_several_optimizers_and_needs_a_logger(tmp_path: Path) -> None:
    logger = Noted()
    callback = camhd.report.lightning_callback(every=8)
    one = trainer(tmp_path, 1, logger=logger, callbacks=[callback], enable_checkpointing=False)
    one.fit(Manual(), loader())
    assert {"Adam/rates/global", "SGD/lr/0"} <= set(logger.seen[7])
    bare = trainer(tmp_path, 1, callbacks=[camhd.report.lightning_callback()], enable_checkpointing=False)
    with pytest.raises(ValueError, match="writes to the trainer's loggers, but it has none"):
        bare.fit(Manual(), loader())
    with pytest.raises(ValueError, match="'every' must be a number of steps from 1 on, got 0"):
        camhd.report.lightning_callback(every=0)


def test_rates_go_to_lightnings_csv_and_tensorboard_loggers(tmp_path: Path) -> None:
    events = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed"
    )
    csv = lightning.loggers.CSVLogger(tmp_path, name="csv", flush_logs_every_n_steps=4)
    board = lightning.loggers.TensorBoardLogger(tmp_path, name="board", log_graph=False)
    callbacks = [camhd.report.lightning_callback(every=4)]
    one = trainer(tmp_path, 1, logger=[csv, board], callbacks=callbacks, enable_checkpointing=False)
    one.fit(Module(MAKERS["SGD"]), loader())
    text = (Path(csv.log_dir) / "metrics.csv").read_text()
    assert "rates/layer/0" in text.splitlines()[0]
    read = events.EventAccumulator(board.log_dir)
    read.Reload()
    rate = one.optimizers[0].rates()["layer"]["0"]
    assert read.Scalars("rates/layer/0")[-1].value == pytest.approx(rate, rel=1e-6)
    own = lightning.loggers.CSVLogger(tmp_path, name="own")
    with camhd.report.RateLogger(one.optimizers[0], own, every=None) as direct:
        direct.log()
    own.save()
    assert "rates/layer/3" in (Path(own.log_dir) / "metrics.csv").read_text().splitlines()[0]


def test_the_example_runs(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    found = run("with_lightning", folder=str(tmp_path), epochs=2)
    assert "rates/layer/0" in (Path(found.logger.log_dir) / "metrics.csv").read_text()


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = run_blocks("using-with.md", "lightning")
    assert found["trainer"].global_step == 12
