"""Search of games with hidden information: determinisation, prediction and the worlds a player holds possible."""
