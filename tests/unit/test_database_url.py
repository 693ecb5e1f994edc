"""The parts of a database's URL are joined into one."""

from __future__ import annotations

import pytest

from laneway.cli.database_url import Environment, PartInvalid, join_parts


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        ({"HOST": "db"}, "postgresql://postgres@db:5432/postgres"),
        ({"PASSWORD": "p@ss/word"}, "postgresql://postgres:p%40ss%2Fword@localhost:5432/postgres"),
        (
            {"HOST": "db", "PORT": "6000", "USER": "me", "DATABASE": "mail", "SSL": "true"},
            "postgresql://me@db:6000/mail?sslmode=require",
        ),
        ({"HOST": "db", "SSL": "FALSE"}, "postgresql://postgres@db:5432/postgres?sslmode=disable"),
        ({"HOST": "::1"}, "postgresql://postgres@[::1]:5432/postgres"),
        (
            {"HOST": "/run/postgresql"},
            "postgresql://postgres@/postgres?host=%2Frun%2Fpostgresql&port=5432",
        ),
    ],
)
def test_parts_become_a_url(variables: dict[str, str], url: str) -> None:
    parts = {f"postgres_{name.lower()}": value for name, value in variables.items()}
    assert join_parts(parts) == url


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("postgres_port", "many"),
        ("postgres_host", "me:word@db"),
        ("postgres_port", "70000"),
        ("postgres_ssl", "perhaps"),
    ],
)
def test_invalid_part_is_named(name: str, value: str) -> None:
    with pytest.raises(PartInvalid) as raised:
        join_parts({name: value})
    assert raised.value.name == name


def test_password_is_not_shown() -> None:
    url = join_parts({"postgres_password": "secret"})
    assert "secret" not in repr(Environment(url))
