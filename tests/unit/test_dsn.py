"""Errors about a database URL show no part of its password."""

from __future__ import annotations

import pytest

from laneway.domain.dsn import find_fault, hide_password, name_place

# Each has the password "ge" + something special + "heim", or a part of it where a host or port is.
FAULTY = [
    "postgresql://me:ge@heim@db:5432/mail",
    "postgresql://me:ge@he@im@one,two/mail",
    "postgresql://me:ge/heim@db:5432/mail",
    "postgresql://me:12/heim@db:5432/mail",
    "postgresql://me:ge#heim@db:5432/mail",
    "postgresql://me@db/mail?password=ge#heim",
    "postgresql://me:ge?heim@db:5432/mail",
    "postgresql://me:12?ge=heim@db:5432/mail",
    "postgresql://me:[geheim]@db:5432/mail",
    "postgresql://me:geheim]@db:5432/mail",
    "postgresql://me:geheim\u2100@db:5432/mail",
    "postgresql://me:geheim",
    "postgresql://me:geheim@db:5432:geheim/mail",
    "postgresql://me:geheim@::1/mail",
    "postgresql://me:geheim@[::1]geheim/mail",
    "postgresql://me:geheim@db,,other/mail",
    "postgresql://me:geheim@db:70000/mail",
    "postgresql://db/mail?port=geheim",
    "postgresql://me:geheim@db/mail?geheim",
    "host=db dbname=mail password=geheim",
    "geheim",
]

SOUND = {
    "postgresql://me:ge%40heim@db:5432/mail": "db:5432",
    "postgresql://me:ge:heim@db:5432/mail": "db:5432",
    "postgresql://me:ge heim%zz@db/mail": "db",
    "postgresql://me:geheim@[::1]:5432/mail": "[::1]:5432",
    "postgres://me:geheim@one:1,two:2/mail?target_session_attrs=read-write": "one:1,two:2",
    "postgresql://me@/mail?host=/run/postgresql&port=5432&password=geheim": "/run/postgresql",
    "postgresql://db/mail?user=me&password=ge@heim": "db",
    "postgresql://me:geheim@%2Frun%2Fpostgresql/mail": "%2Frun%2Fpostgresql",
    "postgresql:///mail?host=@abstract": "@abstract",
}


@pytest.mark.parametrize("dsn", FAULTY)
def test_invalid_url_error_repeats_no_part_of_it(dsn: str) -> None:
    fault = find_fault(dsn)
    assert fault is not None
    for text in (fault, hide_password(dsn), name_place(dsn)):
        assert not any(piece in text for piece in ("geheim", "heim", "'ge", "im@"))
    assert "postgresql://user:password@host:5432/database" in fault


@pytest.mark.parametrize("dsn", [dsn for dsn in FAULTY if "@heim" in dsn or "/heim" in dsn])
def test_invalid_password_error_explains_escaping(dsn: str) -> None:
    assert "@ is %40" in str(find_fault(dsn))


@pytest.mark.parametrize(("dsn", "place"), SOUND.items())
def test_valid_url_is_shown_without_its_password(dsn: str, place: str) -> None:
    assert find_fault(dsn) is None
    assert "heim" not in hide_password(dsn)
    assert name_place(dsn) == place
