"""Keys of a live page, on a real pseudo-terminal that is taken for the foreground of this process."""

import asyncio
import io
import os
import pty
import select
import termios
from collections.abc import Callable, Iterator

import pytest
from rich.console import Console

from zerofleet.supervisor.keyboard import Keyboard
from zerofleet.supervisor.presenter import LivePage, presenter
from zerofleet.supervisor.readings import Readings
from zerofleet.supervisor.screen import Title

TITLE = Title("connect_four", "laptop", "runs/connect_four-laptop", None, "Ctrl-C stops it")


class Terminal:
    """Pseudo-terminal: keys are typed at one end, the keyboard has the other."""

    def __init__(self) -> None:
        self.person, self.program = pty.openpty()
        self.is_foreground = True
        self.pressed: list[str] = []

    def type(self, keys: bytes) -> None:
        os.write(self.person, keys)

    @property
    def waits_for_lines(self) -> bool:
        return bool(termios.tcgetattr(self.program)[3] & termios.ICANON)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10.0):
            while not condition():  # noqa: ASYNC110 - no event for bytes that a terminal has not delivered
                await asyncio.sleep(0)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    made = Terminal()
    monkeypatch.setattr(os, "tcgetpgrp", lambda _fd: os.getpgrp() if made.is_foreground else -1)
    yield made
    os.close(made.program)
    os.close(made.person)


async def test_every_key_arrives_without_a_line_break_and_the_terminal_is_restored(terminal: Terminal) -> None:
    keyboard = Keyboard(terminal.program)
    keyboard.open(terminal.pressed.append)
    assert not terminal.waits_for_lines
    terminal.type(b"2\t")
    await terminal.until(lambda: len(terminal.pressed) == 2)
    keyboard.close()
    assert terminal.pressed == ["2", "\t"]
    assert terminal.waits_for_lines


async def test_ctrl_c_stays_a_signal(terminal: Terminal) -> None:
    keyboard = Keyboard(terminal.program)
    keyboard.open(terminal.pressed.append)
    assert termios.tcgetattr(terminal.program)[3] & termios.ISIG
    keyboard.close()


async def test_an_arrow_key_has_no_effect(terminal: Terminal) -> None:
    keyboard = Keyboard(terminal.program)
    keyboard.open(terminal.pressed.append)
    terminal.type(b"\x1b[1;2C")
    await asyncio.sleep(0)
    await terminal.until(lambda: not _is_readable(terminal.program))
    terminal.type(b"1")
    await terminal.until(lambda: bool(terminal.pressed))
    keyboard.close()
    assert terminal.pressed == ["1"]


async def test_nothing_is_read_in_the_background(terminal: Terminal) -> None:
    keyboard = Keyboard(terminal.program)
    keyboard.open(terminal.pressed.append)
    terminal.is_foreground = False
    terminal.type(b"2")
    for _ in range(20):
        await asyncio.sleep(0)
    assert terminal.pressed == []
    assert _is_readable(terminal.program)
    terminal.is_foreground = True
    keyboard.refresh()
    await terminal.until(lambda: terminal.pressed == ["2"])
    keyboard.close()


async def test_a_terminal_reset_by_the_shell_is_set_again(terminal: Terminal) -> None:
    former = termios.tcgetattr(terminal.program)
    keyboard = Keyboard(terminal.program)
    keyboard.open(terminal.pressed.append)
    termios.tcsetattr(terminal.program, termios.TCSANOW, former)
    keyboard.refresh()
    assert not terminal.waits_for_lines
    keyboard.close()
    assert terminal.waits_for_lines


async def test_a_run_started_in_the_background_leaves_the_terminal_alone(terminal: Terminal) -> None:
    terminal.is_foreground = False
    keyboard = Keyboard(terminal.program)
    keyboard.open(terminal.pressed.append)
    keyboard.refresh()
    assert terminal.waits_for_lines
    keyboard.close()


async def test_a_closed_terminal_ends_the_keyboard_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "tcgetpgrp", lambda _fd: os.getpgrp())
    person, program = pty.openpty()
    keyboard = Keyboard(program)
    keyboard.open(pytest.fail)
    os.close(person)
    for _ in range(20):
        await asyncio.sleep(0)
    keyboard.refresh()
    keyboard.close()
    os.close(program)


async def test_keys_select_the_page(terminal: Terminal) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=110, height=40, _environ={"TERM": "xterm"})
    shown = presenter(console, TITLE, Keyboard(terminal.program))
    assert isinstance(shown, LivePage)

    def last_page_has(words: str) -> bool:
        return words in out.getvalue().rpartition("\x1b[H")[2]

    with shown:
        shown.show(Readings())
        assert last_page_has("ladder")
        for keys, words in ((b"2", "games by ending"), (b"1", "ladder"), (b"\t", "games by ending"), (b"\t", "ladder")):
            terminal.type(keys)
            await terminal.until(lambda words=words: last_page_has(words))  # type: ignore[misc]
    assert terminal.waits_for_lines


async def test_a_pipe_has_no_pages(terminal: Terminal) -> None:
    presenter(Console(file=io.StringIO()), TITLE, Keyboard(terminal.program)).show(Readings())
    assert terminal.waits_for_lines


def _is_readable(terminal: int) -> bool:

    return bool(select.select([terminal], [], [], 0)[0])
