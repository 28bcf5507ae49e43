"""Connect Four on boards of any size: rules on bitboards or columns, and drawing."""

from games.connect_four.rules import ConnectFour

__all__ = ["ConnectFour"]
