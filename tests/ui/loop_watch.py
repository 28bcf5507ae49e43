"""Play and search in the pages as a person does; print, as JSON, what the event loop of the server loaded or compiled.

python loop_watch.py DIRECTORY
"""

import asyncio
import json
import sys
from pathlib import Path

import httpx

from ui.app import create_app
from ui.catalogue import Catalogue

sys.path.insert(0, str(Path(__file__).parents[1]))

from event_loop import watch


async def main(runs):
    seen, app = watch(), create_app(Catalogue(runs, None), max_tables=2)
    transport = httpx.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as client,
    ):

        async def post(path, **body):
            answer = await client.post(f"/api/v1/{path}", json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()

        table = f"tables/{(await post('tables', game='tic_tac_toe', seed=1))['id']}"
        for action, body in (("moves", {"move": "b2"}), ("undo", {})):
            await client.get(f"/api/v1/{table}?wait=1")
            await post(f"{table}/{action}", **body)
        study = f"studies/{(await post('studies', game='tic_tac_toe', simulations=50))['id']}"
        shown = [table, f"{table}/board", f"{table}/hint", f"{study}/events", f"{study}/node"]
        found = [(await client.get(f"/api/v1/{path}")).status_code for path in shown]
    print(json.dumps({"shown": found, "on the event loop": seen}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
