"""Training: which device, the same random numbers every time, one loss and one loop for every model."""

import math
import os
import random
from dataclasses import dataclass, field

import numpy as np
import torch

from . import shapes
from .corpus import PAD


def device():
    """The device to compute on: the environment variable ATTNLIB_DEVICE if set, else cuda if there is one, else cpu.

    mps is used only when asked for: it has no float64 and is slower for small recurrent networks.
    """
    return torch.device(os.environ.get("ATTNLIB_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu"))


def seed_everything(seed):
    """Start Python's, NumPy's and torch's random numbers at `seed`. Call it before the model is made.

    On the CPU, deterministic algorithms are switched on as well: the same seed and thread count give the same bits.
    """
    seed = shapes.check_whole("seed", seed, least=0)
    if seed >= 2**32:
        raise ValueError(f"seed must be below 2**32, got {seed}")
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(device().type == "cpu")


def masked_cross_entropy(logits, targets, pad=PAD):
    """Mean of -log softmax(logits)[target] over the tokens that are not padding.

    Args:
        logits: (B, T, V), a tensor: a score for each of V words at each of T positions.
        targets: (B, T), int64: the right word at each position; `pad` marks positions that do not count.
        pad: the id of the padding.
    Returns:
        Tensor with no axis. 0, with gradient 0, if every token is padding.
    Raises:
        TypeError: arrays, or targets that are no int64. ValueError: shapes that do not fit.
    """
    shapes.check_tensors(logits=logits, targets=targets)
    (logits,) = shapes.as_numbers(logits=logits)
    shapes.check_rank("logits", logits, 2, "(B, T, V)")
    shapes.check_shape("targets", targets, logits.shape[:-1])
    if targets.dtype != torch.int64:
        raise TypeError(f"targets must be int64, got {targets.dtype}")
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, -2), targets.flatten(), ignore_index=pad, reduction="sum"
    )
    return losses / (targets != pad).sum().clamp(min=1)


@dataclass
class History:
    """What `fit` tells: the loss before each step, and whether the training was interrupted."""

    losses: list = field(default_factory=list, repr=False)
    interrupted: bool = False


def fit(model, batches, *, loss, steps, lr=5e-3, warmup=50, clip=1.0, device=None, description="training"):
    """Train a model: Adam, with a learning rate that rises for `warmup` steps and then falls to 0 along a cosine.

    Interrupting (the stop button, Ctrl-C) ends the training and keeps what was learned so far. Call `seed_everything`
    before the model is made for the same result every time.

    Args:
        model: a torch Module, trained in place, moved to the device, and left in eval mode.
        batches: anything that yields batches, at least `steps` of them. A batch is a tensor, a tuple or list of
            tensors (a DataLoader makes lists), or has a method `to`; it is moved to the device.
        loss: function of (model, batch) that returns a tensor with no axis.
        steps: how many batches to train on.
        lr: the highest learning rate. warmup: steps until it is reached.
        clip: gradients longer than this (all together, as one vector) are shortened to it; None leaves them alone.
        device: where to train; None is `attnlib.device()`.
        description: what the progress bar says. TQDM_DISABLE=1 in the environment hides it.
    Returns:
        History.
    Raises:
        FloatingPointError: a loss that is nan or infinite. ValueError: fewer batches than steps.
    """
    from tqdm import tqdm  # here: device() and the loss work without it

    shapes.check_whole("steps", steps, least=1)
    shapes.check_whole("warmup", warmup, least=0)
    shapes.check_positive("lr", lr)
    if clip is not None:
        shapes.check_positive("clip", clip)
    target = _device(device)
    model.to(target).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    history = History()
    stream = iter(batches)
    try:
        with tqdm(total=steps, desc=description) as bar:
            for step in range(steps):
                batch = next(stream, None)
                if batch is None:
                    raise ValueError(f"batches must yield {steps} batches, one a step, got {step}")
                value = loss(model, _move(batch, target))
                shapes.check_shape("the result of loss", value, ())
                history.losses.append(value.item())
                _check_finite("loss", history.losses[-1], step, steps, lr)
                optimizer.zero_grad()
                value.backward()
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf if clip is None else clip)
                _check_finite("length of the gradient", norm.item(), step, steps, lr)
                for group in optimizer.param_groups:
                    group["lr"] = lr * _schedule(step, steps, warmup)
                optimizer.step()
                bar.update()
                bar.set_postfix(loss=f"{history.losses[-1]:.3f}", refresh=False)
    except KeyboardInterrupt:
        history.interrupted = True
        print(f"Interrupted after {len(history.losses)} of {steps} steps; the model keeps what it has learned.")
    finally:
        model.eval()
    return history


def _schedule(step, steps, warmup):
    """The learning rate at a step, as a share of the highest."""
    if step < warmup:
        return (step + 1) / warmup
    return (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2


def _check_finite(name, number, step, steps, lr):
    if not math.isfinite(number):
        raise FloatingPointError(
            f"the {name} is {number} at step {step} of {steps}; the model is as it was before this step. Try a smaller "
            f"lr than {lr} or a longer warmup; if that does not help, look for log(0), 0/0 or sqrt(0) in the model."
        )


def _device(chosen):
    return device() if chosen is None else torch.device(chosen)


def _move(batch, target):
    if isinstance(batch, tuple | list):
        return tuple(part.to(target) for part in batch)
    return batch.to(target)
