"""The environment becomes one database URL, or none for the bundled database."""

from __future__ import annotations

import pytest

from laneway.cli.environment import Environment, read_environment
from laneway.cli.errors import EnvironmentInvalid


def test_no_variables_means_bundled_database() -> None:
    assert read_environment({"HOME": "/home/me"}) == Environment(None)


def test_empty_variables_count_as_not_set() -> None:
    variables = {"DATABASE_URL": "", "POSTGRES_HOST": "", "POSTGRES_PASSWORD": ""}
    assert read_environment(variables) == Environment(None)


def test_database_url_wins_over_parts() -> None:
    variables = {"DATABASE_URL": "postgresql://db/a", "POSTGRES_HOST": "elsewhere"}
    assert read_environment(variables) == Environment("postgresql://db/a")


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
    parts = {f"POSTGRES_{name}": value for name, value in variables.items()}
    assert read_environment(parts).database_url == url


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("POSTGRES_PORT", "many"),
        ("POSTGRES_HOST", "me:word@db"),
        ("POSTGRES_PORT", "70000"),
        ("POSTGRES_SSL", "perhaps"),
    ],
)
def test_invalid_variable_is_named(variable: str, value: str) -> None:
    with pytest.raises(EnvironmentInvalid, match=variable):
        read_environment({variable: value})


def test_password_is_not_shown() -> None:
    assert "secret" not in repr(read_environment({"POSTGRES_PASSWORD": "secret"}))
