"""The location of a lake: a directory on a file system shared by the driver and all executors."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from laneway.lake.errors import OptionInvalid

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_LOCAL = ("", "localhost")


def find_folder(place: str | Path) -> Path:
    """Return the absolute path of the directory that a path or a file:// URL names.

    Raise OptionInvalid for every other URL: Python and Spark would take it for different places.
    """
    text = str(place)
    found = _SCHEME.match(text)
    if found is None:
        if not text:
            raise _refuse(text, "it is empty")
        return Path(text).absolute()
    rooted = text[found.end() :].startswith(("/", "\\"))
    if isinstance(place, Path) and not rooted and found.end() < len(text):
        # Path turns ./a:b into a:b and s3://bucket into s3:/bucket.
        return place.absolute()
    scheme = found[1].lower()
    if scheme == "file" and isinstance(place, Path):
        raise _refuse(text, "a Path changes URLs. Pass the URL as a string")
    if scheme == "file":
        url = urlsplit(text)
        local = url.netloc.lower() in _LOCAL and url.path.startswith("/")
        if local and not url.query + url.fragment:
            return Path(unquote(url.path))
        raise _refuse(
            text, "a file URL needs an absolute path on this machine, such as file:///srv/lake"
        )
    if len(scheme) == 1 and rooted:
        raise _refuse(text, "Windows drives are not supported")
    if rooted:
        raise _refuse(text, f"{scheme}: is not supported")
    raise _refuse(
        text, f"{scheme}: is not supported. If it is the name of a directory, write ./{text}"
    )


def _refuse(text: str, problem: str) -> OptionInvalid:
    return OptionInvalid(
        f'the lake cannot be at "{text}": {problem}. Use a directory of a mounted file system, such as'
        " /srv/lake"
    )
