"""Laboratory: the whole loop in one process, for experiments with its settings.

Self-play, evaluation, intake and learning take turns; the parts are those of the services, so a setting has the same effect
as in a fleet. `zerofleet bench learn` starts it as a process.
"""
