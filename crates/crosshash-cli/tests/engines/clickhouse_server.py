"""Serves the ClickHouse engine of the package chdb over ClickHouse's HTTP interface, for tests.

    python clickhouse_server.py FOLDER PORT

The engine is the real one; this file only carries statements to it: `POST /?query=..` with the rows of an INSERT
as body, or the statement as body. It listens on 127.0.0.1 only. Statements run one at a time.
"""

import http.server
import pathlib
import re
import sys
import tempfile
import threading
import urllib.parse

from chdb import session

INSERT = re.compile(r"INSERT INTO (\S+) \((.*)\) FORMAT RowBinary", re.S)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: session.Session
    folder: pathlib.Path
    lock = threading.Lock()

    def do_POST(self) -> None:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = self.chunks()
        try:
            with Handler.lock:
                answer = self.run(query, body)
        except Exception as err:  # the message of the engine is the answer
            self.reply(500, str(err).encode(), [("X-ClickHouse-Exception-Code", "1")])
            return
        self.reply(200, answer, [])

    def chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def run(self, query: dict[str, list[str]], body: bytes) -> bytes:
        engine = Handler.engine
        engine.query(f"USE {query['database'][0]}")
        if "query" not in query:
            text = body.decode()
            found = re.fullmatch(r"(.*) FORMAT (RowBinary)", text, re.S)
            sql, form = found.groups() if found else (text, "TabSeparated")
            return engine.query(sql, form).bytes() or b""
        table, columns = INSERT.fullmatch(query["query"][0]).groups()
        types = engine.query(f"DESCRIBE TABLE {table}", "TabSeparated").bytes().decode()
        types = dict(line.split("\t")[:2] for line in types.splitlines())
        names = [name.strip() for name in columns.split(",")]
        structure = ", ".join(f"{name} {types[name]}" for name in names)
        with tempfile.NamedTemporaryFile(dir=Handler.folder, suffix=".bin") as rows:
            rows.write(body)
            rows.flush()
            engine.query(
                f"INSERT INTO {table} ({columns}) SELECT * FROM file('{rows.name}', 'RowBinary', '{structure}') "
                "SETTINGS max_insert_block_size = 1048576, min_insert_block_size_rows = 1048576, "
                "min_insert_block_size_bytes = 0, max_block_size = 1048576, max_insert_threads = 1"
            )
        return b""

    def reply(self, status: int, body: bytes, headers: list[tuple[str, str]]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    Handler.folder = folder
    Handler.engine = session.Session(str(folder / "data"))
    Handler.engine.query("CREATE DATABASE IF NOT EXISTS default ENGINE = Atomic")
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()


main()
