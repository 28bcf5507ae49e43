"""Networks on a CUDA device: streams, slots, graphs, and the tower that is evaluated from its stored weights.

Its tests use a stand-in on the CPU; what ran on a card is in docs/decisions/0021-gpu-runner.md.
"""
