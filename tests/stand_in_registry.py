"""A small program in Karapace's place: it reads Karapace's settings, and answers whether it is ready."""

from __future__ import annotations

import sys
from pathlib import Path

PROGRAM = """#!{python} -S
import http.server, json, os, sys
if {says!r}:
    sys.exit({says!r})
subjects = []
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        named = dict(os.environ)
        ready = {{"status": {{"schema_registry_ready": {ready}}}}}
        answers = {{"/_health": ready, "/subjects": subjects, "/settings": named, "/pid": os.getpid()}}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answers[self.path]).encode())
    def do_POST(self):
        subjects.append(self.path.split("/")[2])
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
address = os.environ["KARAPACE_HOST"], int(os.environ["KARAPACE_PORT"])
http.server.HTTPServer(address, Handler).serve_forever()
"""


def install(home: Path, *, says: str = "", ready: bool = True) -> None:
    """Put it where Karapace would be.

    Args:
        says: what it prints as it ends at once; "": it serves.
        ready: what it says of itself.
    """
    program = home / "karapace" / "bin" / "python"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(PROGRAM.format(python=sys.executable, says=says, ready=ready))
    program.chmod(0o755)
