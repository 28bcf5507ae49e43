"""Boards, sessions and opponents of interactive play."""
