"""Settings come from flags, environment and file, in that order, and each is documented."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from laneway.cli.errors import FlagInvalid, SettingInvalid
from laneway.cli.known_settings import CLIENT_SETTINGS, SETTINGS
from laneway.cli.server_settings import make_server_settings
from laneway.cli.settings_sources import list_former, list_mistyped, read_dotenv, read_settings
from laneway.domain.dsn import HIDDEN
from laneway.server.origins import Origins
from laneway.server.settings import ServerSettings, is_loopback

if TYPE_CHECKING:
    from pathlib import Path

    from laneway.cli.settings import Settings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "laneway.toml"
    path.write_text(
        "port = 1\nqueue_name = 'file'\nactivity_log_enabled = false\nmax_attempts = 9\n"
    )
    return path


def test_flag_overrides_environment_overrides_file(file: Path) -> None:
    variables = {"PORT": "2", "QUEUE_NAME": "environment"}
    settings = read_settings({"port": 3}, variables, file)
    assert (settings["port"], settings.chosen["port"].source) == (3, "flag")
    assert (settings["queue_name"], settings.chosen["queue_name"].source) == (
        "environment",
        "environment",
    )
    assert (settings["max_attempts"], settings.chosen["max_attempts"].source) == (9, "file")
    assert (settings["workers"], settings.chosen["workers"].source) == (1, "default")


def test_variable_with_prefix_overrides_its_alias(file: Path) -> None:
    settings = read_settings({}, {"PORT": "2", "LANEWAY_PORT": "3", "LANEWAY_QUEUE_NAME": ""}, file)
    assert (settings["port"], settings.chosen["port"].where) == (
        3,
        "environment variable LANEWAY_PORT",
    )
    assert (settings["queue_name"], settings.chosen["queue_name"].where) == (
        "file",
        f"queue_name in {file}",
    )


def test_environment_overrides_dotenv_overrides_file(file: Path) -> None:
    dotenv = {"LANEWAY_PORT": "2", "QUEUE_NAME": "dotenv", "MAX_ATTEMPTS": ""}
    settings = read_settings({}, {"PORT": "3"}, file, dotenv=dotenv)
    assert (settings["port"], settings.chosen["port"].source) == (3, "environment")
    assert (settings["queue_name"], settings.chosen["queue_name"].where) == (
        "dotenv",
        "QUEUE_NAME in .env",
    )
    assert settings["max_attempts"] == 9


def test_dotenv_is_read_as_other_programs_read_it(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    assert read_dotenv(path) == {}
    path.write_text(
        "# a comment\nexport PORT=3002 # another\n\nQUEUE_NAME='a # b'\nSECRET_KEY=\"a\\nb\"\n"
        "EMPTY=\nREFERENCE=${PORT}\nNAME_ALONE\n"
    )
    assert read_dotenv(path) == {
        "PORT": "3002",
        "QUEUE_NAME": "a # b",
        "SECRET_KEY": "a\nb",
        "EMPTY": "",
        "REFERENCE": "${PORT}",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"PORT=1\nQUEUE_NAME='open\n", "line 2 of"),
        (b"PORT=\xff\n", "cannot be read"),
    ],
)
def test_invalid_dotenv_is_refused(tmp_path: Path, text: bytes, words: str) -> None:
    path = tmp_path / ".env"
    path.write_bytes(text)
    with pytest.raises(SettingInvalid, match=words):
        read_dotenv(path)


def test_variables_of_other_programs_change_nothing(file: Path) -> None:
    variables = {"WORKERS": "4", "INSECURE": "true", "HOST": "10.0.0.1", "DATA_DIR": "/elsewhere"}
    settings = read_settings({}, variables, file, dotenv=variables)
    assert [settings[name.lower()] for name in variables] == [1, False, "127.0.0.1", ".laneway"]
    warned = list_former(settings, variables)
    assert len(warned) == len(variables)
    assert any("WORKERS is not read" in text and "LANEWAY_WORKERS" in text for text in warned)
    chosen = read_settings({}, {"LANEWAY_WORKERS": "2"}, file)
    assert list_former(chosen, {"WORKERS": "4"}) == []


def test_variables_that_are_nearly_a_setting_are_warned_of() -> None:
    (text,) = list_mistyped({"LANEWAY_PROT": "1", "LANEWAY_PORT": "2", "PROT": "3"})
    assert text == "variable LANEWAY_PROT is not a setting: did you mean LANEWAY_PORT?"
    assert list_mistyped({"LANEWAY_TEST_POSTGRES": "15", "LANEWAY_NODE": "node"}) == []


def test_server_of_the_same_settings_is_called_with_its_own_key(file: Path) -> None:
    settings = read_settings({}, {"SECRET_KEY": "own"}, file, wanted=CLIENT_SETTINGS)
    assert settings["api_key"] == "own"
    variables = {"LANEWAY_API_KEY": "other", "SECRET_KEY": "own"}
    assert read_settings({}, variables, file, wanted=CLIENT_SETTINGS)["api_key"] == "other"


def test_no_settings_mean_the_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    settings = read_settings({}, {})
    made = make_server_settings(settings)
    plain = ServerSettings()
    assert made.limits == plain.limits
    assert made.activity == plain.activity
    assert (made.host, made.port, made.queue, made.actor) == (
        plain.host,
        plain.port,
        plain.queue,
        plain.actor,
    )
    assert settings.environment.database_url is None


def test_every_setting_changes_something(file: Path) -> None:
    """A value that is not the default shows in what the server or the database is made from."""
    others = {str: "other", bool: None, int: 4711, float: 47.5}
    for setting in SETTINGS:
        # PgBouncer is before a database that is given.
        others_set = {"database_url": DSN} if setting.name in POOLER else {}
        plain = read_settings(others_set, {}, file)
        before = (make_server_settings(plain), plain.environment, plain.data_dir)
        value = others[setting.kind]
        if setting.kind is bool:
            value = not plain[setting.name]
        elif setting.choices:
            # The first one but for log_format, where it is the default.
            value = next(item for item in setting.choices if item != setting.default)
        elif setting.name == "allowed_origins":
            value = "https://elsewhere"
        elif setting.name in {"database_url", "database_direct_url"}:
            value = "postgresql://elsewhere/x"
        elif setting.name == "postgres_ssl":
            value = "true"
        elif setting.name == "postgres_port":
            value = "47"
        elif setting.name == "sqs_account":
            value = "111122223333"
        elif setting.high < 4711:
            value = setting.kind(setting.high)
        changed = read_settings({**others_set, setting.name: value}, {}, file)
        assert (make_server_settings(changed), changed.environment, changed.data_dir) != before, (
            setting.name
        )


def test_flag_for_the_database_wins_over_parts_in_the_environment(file: Path) -> None:
    variables = {"POSTGRES_HOST": "there", "DATABASE_URL": ""}
    settings = read_settings({"database_url": "postgresql://here/x"}, variables, file)
    assert settings.environment.database_url == "postgresql://here/x"
    settings = read_settings({"postgres_host": "here"}, {"DATABASE_URL": "postgresql://b/x"}, file)
    assert settings.environment.database_url == "postgresql://postgres@here:5432/postgres"


HTTP = "http://server:3001"
DSN = "postgresql://database/x"
POOLER = {"database_pooled", "database_direct_url"}


@pytest.mark.parametrize(
    ("flags", "variables", "lines", "place"),
    [
        ({"database_url": DSN}, {"SERVER_URL": HTTP}, "", DSN),
        ({"database_url": DSN}, {}, f"server_url = '{HTTP}'", DSN),
        ({"data_dir": "here"}, {"SERVER_URL": HTTP}, "", None),
        ({"data_dir": "here"}, {"DATABASE_URL": DSN}, "", None),
        ({"server_url": HTTP}, {"DATABASE_URL": DSN}, "", HTTP),
        ({"server_url": HTTP}, {"DATABASE_URL": "mysql://x"}, "", HTTP),
        ({}, {"DATABASE_URL": DSN}, f"server_url = '{HTTP}'", DSN),
        (
            {},
            {"POSTGRES_HOST": "h"},
            f"server_url = '{HTTP}'",
            "postgresql://postgres@h:5432/postgres",
        ),
        ({}, {"SERVER_URL": HTTP}, f"database_url = '{DSN}'", HTTP),
        ({}, {"SERVER_URL": HTTP, "DATABASE_URL": DSN}, "", HTTP),
        ({}, {"LANEWAY_DATA_DIR": "here", "DATABASE_URL": DSN}, "", DSN),
        ({}, {"LANEWAY_DATA_DIR": "here", "SERVER_URL": HTTP}, "", HTTP),
        ({}, {"LANEWAY_DATA_DIR": "here"}, f"server_url = '{HTTP}'", HTTP),
        ({}, {}, f"server_url = '{HTTP}'", HTTP),
        ({}, {}, "", None),
    ],
)
def test_nearer_source_chooses_between_server_and_database(
    tmp_path: Path,
    flags: dict[str, str],
    variables: dict[str, str],
    lines: str,
    place: str | None,
) -> None:
    path = tmp_path / "laneway.toml"
    path.write_text(lines)
    settings = read_settings(flags, variables, path, wanted=CLIENT_SETTINGS)
    assert find_place(settings) == place


@pytest.mark.parametrize(
    "flags",
    [
        {"server_url": HTTP, "database_url": DSN},
        {"server_url": HTTP, "data_dir": "here"},
        {"database_url": DSN, "data_dir": "here"},
        {"server_url": "foo"},
        {"server_url": "http://"},
        {"server_url": "http://host:many"},
        {"database_url": "mysql://database/x"},
    ],
)
def test_invalid_flags_are_refused(file: Path, flags: dict[str, str]) -> None:
    settings = read_settings(flags, {}, file, wanted=CLIENT_SETTINGS)
    with pytest.raises(FlagInvalid, match="--"):
        find_place(settings)


@pytest.mark.parametrize(
    ("name", "value"), [("SERVER_URL", "foo"), ("DATABASE_URL", "mysql://database/x")]
)
def test_invalid_address_is_named_with_its_source(file: Path, name: str, value: str) -> None:
    settings = read_settings({}, {name: value}, file, wanted=CLIENT_SETTINGS)
    with pytest.raises(SettingInvalid, match=f"environment variable {name}"):
        find_place(settings)


@pytest.mark.parametrize(
    ("flags", "variables", "words"),
    [
        ({}, {"PORT": "many"}, "environment variable PORT is 'many': set a whole number"),
        ({}, {"PORT": "70000"}, "PORT is 70000: set 65535 or less"),
        ({"workers": 0}, {}, "--workers is 0: set 1 or more"),
        ({"log_level": "loud"}, {}, "--log-level is 'loud': set one of"),
        ({}, {"ACTIVITY_LOG_ENABLED": "perhaps"}, "set true or false"),
        ({}, {"ACK_TIMEOUT_SECONDS": "0"}, "set 0.001 or more"),
        ({}, {"OVERDUE_CHECK_INTERVAL_MS": "99"}, "set 100 or more"),
        ({}, {"ACK_TIMEOUT_SECONDS": "nan"}, "ACK_TIMEOUT_SECONDS is nan: set a number"),
        ({}, {"ACTIVITY_ZOMBIE_THRESHOLD_MULTIPLIER": "inf"}, "is inf: set 1000000000000 or less"),
        ({}, {"ACTIVITY_FLASH_MESSAGE_THRESHOLD_MS": "9" * 30}, "or less"),
    ],
)
def test_invalid_setting_is_named(
    file: Path, flags: dict[str, str | int], variables: dict[str, str], words: str
) -> None:
    with pytest.raises(SettingInvalid) as raised:
        read_settings(flags, variables, file)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "LANEWAY_ALLOWED_HOSTS",
            "http://mq.example",
            "contains 'http://mq.example': use host names such as",
        ),
        ("LANEWAY_ALLOWED_HOSTS", "mq.example:3001", "without scheme or port"),
        ("LANEWAY_ALLOWED_HOSTS", "a,*", "contains '*'"),
        (
            "LANEWAY_ALLOWED_ORIGINS",
            "app.example",
            "use origins such as https://app.example.com:8443, or *",
        ),
        (
            "LANEWAY_ALLOWED_ORIGINS",
            "https://app.example/page",
            "contains 'https://app.example/page'",
        ),
        ("LANEWAY_ALLOWED_ORIGINS", "null", "contains 'null'"),
        ("LANEWAY_SQS_REGION", "EU West", "is 'EU West': use one such as us-east-1"),
        ("LANEWAY_SQS_ACCOUNT", "1234", "is '1234': use twelve digits"),
    ],
)
def test_invalid_names_are_refused(file: Path, name: str, value: str, words: str) -> None:
    with pytest.raises(SettingInvalid, match=f"environment variable {name}") as raised:
        make_server_settings(read_settings({}, {name: value}, file))
    assert words in str(raised.value)


def test_lists_are_parsed(file: Path) -> None:
    variables = {
        "LANEWAY_ALLOWED_HOSTS": " MQ.example,b ,",
        "LANEWAY_ALLOWED_ORIGINS": "https://App.example/, *",
    }
    made = make_server_settings(read_settings({}, variables, file))
    assert made.allowed_hosts == ("mq.example", "b")
    assert made.allowed_origins == ("https://app.example", "*")


@pytest.mark.parametrize(
    ("listed", "sent"),
    [
        ("https://a.example:443", "https://a.example"),
        ("http://a.example:80/", "http://a.example"),
        ("https://[::1]:443", "https://[::1]"),
        ("https://[::443]", "https://[::443]"),
        ("https://a.example:80", "https://a.example:80"),
        ("http://a.example:443", "http://a.example:443"),
        ("https://a.example:8443", "https://a.example:8443"),
        ("https://a.example", "https://a.example"),
    ],
)
def test_configured_origin_is_normalized_like_a_browser_origin(
    file: Path, listed: str, sent: str
) -> None:
    made = make_server_settings(read_settings({}, {"LANEWAY_ALLOWED_ORIGINS": listed}, file))
    assert made.allowed_origins == (sent,)
    headers = {b"origin": sent.encode(), b"host": b"mq.example"}
    assert Origins(made).allows(sent.encode(), headers, keyless=False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 1", 'contains the unknown setting "prot": did you mean "port"?'),
        ("port = 'x'", "is 'x': set a whole number"),
        ("port = true", "port in"),
        ("port =", "cannot be read"),
    ],
)
def test_invalid_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(SettingInvalid, match=r"x\.toml") as raised:
        read_settings({}, {}, path)
    assert words in str(raised.value)
    with pytest.raises(SettingInvalid, match="cannot be read"):
        read_settings({}, {}, tmp_path / "none.toml")


def test_secrets_are_hidden(file: Path) -> None:
    settings = read_settings(
        {
            "secret_key": "hush",
            "postgres_password": "hush",
            "database_url": "postgresql://me:hush@there/x",
        },
        {},
        file,
    )
    shown = {name: chosen.shown for name, chosen in settings.chosen.items()}
    assert shown["secret_key"] == HIDDEN
    assert shown["database_url"] == f"postgresql://me:{HIDDEN}@there/x"
    assert not any("hush" in text for text in shown.values())
    for url in ("postgresql:///x?host=/run&password=hush", "postgresql://[me:hush@there/x"):
        shown_url = read_settings({"database_url": url}, {}, file).chosen["database_url"].shown
        assert HIDDEN in shown_url
        assert "hush" not in shown_url
    assert "hush" not in repr(make_server_settings(settings))


def find_place(settings: Settings) -> str | None:
    return settings.server_url or settings.environment.database_url


def test_units_are_understood(file: Path) -> None:
    variables = {"ACK_TIMEOUT_SECONDS": "1.5", "OVERDUE_CHECK_INTERVAL_MS": "250"}
    server = make_server_settings(read_settings({}, variables, file))
    assert server.ack_timeout == timedelta(seconds=1.5)
    assert server.engine.maintenance.expire == timedelta(milliseconds=250)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104 - an address to judge, not to bind
        ("::", False),
        ("10.0.0.1", False),
        ("example.org", False),
    ],
)
def test_loopback_addresses_are_recognized(host: str, *, expected: bool) -> None:
    assert is_loopback(host) is expected
