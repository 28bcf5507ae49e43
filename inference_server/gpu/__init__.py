"""Networks on a CUDA device: streams, slots, graphs, and the tower that is evaluated from its stored weights.

Nothing in this package has run on a card yet (docs/decisions/0021-gpu-runner.md): its tests use a stand-in on the CPU.
"""
