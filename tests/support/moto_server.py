"""A moto server: `python -m tests.support.moto_server` prints its port. It is a process of its own.

moto adds a handler to all clients of its process, so that direct connections are not used there. The server handles one
request at a time: concurrent ones lose writes.
"""

import threading
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


def serve() -> None:
    """Serve until the process is ended."""
    application = DomainDispatcherApplication(create_backend_app)
    lock = threading.Lock()

    def handle(environ: Any, start_response: Any) -> list[bytes]:
        with lock:
            return list(application(environ, start_response))

    server = make_server("127.0.0.1", 0, handle, threaded=True)
    print(server.server_port, flush=True)  # noqa: T201 - the parent process reads it
    server.serve_forever()


if __name__ == "__main__":
    serve()
