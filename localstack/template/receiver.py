"""A receiver of webhooks: writes the path and body of each request to a file, one a line.

receiver.py REQUESTS PORT      PORT is a file that gets the number of the port when the receiver is ready
"""

import http.server
import os
import sys

requests, port = sys.argv[1:]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with open(requests, "a", encoding="utf-8") as file:
            file.write(f"{self.path} {body}\n")
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(port + ".new", "w", encoding="utf-8") as file:
    file.write(str(server.server_port))
os.rename(port + ".new", port)
server.serve_forever()
