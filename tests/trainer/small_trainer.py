"""Settings of a small trainer of tic-tac-toe."""

from trainer.settings import TrainerSettings

NETWORK = {"blocks": 1, "channels": 8, "policy_channels": 2, "value_channels": 2, "value_hidden": 8}
TRAIN = {
    "batch_size": 16,
    "min_samples": 20,
    "max_reuse": 2.0,
    "samples_per_candidate": 60,
    "window_min": 200,
    "average_decay": 0.5,
}
MODEL = "tic_tac_toe"


def settings_of(tmp_path, **changes):
    given = {"run_dir": tmp_path, "game": MODEL, "preset": "tiny", "network": NETWORK, "train": TRAIN}
    given |= {"report_every_s": 0.05, "intake_wait_s": 0.01, "intake_games": 8}
    return TrainerSettings(**{**given, **changes})
