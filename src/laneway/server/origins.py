"""Which host names and web pages may reach the server.

A browser sends requests for any page that is open in it, also to addresses that only its own
machine can reach. API keys prevent that, because pages do not have them and the server uses no
cookies. A server without keys checks the headers that browsers set and pages cannot change: Host,
Origin, and Sec-Fetch-Site or Referer where there is no Origin. Programs other than browsers are not
affected.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from laneway.server.errors import Forbidden
from laneway.server.settings import is_loopback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laneway.server.settings import ServerSettings

    Headers = Mapping[bytes, bytes]

# In LANEWAY_ALLOWED_ORIGINS: any page, if an API key is required.
ANY = "*"
# Names by which LocalStack's clients reach this machine.
_LOCALSTACK = "localhost.localstack.cloud"
_PUBLIC = (b"access-control-allow-origin", b"*")
_VARIES = (b"vary", b"Origin")
_OWN_SITE = frozenset({b"same-origin", b"none"})
_SCHEMES = frozenset({b"http", b"https"})
# Accepted Host headers are cached: this many, up to this length.
_MOST_KNOWN = 100
_LONGEST_KNOWN = 300
_LONGEST_SHOWN = 200


class Origins:
    """One per process."""

    def __init__(self, settings: ServerSettings) -> None:
        self._any = ANY in settings.allowed_origins
        self._listed = frozenset(
            origin.encode() for origin in settings.allowed_origins if origin != ANY
        )
        names = {"localhost", *map(str.lower, settings.allowed_hosts)}
        if settings.sqs.host is not None:
            names.add(_split_place(settings.sqs.host)[0])
        if settings.sqs.port is not None:
            names.add(_LOCALSTACK)
        if not is_loopback(settings.host):
            names.add(settings.host.lower())
        self._names = frozenset(names)
        self._suffixes = tuple(f".{name}" for name in names)
        # Anyone who controls a name in the network can reach a server that listens on it.
        self._plain = not is_loopback(settings.host)
        self._known: set[bytes] = set()

    def admit(self, method: str, headers: Headers, *, safe: bool, keyless: bool) -> None:
        """Refuse requests that a browser sends for a page which may not call.

        safe: the operation changes nothing, and a page of another origin cannot read its answer.
        """
        if keyless:
            host = headers.get(b"host")
            if host and host not in self._known and not self._is_own(host):
                raise _refuse_host(host)
        origin = headers.get(b"origin")
        if origin is not None:
            if not self.allows(origin, headers, keyless=keyless):
                # A sandboxed frame or a local file sends "null", which no setting can name.
                named = (
                    _show(origin) if b"://" in origin else "the origin of a page served over HTTP"
                )
                raise _refuse_page(f'from a page of "{_show(origin)}"', named)
        elif keyless:
            site = headers.get(b"sec-fetch-site")
            if site is not None:
                if site not in _OWN_SITE and not (safe and _is_link(headers)):
                    raise _refuse_page("from a page of another site", "its origin")
            elif method == "GET" and not safe:
                self._require_own_page(headers)

    def allows(self, origin: bytes, headers: Headers, *, keyless: bool) -> bool:
        """Return whether pages of the origin may call and read the answer."""
        if (self._any and not keyless) or origin in self._listed:
            return True
        scheme, _, place = origin.partition(b"://")
        host = headers.get(b"host", b"")
        if scheme not in _SCHEMES or not host or (keyless and not self._is_own(host)):
            return False
        return place == host.lower() or _are_one_server(place, host)

    def write_headers(self, headers: Headers, *, keyless: bool) -> tuple[tuple[bytes, bytes], ...]:
        """Return the headers that say which pages may read the answer."""
        if self._any and not keyless:
            return (_PUBLIC,)
        origin = headers.get(b"origin")
        if origin is None or not self.allows(origin, headers, keyless=keyless):
            return (_VARIES,)
        return ((b"access-control-allow-origin", origin), _VARIES)

    def _is_own(self, host: bytes) -> bool:
        """Return whether the host name is this server's own, against DNS rebinding."""
        if host in self._known:
            return True
        name, _ = _split_place(host.decode("latin-1"))
        listed = name in self._names or name.endswith(self._suffixes)
        if not (listed or (self._plain and "." not in name) or _is_address(name)):
            return False
        if len(host) <= _LONGEST_KNOWN:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known.add(host)
        return True

    def _require_own_page(self, headers: Headers) -> None:
        """Refuse a GET that changes something, if no better header shows which page sent it.

        Browsers leave Sec-Fetch-Site out where the address is neither HTTPS nor loopback.
        """
        referer = headers.get(b"referer")
        if referer is not None:
            scheme, _, rest = referer.partition(b"://")
            place = rest.partition(b"/")[0]
            if not self.allows(b"%b://%b" % (scheme, place), headers, keyless=True):
                raise _refuse_page(f'from a page at "{_show(referer)}"', "its origin")
        elif _is_browser(headers.get(b"user-agent", b"")):
            raise _refuse_page("from a page that does not say its origin", "its origin")


def _refuse_host(host: bytes) -> Forbidden:
    name = _split_place(_show(host))[0]
    return Forbidden(
        f'request for host "{name}" refused: without keys this server answers only to localhost, IP '
        f'addresses and the names in LANEWAY_ALLOWED_HOSTS. Add "{name}" to LANEWAY_ALLOWED_HOSTS, or create a key '
        "with: laneway key create --role admin"
    )


def _refuse_page(which: str, origin: str) -> Forbidden:
    return Forbidden(
        f"request {which} refused: it is not in LANEWAY_ALLOWED_ORIGINS. Add {origin} to LANEWAY_ALLOWED_ORIGINS, "
        "or, where no key is required, create one with: laneway key create --role admin"
    )


def _is_link(headers: Headers) -> bool:
    """Return whether the request is a top-level navigation."""
    return (
        headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


def _is_browser(agent: bytes) -> bool:
    return agent.startswith(b"Mozilla/5.0 (") and b"PowerShell" not in agent


def _are_one_server(place: bytes, host: bytes) -> bool:
    """Return whether both are names of this machine, with the same port."""
    name, port = _split_place(place.decode("latin-1"))
    other, other_port = _split_place(host.decode("latin-1"))
    return port == other_port and _is_here(name) and _is_here(other)


def _is_here(name: str) -> bool:
    return is_loopback(name) or name.endswith(".localhost")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _split_place(place: str) -> tuple[str, str]:
    """Return host name and port; an IPv6 address without brackets, a name without its final dot."""
    if place.startswith("["):
        name, _, rest = place[1:].partition("]")
        return name.lower(), rest.removeprefix(":")
    name, _, port = place.partition(":")
    return name.lower().removesuffix("."), port


def _show(text: bytes) -> str:
    return text[:_LONGEST_SHOWN].decode("latin-1")
