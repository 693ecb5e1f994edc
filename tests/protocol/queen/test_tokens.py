"""Signed tokens: roles, signatures and the producer that they name."""

from __future__ import annotations

import base64
import hmac
import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import jwt
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from laneway.server.tokens import KeyUnusable, Tokens, TokenSettings
from tests.protocol.queen.conftest import open_client
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.protocol.conftest import Shared

SECRET = "a secret of thirty-two bytes and more"  # noqa: S105 - of nobody


class Guarded(NamedTuple):
    url: str
    key: Any

    def client(self, token: str | None) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.AsyncClient(base_url=f"{self.url}/api/v1", headers=headers)


def sign(role: Any = "read-write", *, key: Any = SECRET, kind: str = "HS256", **more: Any) -> str:
    claims = {"sub": "ada", "exp": time.time() + 600, "iss": "us", "aud": "them", "role": role}
    return jwt.encode({**claims, **more}, key, algorithm=kind)


def sign_raw(claims: dict[str, Any]) -> str:
    """Sign what PyJWT would refuse to write."""
    header = encode_part(b'{"alg":"HS256","typ":"JWT"}')
    text = f"{header}.{encode_part(json.dumps(claims).encode())}"
    digest = hmac.digest(SECRET.encode(), text.encode(), "sha256")
    return f"{text}.{encode_part(digest)}"


def encode_part(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(shared: Shared) -> AsyncIterator[Guarded]:
    key = ed25519.Ed25519PrivateKey.generate()
    async with run_laneway(
        shared.dsn,
        JWT_SECRET=SECRET,
        JWT_PUBLIC_KEY=write_public(key),
        JWT_ISSUER="us",
        JWT_AUDIENCE="them",
    ) as running:
        yield Guarded(running.url, key)


async def test_roles_limit_what_a_token_may_do(guarded: Guarded, name: str) -> None:
    push = {"items": [{"queue": name, "payload": 1}]}
    expected = {
        None: (401, 401, 401),
        "read-only": (200, 403, 403),
        "read-write": (200, 201, 403),
        "admin": (200, 201, 200),
        "unheard of": (200, 403, 403),
    }
    for role, codes in expected.items():
        async with guarded.client(sign(role) if role else None) as client:
            found = (
                (await client.get("/resources/queues")).status_code,
                (await client.post("/push", json=push)).status_code,
                (await client.delete(f"/resources/queues/{name}-none")).status_code,
            )
        assert found == codes, role


async def test_invalid_role_lets_a_token_only_read(guarded: Guarded, name: str) -> None:
    push = {"items": [{"queue": name, "payload": 1}]}
    role: Any
    for role in ({"name": "admin"}, [{"name": "admin"}], [["admin"]], 7):
        async with guarded.client(sign(role)) as client:
            assert (await client.get("/resources/queues")).status_code == 200
            assert (await client.post("/push", json=push)).status_code == 403


async def test_claims_of_the_wrong_type_are_refused(guarded: Guarded) -> None:
    soon = time.time() + 600
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    wrong: Any
    async with guarded.client(None) as client:

        async def ask(**claims: Any) -> httpx.Response:
            token = sign_raw({"sub": "ada", "iss": "us", "aud": "them", "exp": soon, **claims})
            # Twice: what was found good once is remembered.
            headers = {"Authorization": f"Bearer {token}"}
            await client.get("/resources/queues", headers=headers)
            return await client.get("/resources/queues", headers=headers)

        for claim in ("exp", "nbf", "iat"):
            late = str(int(soon if claim == "exp" else soon - 1200))
            for wrong in (late, "soon", None, True, [soon], {"at": soon}, float("nan"), deep):
                answer = await ask(**{claim: wrong})
                assert answer.status_code == 401, (claim, wrong, answer.text)
                assert claim in answer.json()["error"], (claim, wrong)
        others: list[dict[str, Any]] = [
            {"sub": 7},
            {"sub": ["ada"]},
            {"jti": 7},
            {"iss": 7},
            {"iss": {}},
            {"aud": 7},
        ]
        for claims in others:
            answer = await ask(**claims)
            assert answer.status_code == 401, (claims, answer.text)
        for exp, status in (
            (float("inf"), 401),
            (float("-inf"), 401),
            (10**400, 200),
            (-(10**400), 401),
            (soon, 200),
        ):
            answer = await ask(exp=exp)
            assert answer.status_code == status, (exp, answer.text)


async def test_tokens_with_invalid_headers_are_refused(guarded: Guarded) -> None:
    good = sign().split(".")
    wrong = (b"[]", b"7", b"{}", b'{"alg":["HS256"]}', b'{"alg":7}', b"[" * 5000, bytes([255]))
    async with guarded.client(None) as client:
        for header in wrong:
            token = ".".join([encode_part(header), *good[1:]])
            answer = await client.get(
                "/resources/queues", headers={"Authorization": f"Bearer {token}"}
            )
            assert answer.status_code == 401, (header[:20], answer.text)


async def test_producer_is_the_subject_of_the_token(guarded: Guarded, name: str) -> None:
    token = sign(["read-only", "read-write"])
    async with open_client(guarded.url, bearer_token=token) as queen:
        await queen.queue(name).push([{"data": {"producerSub": "eve"}, "producerSub": "eve"}])
        [message] = await queen.queue(name).batch(1).wait(False).pop()
    assert message["producerSub"] == "ada"


async def test_tokens_with_other_signatures_are_refused(guarded: Guarded) -> None:
    other = ed25519.Ed25519PrivateKey.generate()
    unsigned = jwt.encode({"sub": "eve", "role": "admin"}, "", algorithm="none")
    refused = {
        "expired": sign(exp=time.time() - 3600),
        "of another issuer": sign(iss="nobody"),
        "for others": sign(aud="nobody"),
        "of another secret": sign(key="another secret of thirty-two bytes"),
        "of another key": sign(key=other, kind="EdDSA"),
        "unsigned": unsigned,
        "of a kind without a key": sign(key=rsa_key(), kind="RS256"),
        "signed with the public key as a secret": "x." + sign().split(".", 1)[1],
        "broken": "a.b.c",
    }
    for what, token in refused.items():
        async with guarded.client(token) as client:
            answer = await client.get("/resources/queues")
        assert answer.status_code == 401, what
    async with guarded.client(sign(key=guarded.key, kind="EdDSA")) as client:
        assert (await client.get("/resources/queues")).status_code == 200


def test_rsa_signatures_are_checked_too() -> None:
    key = rsa_key()
    tokens = Tokens(TokenSettings(public_key=write_public(key)))
    identity = tokens.verify(sign("admin", key=key, kind="RS256").encode())
    assert (identity.subject, str(identity.role)) == ("ada", "admin")


def test_cached_token_is_refused_after_its_expiry() -> None:
    tokens = Tokens(TokenSettings(secret=SECRET))
    good, old = sign().encode(), sign(exp=time.time() - 5).encode()
    for token in (good, old):
        assert tokens.recall(token) is None
        tokens.verify(token)
    assert tokens.recall(good) is not None
    assert tokens.recall(old) is None


def test_unusable_keys_are_refused_at_start() -> None:
    for settings in (
        TokenSettings(secret="short"),  # noqa: S106 - of nobody
        TokenSettings(public_key="-----BEGIN nothing"),
        TokenSettings(public_key=write_public(ec.generate_private_key(ec.SECP256R1()))),
    ):
        with pytest.raises(KeyUnusable):
            Tokens(settings)


def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def write_public(key: Any) -> str:
    pem: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return pem.decode()


async def test_a_server_does_not_start_with_a_key_it_cannot_use(
    shared: Shared, tmp_path: Path
) -> None:
    key = tmp_path / "key.pem"
    key.write_text(write_public(ed25519.Ed25519PrivateKey.generate()))
    async with (
        run_laneway(shared.dsn, JWT_PUBLIC_KEY=str(key)) as running,
        httpx.AsyncClient(base_url=f"{running.url}/api/v1") as client,
    ):
        assert (await client.get("/resources/queues")).status_code == 401
    for environment in (
        {"JWT_SECRET": "short"},
        {"JWT_PUBLIC_KEY": "/no/such/file"},
        {"QUEEN_ENCRYPTION_KEY": "ab"},
    ):
        with pytest.raises(AssertionError, match=next(iter(environment))):
            async with run_laneway(shared.dsn, **environment):
                pass
