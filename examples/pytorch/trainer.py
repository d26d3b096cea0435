"""Saves a checkpoint of a Hugging Face Trainer when the scheduler asks for one.

Add the callback to a Trainer, and resume from the newest checkpoint:

    trainer = Trainer(..., callbacks=[SaveOnRequest()])
    trainer.train(resume_from_checkpoint=get_last_checkpoint(training_args.output_dir))
"""

import os

import torch
import torch.distributed as dist
from transformers import TrainerCallback

from saves import acknowledge, requested


class SaveOnRequest(TrainerCallback):
    """Saves at the end of the step in which any member sees the request, and acknowledges the saved step."""

    def __init__(self):
        self.done, self.open = 0, 0

    def on_step_end(self, args, state, control, **kwargs):
        request = torch.tensor([requested()], dtype=torch.int64, device=args.device)
        if dist.is_initialized():
            dist.all_reduce(request, op=dist.ReduceOp.MAX)
        if request.item() > self.done:
            self.done = self.open = request.item()
            control.should_save = True  # the Trainer saves after this call, at the same step on all members

    def on_save(self, args, state, control, **kwargs):
        if not self.open:
            return
        if dist.is_initialized():
            dist.barrier()  # until all members have saved their parts
        if args.local_process_index == 0:
            acknowledge(self.open, state.global_step)
        self.open = 0
