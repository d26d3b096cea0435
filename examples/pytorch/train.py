#!/usr/bin/env -S torchrun -r 1 -t 1
"""Trains a model of a few hundred parameters with all members of a gang, on GPUs or CPUs.

torchrun starts one process for each GPU of a node, and the environment connects the processes. Each begins with different
parameters and different data. After training, all must have the same model; the last lines check it.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 200


def main():
    on_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    place = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    print(f"member {rank} of {world} on {os.environ['SYNAPSE_NODE']}", flush=True)

    torch.manual_seed(rank)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 1)).to(place))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    first = last = None
    for _ in range(STEPS):
        x = torch.rand(256, 2, device=place)
        loss = nn.functional.mse_loss(model(x), (x[:, :1] * x[:, 1:]))  # it learns to multiply
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last = loss.item()
        first = first if first is not None else last

    # The sum of all parameters must be the same on all members.
    mine = torch.cat([p.detach().flatten() for p in model.parameters()]).double().sum().reshape(1)
    all_of_them = [torch.zeros_like(mine) for _ in range(world)]
    dist.all_gather(all_of_them, mine)
    if any(not torch.equal(mine, other) for other in all_of_them):
        raise SystemExit(f"member {rank} has a different model than the others")
    if last > first / 4:
        raise SystemExit(f"member {rank} learned nothing: its loss was {first:.4f} and is {last:.4f}")
    if rank == 0:
        print(f"trained: {world} members, one model, loss {first:.4f} -> {last:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
