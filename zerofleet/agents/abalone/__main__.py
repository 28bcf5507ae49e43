"""`python -m zerofleet.agents.abalone`: what each part of the search is worth."""

from __future__ import annotations

from zerofleet.agents.abalone.ablation import main

main()
