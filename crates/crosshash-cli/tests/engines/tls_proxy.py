"""Accepts TLS connections on 127.0.0.1 and forwards them to a server without TLS, for tests.

    python tls_proxy.py PORT SERVER_PORT CERTIFICATE KEY [postgres]

With `postgres`, a connection begins with PostgreSQL's request for encryption.
"""

import asyncio
import ssl
import sys

SSL_REQUEST = bytes.fromhex("0000000804d2162f")


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except (ConnectionError, ssl.SSLError):
        pass
    writer.close()


async def main() -> None:
    port, server, certificate, key = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    asks = "postgres" in sys.argv[5:]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if asks:
                if await reader.readexactly(8) != SSL_REQUEST:
                    writer.close()  # only encrypted connections
                    return
                writer.write(b"S")
                await writer.drain()
                await writer.start_tls(context)
            above, below = await asyncio.open_connection("127.0.0.1", server)
            await asyncio.gather(copy(reader, below), copy(above, writer))
        except (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", port, ssl=None if asks else context)
    await listening.serve_forever()


asyncio.run(main())
