"""Interactive play: boards, sessions and opponents."""
