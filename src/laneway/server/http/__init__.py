"""HTTP/1.1 over sockets: parses requests, calls the application, writes its responses.

HttpServer      accepts connections and stops gracefully
└── Connection  one client connection, with the time limits of TimeLimits
    ├── RequestParser  bytes to requests
    └── Exchange       one request and its response
"""

from __future__ import annotations

from laneway.server.http.exchange import Exchange
from laneway.server.http.http_server import HttpServer

__all__ = ["Exchange", "HttpServer"]
