"""Parameters in a dict and gradients from torch.func; a rate for each of them by name.

python examples/functional.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value

import camhd


def main(steps: int = 200) -> list[float]:
    """Fit a function; the losses."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))  # only its forward is used
    params = {name: nn.Parameter(p.detach().clone()) for name, p in network.named_parameters()}
    opt = camhd.Adam(params.items(), lr=1e-2)  # names tell the layers
    x = torch.linspace(-3, 3, 128)[:, None]

    def loss_of(theta: dict[str, Tensor]) -> Tensor:
        found: Tensor = functional_call(network, theta, (x,))
        return (found - x.sin()).square().mean()

    losses = []
    for _ in range(steps):
        gradients, loss = grad_and_value(loss_of)({name: p.detach() for name, p in params.items()})
        for name, p in params.items():
            p.grad = gradients[name]
        opt.step()
        losses.append(float(loss))
    print(f"loss {losses[0]:.3f} to {losses[-1]:.4f}, rates {opt.rates()['layer']}")
    return losses


if __name__ == "__main__":
    main()
