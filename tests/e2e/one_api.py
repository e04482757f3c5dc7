"""The API in one process, which may die at a point: gunicorn would put another in its place."""

import os
from wsgiref.simple_server import WSGIRequestHandler, make_server

from services.api.wsgi import app


class _Quiet(WSGIRequestHandler):
    def log_message(self, format, *args):
        pass


if __name__ == "__main__":
    make_server("127.0.0.1", int(os.environ["API_PORT"]), app, handler_class=_Quiet).serve_forever()
