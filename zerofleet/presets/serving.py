"""Parts of a preset about models after their training: retention in the store, and the inference server."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["InferenceSettings", "ModelSettings"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ModelSettings(_Part):
    """Retention of versions in the model store, besides all former champions and undecided candidates."""

    keep: int = Field(default=100, ge=0)
    """Number of newest versions that are kept, whatever their verdict; 0 never deletes."""
    keep_every: int = Field(default=0, ge=0)
    """Older versions with multiples of this number are kept as history; 0 keeps none."""
    pinned: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(), max_length=8)
    """Versions that are kept, and served beside the champions, once they are stored: those of `afterstates.opponents`."""


class InferenceSettings(_Part):
    """Inference server."""

    threads: int = Field(default=1, ge=1)
    """CPU threads of the device thread."""
    max_batch: int = Field(default=256, ge=1)
    """Maximum rows per batch. A CPU gains little beyond a few hundred, a GPU needs thousands; requests of exactly this size,
    a block's leaves, waste least."""
    max_delay_us: int = Field(default=1000, ge=0, le=1_000_000)
    """Maximum wait for a fuller batch, in microseconds."""
    slots: int = Field(default=0, ge=0, le=8)
    """Batches on the device of a GPU at once: one computes while the next is filled and the last is emptied. 0: 2. Each
    further one adds a batch to the wait of an urgent request. A CPU evaluates one at a time, whatever is set here."""
    front_ends: int = Field(default=0, ge=0, le=32)
    """Processes that speak gRPC with clients, in front of the process of the device, all on the port of `address`. 0 or 1: the
    process of the device does so itself, which suffices up to 350,000 positions per second."""
