"""A connection to Flickr's photo search: rate limit, retries, and errors in words."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from unseen.validation import check_count, check_number

BASE_URL = "https://api.flickr.com/services/rest/"
INVALID_KEY = 100
_TEMPORARY = {0, 10, 105, 106}  # Flickr's codes for a service that is not available right now
_LONGEST_WAIT = 60.0


class FlickrError(ConnectionError):
    """Flickr cannot be reached, or does not answer the question."""


class _TemporaryError(Exception):
    """A failure that may pass; `wait` is what the server asked for, in seconds."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class FlickrAPI:
    """Photo search of Flickr.

    Parameters
    ----------
    api_key : str
        Key of the Flickr API.
    base_url : str, default="https://api.flickr.com/services/rest/"
        Where the API is.
    per_hour : float, default=3600
        Most requests an hour, evenly spaced.
    retries : int, default=5
        How often a question is asked again when the server fails, is too busy, or says something that is no
        answer. The wait doubles each time, from one second up to a minute; a server may ask for a longer one.
    timeout : float, default=30
        Seconds to wait for an answer.
    clock, sleep : callable
        The time in seconds, and how to wait.
    """

    def __init__(
        self,
        api_key: str | None,
        *,
        base_url: str = BASE_URL,
        per_hour: float = 3600,
        retries: int = 5,
        timeout: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        if not api_key or not api_key.strip():
            raise ValueError(
                "api_key: no key was given. Get one at https://www.flickr.com/services/apps/create/ and pass it, "
                "or set FLICKR_API_KEY."
            )
        if urlsplit(base_url).scheme not in ("http", "https"):
            raise ValueError(f"base_url: {base_url!r} was given. Pass an address that begins with https://.")
        self._api_key = api_key.strip()
        self._base_url = base_url
        self._interval = 3600.0 / check_number(per_hour, "per_hour", strict=True)
        self._retries = check_count(retries, "retries", low=0)
        self._timeout = check_number(timeout, "timeout", strict=True)
        self._clock, self._sleep = clock, sleep
        self._next = -float("inf")

    def count_photos(self, asked: Mapping[str, str]) -> int:
        """Total of a photo search.

        Parameters
        ----------
        asked : mapping of str to str
            Arguments of ``flickr.photos.search``, without the key.

        Returns
        -------
        int

        Raises
        ------
        ValueError
            If Flickr refuses the key.
        FlickrError
            If it does not answer the question.
        """
        for attempt in range(self._retries + 1):
            self._wait_for_turn()
            try:
                return self._total(self._request(asked))
            except _TemporaryError as problem:
                reason = str(problem)
                if attempt < self._retries:
                    self._sleep(max(min(2.0**attempt, _LONGEST_WAIT), problem.wait))
        raise FlickrError(
            f"Flickr gave no answer to {dict(asked)} in {self._retries + 1} tries: {reason}. "
            f"What it has answered so far is kept: run the same again later to go on."
        )

    def _wait_for_turn(self) -> None:
        wait = self._next - self._clock()
        if wait > 0:
            self._sleep(wait)
        self._next = self._clock() + self._interval

    def _request(self, asked: Mapping[str, str]) -> bytes:
        query = {
            "method": "flickr.photos.search",
            "api_key": self._api_key,
            "format": "json",
            "nojsoncallback": "1",
            "per_page": "1",
            **asked,
        }
        request = Request(f"{self._base_url}?{urlencode(query)}", headers={"User-Agent": "unseen"})
        try:
            with urlopen(request, timeout=self._timeout) as response:
                content: bytes = response.read()
                return content
        except HTTPError as error:
            with error:
                said = f"HTTP status {error.code} {error.reason}"
                if error.code == 429 or error.code >= 500:
                    raise _TemporaryError(said, _retry_after(error.headers.get("Retry-After"))) from None
            raise FlickrError(f"Flickr refuses the question {dict(asked)}: {said}.") from None
        except (OSError, HTTPException) as error:  # no connection, a time-out, a connection cut off
            raise _TemporaryError(f"{type(error).__name__}: {error}") from None

    def _total(self, content: bytes) -> int:
        try:
            answer = json.loads(content)
        except ValueError:
            raise _TemporaryError(f"an answer that is no JSON, {content[:60]!r}") from None
        if isinstance(answer, dict) and answer.get("stat") == "fail":
            self._fail(answer)
        try:
            total = int(answer["photos"]["total"])  # Flickr writes it as a string, or as a number
        except (KeyError, TypeError, ValueError):
            raise _TemporaryError(f"an answer without photos.total, {content[:60]!r}") from None
        if total < 0:
            raise _TemporaryError(f"a total of {total} photos")
        return total

    def _fail(self, answer: Mapping[str, Any]) -> None:
        """Raise what Flickr's error envelope says: the key is wrong, try again later, or give up."""
        code, message = answer.get("code"), answer.get("message")
        if str(code) == str(INVALID_KEY):
            raise ValueError(
                f"api_key: Flickr refuses the key: {message}. Check it at https://www.flickr.com/services/apps/by/me."
            )
        said = f"Flickr's error {code}: {message}"
        if str(code) in map(str, _TEMPORARY):
            raise _TemporaryError(said)
        raise FlickrError(f"The question cannot be answered. {said}.")


def _retry_after(value: str | None) -> float:
    """Seconds that a server asks to wait; at most an hour, and none if it names a date."""
    return min(float(value), 3600.0) if value is not None and value.strip().isdigit() else 0.0
