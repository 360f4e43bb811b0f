"""What every request passes: who may ask, how much, how long, and what browsers may do with the answer."""

import asyncio
import hmac
import json
import time
from collections.abc import Callable
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.exceptions import HTTPException

LOCAL = ("127.0.0.1", "localhost", "::1")
COOKIE = "unseen-token"
SAFE = ("GET", "HEAD", "OPTIONS")
OPEN = ("/livez", "/readyz")  # for health checks, without a token
TOO_LARGE = "The request is too large. Send fewer or smaller photos."
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class TooLarge(HTTPException):
    """The body of a request has more bytes than allowed."""


class Guard:
    """ASGI middleware: Host and Origin, the token, limits of bytes and seconds, headers, and figures for /metrics.

    A page of another site can make a browser send requests here, by DNS rebinding even under its own name: so the
    Host must be one of ours and, for all that changes something, the Origin too.
    """

    def __init__(
        self,
        app: Any,
        *,
        hosts: tuple[str, ...] = LOCAL,
        token: str | None = None,
        most_bytes: int = 64 * 2**20,
        most_seconds: float = 60.0,
        observe: Callable[[str, int, float], None] = lambda path, status, seconds: None,
    ) -> None:
        self.app, self.hosts, self.token = app, hosts, token
        self.most_bytes, self.most_seconds, self.observe = most_bytes, most_seconds, observe

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        started, status, n_bytes, began = time.perf_counter(), 500, 0, False

        async def limited() -> Any:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > self.most_bytes:
                raise TooLarge(413)
            return message

        async def answer(message: Any) -> None:
            nonlocal status, began
            if message["type"] == "http.response.start":
                status, began = message["status"], True
                given = {name.lower() for name, _ in message["headers"]}
                extra = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                if b"cache-control" not in given:
                    extra.append((b"cache-control", b"no-store"))
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        try:
            refused = self._refused(scope, headers)
            if refused is not None:
                await refuse(answer, *refused)
            elif int(headers.get("content-length") or 0) > self.most_bytes:
                await refuse(answer, 413, "too_large", TOO_LARGE)
            else:
                is_download = scope["path"].startswith("/v1/export.")
                async with asyncio.timeout(None if is_download else self.most_seconds):
                    await self.app(scope, limited, answer)
        except TimeoutError:
            if began:
                raise
            await refuse(answer, 408, "too_slow", "The request took too long. Send fewer photos at a time.")
        finally:
            route = scope.get("route")
            self.observe(getattr(route, "path", "other"), status, time.perf_counter() - started)

    def _refused(self, scope: Any, headers: dict[str, str]) -> tuple[int, str, str] | None:
        """Status, code and sentence for a request that is not answered."""
        length = headers.get("content-length", "0")
        if not length.isdigit():
            return 400, "bad_length", "The Content-Length is not a number."
        host = headers.get("host", "")
        any_host = self.token is not None and "*" in self.hosts  # a page of another name has no token
        if not any_host and _name(f"//{host}") not in self.hosts:
            return 421, "wrong_host", f"This server does not answer for the host {host[:100]!r}."
        if scope["method"] not in SAFE:
            origin = headers.get("origin")
            if origin is not None and origin.partition("://")[2] != host:
                return 403, "wrong_origin", "A page of another site may not change anything here."
            if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
                return 403, "wrong_origin", "A page of another site may not change anything here."
        if self.token is not None and scope["path"] not in OPEN and not self._has_token(scope, headers):
            return 401, "no_token", "A token is needed: open the address that unseen serve has printed."
        return None

    def _has_token(self, scope: Any, headers: dict[str, str]) -> bool:
        given = [headers.get("authorization", "").removeprefix("Bearer ")]
        given += parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        with suppress(CookieError):
            cookies = SimpleCookie(headers.get("cookie", ""))
            given += [cookies[COOKIE].value] if COOKIE in cookies else []
        wanted = str(self.token).encode()
        return any(hmac.compare_digest(one.encode("utf-8", "replace"), wanted) for one in given)


def _name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


async def refuse(send: Any, status: int, code: str, message: str) -> None:
    """Answer with an error."""
    body = json.dumps({"error": {"code": code, "message": message}}).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        head.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
