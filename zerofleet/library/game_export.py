"""A stored game as a file: an animation, a strip of boards, or its moves with their searches.

    gif     one frame for each position, the last one longer
    png     the positions side by side in rows, as pixels
    svg     the same strip as vectors
    jsonl   a line of facts, then a line for each move: the values of `zerofleet games show --json`

Sizes are bounded: of a longer game the pictures show every n-th position, with the first and the last, and the note of the
export states it. Pictures show every hand, as the replay of a finished game does, or the view of one seat.
"""

from __future__ import annotations

import io
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Xml

import numpy as np

from games.core import Game
from games.kit import svg
from games.pictures import seen_picture
from games.positions import parameters_text
from zerofleet.contracts.records import ValidatedGame
from zerofleet.errors import InvalidRequest, Overloaded
from zerofleet.library.rasters import SVG, font, parsed, raster, size_of
from zerofleet.library.stored_games import finished_game, search_marks, view_moves

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = [
    "KINDS",
    "LIMIT_S",
    "MOST_BOARDS",
    "MOST_FRAMES",
    "GameCourse",
    "GameFile",
    "export_course",
    "export_game",
    "shown_positions",
]

KINDS = {"gif": "image/gif", "png": "image/png", "svg": "image/svg+xml", "jsonl": "application/x-ndjson"}
"""Media type of each kind of file."""
MOST_FRAMES = 150
"""Positions of an animation."""
MOST_BOARDS = 60
"""Positions of a strip."""
LIMIT_S = 60.0
"""Most processor time that the pictures may take."""

FRAME_MS, LAST_FRAME_MS = 700, 3000
FRAME_WIDTH, BOARD_WIDTH = 480, 300  # pixels, at most
STRIP_WIDTH = 1440  # pixels, about
GAP = 10.0
CAPTION_HEIGHT, CAPTION_SIZE = 24.0, 12.0
PALETTE_FRAMES = 6  # from which the colours of an animation are taken


@dataclass(frozen=True, slots=True)
class GameFile:
    """Exported game."""

    content: bytes
    media_type: str
    note: str
    """Which positions the pictures show, where they are not all shown; empty otherwise."""


@dataclass(frozen=True, slots=True)
class GameCourse:
    """Positions and moves of a finished game; n moves, S state entries."""

    game: Game
    states: np.ndarray  # spec.state_dtype [n + 1, S]; row i is the position before move i, the last row the final position
    movers: np.ndarray  # int8 [n]; player of move i
    moves: Sequence[int]  # [n]
    marks: Sequence[str] = ()  # [n]; text behind the name of each move in a caption; none at all for a game without searches

    def move_name(self, ply: int) -> str:
        """Return the name of the move that is made at position `ply`."""
        return self.game.action_name(self.states[ply], int(self.moves[ply]))


def export_game(
    index: int, stored: ValidatedGame, kind: str, *, viewer: int | None = None, is_stopped: Callable[[], bool] = lambda: False
) -> GameFile:
    """Return a stored game as a file.

    Args:
        index: Number of the game in its log.
        stored: The game.
        kind: One of `KINDS`.
        viewer: Seat whose view the pictures show, from 0; None shows every hand.
        is_stopped: Asked before each picture; True ends the work.

    Raises:
        InvalidRequest: Unknown kind or seat, or a picture with shapes that cannot be drawn as pixels.
        Overloaded: The pictures took more than `LIMIT_S`, or `is_stopped` returned True.
    """
    course = GameCourse(stored.game, stored.states, stored.movers, stored.record.moves, search_marks(stored))
    return export_course(course, kind, lambda: _lines(index, stored), viewer=viewer, is_stopped=is_stopped)


def export_course(
    course: GameCourse,
    kind: str,
    lines: Callable[[], Sequence[dict[str, object]]],
    *,
    viewer: int | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> GameFile:
    """Return a game as a file; arguments and errors as for `export_game`.

    Args:
        course: The game.
        kind: One of `KINDS`.
        lines: Makes the facts of the game, then each move, for the kind `jsonl`.
        viewer: Seat whose view the pictures show.
        is_stopped: Asked before each picture.
    """
    if kind not in KINDS:
        raise InvalidRequest(f"{kind!r} is not a kind of export; choose {', '.join(KINDS)}")
    if viewer is not None and not 0 <= viewer < course.game.spec().num_players:
        raise InvalidRequest(f"seat {viewer + 1} is not one of the {course.game.spec().num_players} seats of the game")
    if kind == "jsonl":
        if viewer is not None:
            raise InvalidRequest("the moves of a game are those of every seat; export them without a seat")
        facts, *moves = lines()
        named = [{"line": "game"} | facts, *({"line": "move"} | move for move in moves)]
        return GameFile("".join(f"{json.dumps(line, allow_nan=False)}\n" for line in named).encode(), KINDS[kind], "")
    film = _Film(course, MOST_FRAMES if kind == "gif" else MOST_BOARDS, viewer, is_stopped)
    draw = {"gif": _animation, "png": _strip, "svg": _vectors}[kind]
    return GameFile(draw(film), KINDS[kind], film.note)


def shown_positions(positions: int, most: int) -> list[int]:
    """Return the numbers of at most `most` positions of a game, evenly spaced from the first, and always the last."""
    step = max(1, math.ceil((positions - 1) / (most - 1)))
    return [*range(0, positions - 1, step), positions - 1]


class _Film:
    """Chosen positions of a game with their captions and pictures."""

    def __init__(self, course: GameCourse, most: int, viewer: int | None, is_stopped: Callable[[], bool]) -> None:
        self._course = course
        self._viewer = viewer
        self._is_stopped = is_stopped
        self._until_s = time.thread_time() + LIMIT_S
        self._plies = shown_positions(len(course.states), most)
        self.captions = [self._caption(ply) for ply in self._plies]
        self.documents = [self._document(ply) for ply in self._plies]
        sizes = [size_of(parsed(document)) for document in self.documents]
        self.width: float = max(width for width, _ in sizes)
        self.height: float = max(height for _, height in sizes)

    @property
    def note(self) -> str:
        """Which positions are shown; empty when all are."""
        positions = len(self._course.states)
        if len(self._plies) == positions:
            return ""
        return f"{len(self._plies)} of {positions} positions: one in {self._plies[1]}, and the last"

    def scale(self, widest: int) -> float:
        """Return pixels for a pixel of the pictures, so that none is wider than `widest`."""
        return min(1.0, widest / self.width)

    def __len__(self) -> int:
        """Return the number of positions."""
        return len(self.documents)

    def image(self, number: int, widest: int) -> Image:
        """Return a position with its caption; all have one size. Raises as `export_game`."""
        from PIL import Image as Images  # noqa: PLC0415  (slow to import, and most commands draw nothing)
        from PIL import ImageDraw as Drawing  # noqa: PLC0415

        self._require_time()
        scale = self.scale(widest)
        width, height = round(scale * self.width), round(scale * self.height)
        image = Images.new("RGB", (width, height + round(CAPTION_HEIGHT)), svg.PAPER)
        board = raster(self.documents[number], scale=scale)
        image.paste(board, ((width - board.width) // 2, 0))
        at, caption = (width / 2, height + CAPTION_HEIGHT / 2), self._fitting(self.captions[number], width)
        Drawing.Draw(image).text(at, caption, fill=svg.INK, font=font(CAPTION_SIZE), anchor="mm")
        return image

    def _fitting(self, caption: str, width: int) -> str:
        shown, letters = caption, len(caption)
        while letters and font(CAPTION_SIZE).getlength(shown) > width - GAP:
            letters -= 1
            shown = f"{caption[:letters]}…"
        return shown

    def _document(self, ply: int) -> str:
        self._require_time()
        game, state = self._course.game, self._course.states[ply]
        return svg.picture(game, state) if self._viewer is None else seen_picture(game, state, self._viewer)

    def _caption(self, ply: int) -> str:
        if ply == 0:
            return "start"
        mover = int(self._course.movers[ply - 1])
        if self._viewer not in {None, mover} and self._course.game.spec().information != "perfect":
            return f"{ply}. player {mover + 1}"  # a seat does not see another's choice when it is made
        mark = self._course.marks[ply - 1] if self._course.marks else ""
        return f"{ply}. {self._course.move_name(ply - 1)}{mark}, player {mover + 1}"

    def _require_time(self) -> None:
        if self._is_stopped():
            raise Overloaded("the export was stopped")
        if time.thread_time() > self._until_s:
            raise Overloaded(f"the pictures of this game take more than {LIMIT_S:.0f} s of processor time; export it as jsonl")


def _animation(film: _Film) -> bytes:
    from PIL import Image as Images  # noqa: PLC0415  (as in `_Film.image`)

    seen = [film.image(number, FRAME_WIDTH) for number in shown_positions(len(film), PALETTE_FRAMES)]
    joined = Images.new("RGB", (seen[0].width, len(seen) * seen[0].height))
    for number, image in enumerate(seen):
        joined.paste(image, (0, number * image.height))
    palette = joined.quantize(255, method=Images.Quantize.MAXCOVERAGE)
    frames = [  # one byte a pixel
        film.image(number, FRAME_WIDTH).quantize(palette=palette, dither=Images.Dither.NONE) for number in range(len(film))
    ]
    content = io.BytesIO()
    durations = [FRAME_MS] * (len(frames) - 1) + [LAST_FRAME_MS]
    frames[0].save(content, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0)
    return content.getvalue()


def _strip(film: _Film) -> bytes:
    from PIL import Image as Images  # noqa: PLC0415  (as in `_Film.image`)

    places, (width, height) = _grid(film)
    sheet = Images.new("RGB", (math.ceil(width), math.ceil(height)), svg.PAPER)
    for number, (x, y) in enumerate(places):
        sheet.paste(film.image(number, BOARD_WIDTH), (round(x), round(y)))
    content = io.BytesIO()
    sheet.save(content, "PNG", optimize=True)
    return content.getvalue()


def _vectors(film: _Film) -> bytes:
    places, (width, height) = _grid(film)
    scale = film.scale(BOARD_WIDTH)
    canvas = svg.Canvas(width, height)
    for caption, (x, y) in zip(film.captions, places, strict=True):
        middle = y + scale * film.height + CAPTION_HEIGHT / 2
        canvas.text(x + scale * film.width / 2, middle, caption, size=CAPTION_SIZE)
    Xml.register_namespace("", SVG.strip("{}"))
    sheet = Xml.fromstring(canvas.render("Positions of a game"))  # noqa: S314 - drawn above
    for document, (x, y) in zip(film.documents, places, strict=True):
        board = parsed(document)
        own_width, own_height = size_of(board)
        board.attrib.setdefault("viewBox", f"0 0 {own_width:g} {own_height:g}")
        left = x + scale * (film.width - own_width) / 2
        placed = {"x": left, "y": y, "width": scale * own_width, "height": scale * own_height}
        board.attrib.update({name: f"{length:.2f}" for name, length in placed.items()})
        sheet.append(board)
    content: bytes = Xml.tostring(sheet, encoding="utf-8")
    return content


def _grid(film: _Film) -> tuple[Sequence[tuple[float, float]], tuple[float, float]]:
    """Return the top left corner of each board of a strip, and the size of the strip, in pixels."""
    scale = film.scale(BOARD_WIDTH)
    cell_width = round(scale * film.width) + GAP
    cell_height = round(scale * film.height) + CAPTION_HEIGHT + GAP
    columns = min(len(film.documents), max(1, int(STRIP_WIDTH // cell_width)))
    places = [
        (GAP + number % columns * cell_width, GAP + number // columns * cell_height) for number in range(len(film.documents))
    ]
    rows = math.ceil(len(places) / columns)
    return places, (GAP + columns * cell_width, GAP + rows * cell_height)


def _lines(index: int, stored: ValidatedGame) -> list[dict[str, object]]:
    facts = finished_game(index, stored).model_dump(mode="json")
    game = {"game": stored.game.spec().name, "parameters": parameters_text(stored.game)}
    return [game | facts, *(move.model_dump(mode="json") for move in view_moves(stored))]
