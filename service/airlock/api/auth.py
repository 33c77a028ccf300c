"""Who makes a request. Only hashes of the keys are kept."""

import hmac
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from airlock.api.keys import DEFAULT_TENANT, BadKeys, Key, digest, parse_keys, read_keys
from airlock.errors import Forbidden, Unauthorized
from airlock.model import Principal
from airlock.settings import LOOPBACK, Settings


class Keyring:
    """With None for keys, nobody needs one."""

    def __init__(self, keys: Iterable[Key] | None) -> None:
        self._keys = None if keys is None else [(key.sha256, key.principal) for key in keys]

    @classmethod
    def of(cls, settings: Settings) -> "Keyring":
        """The keys of the settings. BadKeys if they can't be understood."""
        text, file = settings.api_keys.get_secret_value(), settings.api_keys_file
        if not text and file is None:
            return cls(None)
        keys = [*parse_keys(text), *(read_keys(file) if file else ())]
        if not keys:
            raise BadKeys("there is no key in AIRLOCK_API_KEYS or the key file: nobody could call")
        return cls(keys)

    @property
    def is_open(self) -> bool:
        return self._keys is None

    def principal(self, headers: Mapping[str, str]) -> Principal:
        if self._keys is None:
            _refuse_web_pages(headers.get("origin"))
            return Principal(DEFAULT_TENANT)
        presented = digest(_presented(headers))
        # Every key is compared, and each in constant time: how long it takes tells nothing of them.
        matches = [principal for known, principal in self._keys if hmac.compare_digest(known, presented)]
        if not matches:
            raise Unauthorized("This API key is not known; check it, or ask the operator for a new one.")
        return matches[0]


def _presented(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    key = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
    if not key:
        raise Unauthorized("An API key is needed: send `Authorization: Bearer KEY` or `X-API-Key: KEY`.")
    return key


def _refuse_web_pages(origin: str | None) -> None:
    """With no key, any page in a browser on this machine could call us; browsers say whose page it is."""
    if origin is None:
        return
    try:
        host = urlsplit(origin).hostname
    except ValueError:
        host = None
    if host not in LOOPBACK:
        raise Forbidden("A web page of another origin can't call a service that has no API key.")
