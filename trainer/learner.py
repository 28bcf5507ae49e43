"""Learner: optimisation steps on batches from the window, within the reuse bound.

The code is synchronous, for one thread; the service runs it in a dedicated executor. All state that determines the next
step is in `LearnerState` and in the tensors, so a resumed learner continues bit-identically (`trainer.checkpoint`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import structlog
import torch
from torch import Tensor

from games.core import GameSpec
from trainer.batches import Batch, BatchMaker, Drawn
from trainer.compiled_tower import backend_name, obstacle, with_compiled_units
from trainer.device_batches import DeviceBatches
from trainer.loss import POLICY_ENTROPY, Losses, compute_losses, policy_surprise
from trainer.merging import merge_equal
from trainer.network import Network
from trainer.optimisation import WeightAverage, estimate_statistics, learning_rate, make_optimizer, set_rate
from trainer.ranks import Ranks
from trainer.window import SampleWindow, window_size
from zerofleet.errors import Diverged
from zerofleet.evaluators.native.training import MOST_THREADS
from zerofleet.presets import TrainSettings

__all__ = ["Learner", "LearnerState", "StepReport"]

log = structlog.get_logger()

_MAX_SKIPS_IN_A_ROW = 50
_STATISTICS_BATCHES = 8  # adds a tenth of what a policy changes until the next candidate (docs/results/speed_training.md)


@dataclass(slots=True)
class LearnerState:
    """Counts stored in a checkpoint beside the tensors."""

    step: int = 0
    """Steps taken, skipped ones included."""
    samples_trained: int = 0
    """Samples in the batches of all steps that were not skipped."""
    samples_forgone: int = 0
    """Uses of the samples of before that a change of `max_reuse` would add, and are not made; negative after a lower one."""
    max_reuse: float | None = None
    """The bound that the samples of before arrived under; None in the checkpoints of earlier releases."""
    skipped: int = 0
    """Steps whose gradient was not finite."""
    skipped_in_a_row: int = 0
    progress: float = 0.0
    """Share of the planned training that had passed at the last step, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """Losses and outcome of a step."""

    total: float
    policy: float
    value: float
    policy_entropy: float
    """Mean entropy of the network's policy over the legal actions, in nats."""
    gradient_norm: float
    learning_rate: float
    skipped: bool
    samples: int
    """Samples of the batch, on all ranks together."""
    extra: dict[str, float] = field(default_factory=dict)
    """Losses of the extra heads, by name, and the illegal mass of a policy over all actions."""

    @property
    def losses(self) -> dict[str, float]:
        """Losses by name, their total included, and the entropy of the policy."""
        losses = {"total": self.total, "policy": self.policy, "value": self.value}
        return {**losses, POLICY_ENTROPY: self.policy_entropy, **self.extra}


class Learner:
    """Network in training, with its optimiser and weight average."""

    def __init__(
        self,
        spec: GameSpec,
        network: Network,
        settings: TrainSettings,
        window: SampleWindow,
        *,
        seed: int,
        device: torch.device | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        """`ranks`: processes that train this network together; by default this one alone."""
        self.device = device or torch.device("cpu")
        self.network = network.to(self.device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        self.settings = settings
        self.window = window
        self.state = LearnerState(max_reuse=settings.max_reuse)
        self.optimizer = make_optimizer(self.network, settings)
        self.average = WeightAverage(self.network, settings.average_decay)
        self.rng = np.random.default_rng(seed)
        self._seed = seed
        self._ranks = ranks or Ranks()
        self.convolutions = "torch"
        """Code of the tower's convolutions in a step: `torch`, or the kernel by its instruction set, such as `native_avx2`."""
        self._view = self._compiled(self._ranks.view(self.network), spec.planes[1:])
        self._maker = BatchMaker(spec)
        self._device_batches = DeviceBatches(spec, self.device) if self.device.type != "cpu" else None
        self._buffers = [buffer for _, buffer in self.network.named_buffers()]
        self._good_buffers = [buffer.clone() for buffer in self._buffers]

    @property
    def reuse(self) -> float:
        """Mean number of uses of a received sample."""
        return self.state.samples_trained / max(1, self.window.total)

    @property
    def progress(self) -> float:
        """Share of the planned training that has passed, in [0, 1], for a schedule over the plan; set it before a step."""
        return self.state.progress

    @progress.setter
    def progress(self, share: float) -> None:
        self.state.progress = min(1.0, max(0.0, share))

    def steps_allowed(self) -> int:
        """Return the number of steps allowed before new samples must arrive (0 before `min_samples` have).

        None while the window is smaller than it was at the first step: a start leaves out stored games that it cannot read.
        """
        settings = self.settings
        if self.window.total < settings.min_samples or len(self.window) < window_size(settings.min_samples, settings):
            return 0
        used = self.state.samples_trained + self.state.samples_forgone
        budget = self.settings.max_reuse * self.window.total - used
        return max(0, int(budget // self.settings.batch_size))

    def step(self) -> StepReport:
        """Draw a batch and train on it, together with the other ranks, if any; see `train_on`."""
        drawn = self._draw(self.rng)
        with self._ranks.turn():
            return self.train_on(self._ranks.share(drawn._replace(progress=self.progress)))

    def train_on(self, drawn: Drawn) -> StepReport:
        """Train on this rank's part of a batch; every rank must call it.

        A gradient that is not finite changes only the count of skipped steps, on every rank.
        Raises `Diverged` when too many steps in a row are skipped: the network has diverged.
        """
        batch = self._build(drawn)
        self.progress = drawn.progress
        rate = learning_rate(self.settings, self.state.step, self.progress)
        set_rate(self.optimizer, rate)
        losses = self._losses(batch)
        self.optimizer.zero_grad(set_to_none=True)
        losses.total.backward()  # type: ignore[no-untyped-call]
        figures = torch.stack([losses.total, losses.policy, losses.value, losses.entropy, *losses.extra.values()]).detach()
        self._ranks.sum_step([p.grad for p in self.network.parameters() if p.grad is not None], figures)
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.gradient_clip).item()
        self.state.step += 1
        finite = np.isfinite(norm)
        if finite:
            self._take_step()
        else:
            self._skip_step(norm)
        total, policy, value, entropy, *extra = figures.tolist()
        return StepReport(
            total,
            policy,
            value,
            entropy,
            norm,
            rate,
            skipped=not finite,
            samples=self.settings.batch_size,
            extra=dict(zip(losses.extra, extra, strict=True)),
        )

    def candidate(self) -> Network:
        """Return a network of averaged weights, ready for export; the window must not be empty.

        The result depends on the step alone, not on the number of calls.
        """
        averaged = self.average.network(self.network)
        rng = np.random.default_rng((self._seed, self.state.step))
        batches = (self._build(self._draw(rng)).planes for _ in range(_STATISTICS_BATCHES))
        own_kernel = self.convolutions != "torch"
        estimate_statistics(with_compiled_units(averaged) if own_kernel else averaged, batches)
        return averaged.eval()

    def _compiled(self, view: Network, board: tuple[int, ...]) -> Network:
        """Return the view with its residual tower in the kernel, where setting and network admit it; log the choice."""
        plain = self.settings.convolutions == "torch"
        reason = "train.convolutions=torch" if plain else obstacle(self.network, self.device, board)
        if reason:
            log.info("learner.convolutions", by=self.convolutions, reason=reason)
            return view
        self.convolutions = backend_name()
        threads = torch.get_num_threads()
        log.info("learner.convolutions", by=self.convolutions, threads=min(threads, MOST_THREADS))
        if threads > MOST_THREADS:
            log.warning("learner.convolutions_limited", threads=MOST_THREADS, wanted=threads, advice="lower train.threads")
        return with_compiled_units(view)

    def _build(self, drawn: Drawn) -> Batch:
        """Return drawn samples on the learner's device."""
        return (
            self._device_batches.build(drawn) if self._device_batches is not None else self._maker.build(drawn).to(self.device)
        )

    def _draw(self, rng: np.random.Generator) -> Drawn:
        samples = self.window.draw(self.settings.batch_size, rng)
        merged = merge_equal(samples, self.settings.merge_equal)
        # Every rank needs a position, and a batch norm of flat features two.
        return self._maker.turn(merged if len(merged) >= max(2, self._ranks.size) else samples, rng)

    def _losses(self, batch: Batch) -> Losses:
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"):
            logits, value, extra = self._view(batch.planes)
        settings = self.settings
        return compute_losses(
            logits.float(),
            value.float(),
            batch,
            value_weight=settings.value_weight,
            policy_activation=self.network.policy_activation,
            policy_over=settings.policy_over,
            weight=self._weights_by_surprise(logits.float(), batch) if settings.surprise_share else None,
            extra={name: answer.float() for name, answer in zip(self.network.heads, extra, strict=True)},
            extra_weights={
                "opponents": settings.opponents_weight,
                "plies_left": settings.plies_left_weight,
                "reply": settings.reply_weight,
            },
        )

    @torch.no_grad()
    def _weights_by_surprise(self, logits: Tensor, batch: Batch) -> Tensor:
        """Return weights float32 [B] of which a share is distributed by surprise; every rank must call it."""
        surprise = policy_surprise(logits, batch, self.network.policy_activation)
        mean = (batch.weight * surprise).sum() / batch.whole.weight
        self._ranks.add_up(mean)
        share = self.settings.surprise_share if mean > 0 else 0.0
        return batch.weight * (1.0 - share + share * surprise / mean.clamp(min=torch.finfo(mean.dtype).tiny))

    @torch.no_grad()
    def _take_step(self) -> None:
        self.optimizer.step()
        self.average.update(self.network)
        _copy(self._buffers, self._good_buffers)
        self.state.samples_trained += self.settings.batch_size
        self.state.skipped_in_a_row = 0

    @torch.no_grad()
    def _skip_step(self, norm: float) -> None:
        """Undo the step: restore the statistics of the batch norms, which the forward pass has already updated."""
        _copy(self._good_buffers, self._buffers)
        self.state.skipped += 1
        self.state.skipped_in_a_row += 1
        if self.state.skipped_in_a_row >= _MAX_SKIPS_IN_A_ROW:
            raise Diverged(
                f"gradient norm {norm} in {_MAX_SKIPS_IN_A_ROW} steps in a row up to step {self.state.step}: the network has "
                "diverged; lower train.learning_rate and remove the latest checkpoint to return to an earlier one"
            )

    @torch.no_grad()
    def load_weights(self, tensors: dict[str, Tensor]) -> None:
        """Load weights and statistics, and restart the average from them."""
        self.network.load_state_dict(tensors)
        _copy(self._buffers, self._good_buffers)
        self.average = WeightAverage(self.network, self.settings.average_decay)


def _copy(source: list[Tensor], target: list[Tensor]) -> None:
    """Copy tensors; the lists may be empty, as a perceptron has no statistics."""
    if source:
        torch._foreach_copy_(target, source)
