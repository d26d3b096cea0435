#!/usr/bin/env -S torchrun -r 1 -t 1
"""Trains a small model, and saves a checkpoint when the scheduler asks for one.

The scheduler asks before it stops the gang: it writes a request to $SYNAPSE_NOTICE. All members must stop at the same
step, so they agree on the number of the request after each step. Member 0 then saves, and one process of each task
acknowledges the step in $SYNAPSE_CHECKPOINT_DIR. The next attempt begins with the acknowledged step.
"""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = int(os.environ.get("STEPS", "200"))
PAUSE = float(os.environ.get("PAUSE", "0.1"))  # seconds of each step, as if the model were larger
EVERY = int(os.environ.get("EVERY", "0"))  # steps between two checkpoints without a request; 0: none
FOLDER = os.environ.get("CHECKPOINT_DIR", "checkpoints")
CHECKPOINT = os.path.join(FOLDER, "model.pt")


def requested():
    """Returns the number of the open request to save, or 0."""
    try:
        with open(os.environ["SYNAPSE_NOTICE"]) as notice:
            values = dict(line.rstrip("\n").split("=", 1) for line in notice if "=" in line)
    except (KeyError, OSError):
        return 0
    return int(values.get("request", 0)) if values.get("action") == "checkpoint" else 0


def acknowledge(request, step):
    """Tells the scheduler that this task has saved the step. One process of each task calls it."""
    path = os.path.join(os.environ["SYNAPSE_CHECKPOINT_DIR"], "ack." + os.environ["SYNAPSE_RANK"])
    with open(path, "a") as acknowledgements:
        acknowledgements.write(f"{request} {step}\n")


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
    on_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, world, local = dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local) if on_gpu else torch.device("cpu")

    torch.manual_seed(1)  # each run begins with the same model
    net = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 1)).to(device)
    # DDP otherwise changes the order of its sums after the first step of each attempt, and with it the last bits.
    model = DistributedDataParallel(net, find_unused_parameters=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    first, done = resume(model, optimizer, device), 0
    if rank == 0:
        print(f"attempt {os.environ['SYNAPSE_RUN']}: {world} members, from step {first}", flush=True)

    for step in range(first, STEPS):
        torch.manual_seed(step * world + rank)  # the data of a step is the same in every attempt
        x = torch.rand(256, 2, device=device)
        loss = nn.functional.mse_loss(model(x), (x[:, :1] * x[:, 1:]))  # it learns to multiply
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step + 1} loss {loss.item().hex()}", flush=True)
        time.sleep(PAUSE)

        # The members read the notice at different steps. The maximum lets all of them save after the same one.
        request = torch.tensor([requested()], dtype=torch.int64, device=device)
        dist.all_reduce(request, op=dist.ReduceOp.MAX)
        if request.item() > done:
            done = request.item()
            if rank == 0:
                save(step + 1, model, optimizer)
            dist.barrier()  # until member 0 has saved
            if local == 0:
                acknowledge(done, step + 1)
        elif EVERY and (step + 1) % EVERY == 0 and rank == 0:
            save(step + 1, model, optimizer)

    if rank == 0:
        print(f"trained: {STEPS} steps, loss {loss.item():.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
