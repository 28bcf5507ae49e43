"""Perceptrons evaluated in this process, from the weights of a stored version, without a server.

`evaluator` loads versions and answers; `layers` computes networks with a policy, `values` those of learners of values, by the
compiled code of `kernels`; `inputs` turns the bits of a position into the numbers that a network reads.
"""
