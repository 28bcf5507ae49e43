"""Play without a tree: moves chosen by the values of the positions they lead to.

`settings` names the policies, `choice` draws a move by one of them, `pool` limits it to the few best, `block` plays many games
side by side, with one evaluation for all afterstates of all its positions.
"""
