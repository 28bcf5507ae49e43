"""A process that fills the first rows of a window, lets it grow once, and prints the most memory before and after."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import games
from trainer.samples import Samples
from trainer.window import SampleWindow
from zerofleet.presets import TrainSettings

sys.path.insert(0, str(Path(__file__).parents[1]))
from peak_memory import peak_bytes

if __name__ == "__main__":
    capacity = int(sys.argv[1])
    spec = games.make("take_six").spec()
    window = SampleWindow(spec, TrainSettings(window_min=2 * capacity))
    samples = Samples.empty(spec, 4096)
    while len(window) < capacity:
        window.add(samples)
    before = peak_bytes()
    window.add(samples)
    sizes = [array.nbytes * capacity // len(samples) for array in samples.arrays]
    figures = {"window_bytes": sum(sizes), "largest_array_bytes": max(sizes), "growth_bytes": peak_bytes() - before}
    sys.stdout.write(json.dumps(figures))
