"""Streams an answer while something else goes on in the same event loop: `ask_async.py FILE`."""

from __future__ import annotations

import asyncio
import sys
import tempfile

from drt import AsyncAssistant

QUESTION = "What is the wintering allowance?"


async def tick(seconds: float) -> int:
    """Counts until it is cancelled: the loop is never blocked."""
    count = 0
    try:
        while True:
            await asyncio.sleep(seconds)
            count += 1
    except asyncio.CancelledError:
        return count


async def main() -> None:
    """Reads the file, asks, and says how often the loop ticked meanwhile."""
    ticking = asyncio.create_task(tick(0.01))
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncAssistant(folder) as assistant:
            await assistant.ingest(sys.argv[1])
            stream = assistant.stream(QUESTION)
            async for piece in stream:
                print(piece, end="", flush=True)
            assert stream.answer is not None
            print(f"  (confidence {stream.answer.confidence:.2f})")
    ticking.cancel()
    print(f"the loop ticked {await ticking} times meanwhile")


if __name__ == "__main__":
    asyncio.run(main())
