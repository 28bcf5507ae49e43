"""Claims about strength: counts of games, the estimates drawn from them, and verdicts on stated figures."""
