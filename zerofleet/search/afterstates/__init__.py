"""Play without a tree: moves chosen by the values of the positions they lead to, or by those of the moves.

`settings` names the policies, `choice` draws a move by one of them, `pool` limits it to the few best, `block` plays many games
side by side, with one evaluation for all afterstates of all its positions, `action_values` with one for each position;
`opponents` are the players of the other seat.
"""
