"""A receiver of webhooks that answers after a while, however many ask at once.

Prints the port it listens on. A process of its own, so that its CPU time is not the worker's.
"""

import asyncio
import sys

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


async def main() -> None:
    """Serve until the end, answering after as many seconds as the first argument says."""
    seconds = float(sys.argv[1])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await _read_request(reader)
                await asyncio.sleep(seconds)
                writer.write(_ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _read_request(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            await reader.readexactly(int(line.partition(b":")[2]))


if __name__ == "__main__":
    asyncio.run(main())
