"""Search of games with hidden information: determinisation, prediction, and worlds consistent with a player's view."""
