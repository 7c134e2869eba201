"""camhd in Hugging Face's Trainer, on a small GPT-2 with random weights: nothing is downloaded.

pip install transformers accelerate
python examples/with_transformers.py
"""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor
from torch.utils.data import Dataset

import camhd


class Counting(Dataset[dict[str, Tensor]]):
    """Runs of numbers that go up by one."""

    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        ids = (torch.arange(16) + 7 * index) % 64
        return {"input_ids": ids, "labels": ids}


def main(folder: str = "runs", steps: int = 60) -> Any:
    """Train; the trainer. `trainer.train(resume_from_checkpoint=True)` goes on exactly."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config)
    # One rate for each of "transformer.h.0", "transformer.h.1", …, and for each part before and after these blocks.
    block = camhd.levels.Block(lambda name: ".".join(name.split(".")[: 3 if ".h." in name else 2]))
    opt = camhd.AdamW(model, lr=3e-3, weight_decay=0.01, levels=("global", block, "layer"))
    scheduler = transformers.get_cosine_schedule_with_warmup(opt, num_warmup_steps=10, num_training_steps=steps)
    settings = transformers.TrainingArguments(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=16,
        logging_steps=10,
        save_steps=steps // 2,
        report_to=[],
        use_cpu=True,
        dataloader_pin_memory=False,
    )
    trainer = transformers.Trainer(model=model, args=settings, train_dataset=Counting(), optimizers=(opt, scheduler))
    trainer.train()
    print({name: f"{rate:.2e}" for name, rate in opt.rates()["block"].items()})
    return trainer


if __name__ == "__main__":
    main()
