#!/usr/bin/env -S torchrun -r 1 -t 1
"""Trains a small model with all members of a gang, saves it, and resumes from what was saved.

torchrun starts one process for each GPU of a node. Member 0 saves every SAVE_EVERY steps, and once more when the job is
stopped. Each attempt begins with the newest checkpoint.
"""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, SAVE_EVERY = 400, 50
PAUSE = 0.1  # seconds of each step, as if the model were larger
CHECKPOINT = os.path.join(os.environ.get("CHECKPOINT_DIR", "checkpoints"), "model.pt")


def save(step, model, optimizer):
    """Replaces the checkpoint in one step, so that a crash cannot leave half a file."""
    state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, CHECKPOINT + ".new")
    os.replace(CHECKPOINT + ".new", CHECKPOINT)
    print(f"saved step {step}", flush=True)


def resume(model, optimizer, device):
    """Returns the first step that is still to do."""
    if not os.path.exists(CHECKPOINT):
        return 0
    state = torch.load(CHECKPOINT, map_location=device)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def main():
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))  # torchrun passes it on

    on_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")

    model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 1)).to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    first = resume(model, optimizer, device)
    if rank == 0:
        print(f"attempt {os.environ['SYNAPSE_RUN']}: {world} members, from step {first}", flush=True)

    for step in range(first, STEPS):
        torch.manual_seed(step * world + rank)  # the data of a step is the same in every attempt
        x = torch.rand(256, 2, device=device)
        loss = nn.functional.mse_loss(model(x), (x[:, :1] * x[:, 1:]))  # it learns to multiply
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(PAUSE)

        # The signal reaches the members at different steps. The sum lets all of them stop after the same one.
        stop = torch.tensor([float(bool(stopping))], device=device)
        dist.all_reduce(stop)
        if rank == 0 and (stop.item() > 0 or (step + 1) % SAVE_EVERY == 0):
            save(step + 1, model, optimizer)
        if stop.item() > 0:
            dist.barrier()  # until member 0 has saved
            sys.exit(1)  # 0 would say that the work is done

    if rank == 0:
        print(f"trained: {STEPS} steps, loss {loss.item():.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
