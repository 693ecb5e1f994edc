"""The settings file is checked as a whole, and its errors say what to change in which line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laneway.cli.errors import SettingInvalid
from laneway.cli.known_tables import Key, Table
from laneway.cli.settings_file import read_file
from laneway.domain.dsn import HIDDEN

if TYPE_CHECKING:
    from pathlib import Path

    from laneway.cli.settings_file import SettingsFile

TABLES = (
    Table("shop", (Key("open", bool, True),)),  # noqa: FBT003 - a default
    Table(
        "bank.target.*",
        (
            Key("url", str),
            Key("statuses", list[int]),
            Key("timeout", float, 30.0),
            Key("headers", dict[str, str], secret=True),
        ),
    ),
    Table("bank.target.*.retry", (Key("attempts", int, 3),)),
)

VALID = """
port = 3002
shop.open = false

[bank.target.one]
url = "https://one.example"
statuses = [410]
timeout = 5
headers = { X-KEY = "hush" }

[bank.target."two.2".retry]
attempts = 4
"""


def read(folder: Path, text: str) -> SettingsFile:
    path = folder / "laneway.toml"
    path.write_text(text)
    return read_file(path, TABLES)


def test_tables_are_handed_to_their_owners(tmp_path: Path) -> None:
    file = read(tmp_path, VALID)
    assert file.settings == {"port": 3002}
    assert file.get_table("shop") == {"open": False}
    assert list(file.get_table("bank", "target")) == ["one", "two.2"]
    assert file.get_table("bank", "target", "one")["statuses"] == [410]
    assert file.get_table("bank", "target", "two.2", "retry") == {"attempts": 4}
    assert file.get_table("bank", "target", "three") == {}


def test_keys_of_tables_are_listed_with_their_sources(tmp_path: Path) -> None:
    file = read(tmp_path, VALID)
    shown = {path: (value, where) for path, value, where in file.list_keys()}
    assert shown["shop.open"] == (False, f"shop.open in {tmp_path / 'laneway.toml'}")
    assert shown["bank.target.one.headers"][0] == HIDDEN
    assert shown["bank.target.one.retry.attempts"] == (3, "default")
    assert shown['bank.target."two.2".retry.attempts'][0] == 4
    assert shown['bank.target."two.2".headers'] == (None, "default")


def test_file_that_does_not_exist_has_only_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert list(read_file(None, TABLES).list_keys()) == [("shop.open", True, "default")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 1", 'line 1 of FILE contains the unknown setting "prot": did you mean "port"?'),
        ("xyzzy = 1", "`laneway config` lists the settings"),
        (
            "port = 1\n\n[shop]\nopne = 1",
            'line 4 of FILE, table [shop], contains the unknown key "opne": did you mean "open"?',
        ),
        ("[shop]\nzzz = 1", "the keys of this table are open"),
        ("# note\n[shpo]\nopen = true", 'line 2 of FILE contains the unknown setting "shpo": did'),
        (
            '[bank.target.one]\nurl = """\nopen = 1\n"""\nurls = 1',
            "line 5 of FILE, table [bank.target.one], contains the unknown key",
        ),
        (
            "[bank.target.one]\nstatuses = [\n  1,\n  'x',\n]",
            "bank.target.one.statuses in line 2 of FILE is [1, 'x']: set a list of whole numbers",
        ),
        ('[bank.target."a b".rety]', 'table [bank.target."a b"], contains the unknown key "rety"'),
        ("[bank.target.one.retry]\nattempts = true", "is True: set a whole number"),
        ("[bank.target.one]\ntimeout = nan", "is nan: set a number"),
        ("[bank]\ntarget = 1", "bank.target in line 2 of FILE is not a table"),
        ("[[shop]]\nopen = true", "shop in line 1 of FILE is not a table"),
        ("[bank.target.one]\nheaders = { a = 1 }", f"is {HIDDEN}: set a table of strings"),
        ("[shop", "FILE cannot be read: "),
    ],
)
def test_error_names_the_line_and_the_nearest_key(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SettingInvalid) as raised:
        read(tmp_path, text)
    assert words.replace("FILE", str(tmp_path / "laneway.toml")) in str(raised.value)


def test_owner_refuses_a_key_with_its_line(tmp_path: Path) -> None:
    file = read(tmp_path, VALID)
    error = file.refuse("bank", "target", "one", "url", problem="has no path: add one")
    assert str(error) == (
        f"bank.target.one.url in line 6 of {tmp_path / 'laneway.toml'} has no path: add one"
    )
