"""Session memory in Redis, shared by all processes.

One hash a key, so that it expires and is cleared as a whole: fields ``m:{mark}``, ``v:{length of name}:{name}:{value}``
(holds the place in the list) and ``c:{name}`` (a counter). Each operation that writes is one script, hence atomic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from clients.interfaces import ClientError, ClientTimeout, PartHealth
from clients.masking import mask_credentials
from clients.redis_connection import open_redis

PREFIX = "kbsite:memory:"
HINT = "Is Redis running, and does REDIS_URL name it? Without REDIS_URL the memory is kept in the process."

# ARGV: ttl in ms, how many sets, then each set as its size and its fields, then the fields to mark.
_CLAIM = """
local at = 3
for _ = 1, tonumber(ARGV[2]) do
  local size = tonumber(ARGV[at])
  local missing = size == 0
  for place = at + 1, at + size do
    if redis.call('HEXISTS', KEYS[1], ARGV[place]) == 0 then missing = true end
  end
  if not missing then return 0 end
  at = at + size + 1
end
for place = at, #ARGV do redis.call('HSET', KEYS[1], ARGV[place], 1) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
"""
# ARGV: ttl in ms, then the fields to take back.
_RELEASE = """
for place = 2, #ARGV do redis.call('HDEL', KEYS[1], ARGV[place]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])
"""
# ARGV: ttl in ms, the field. The counter in field n gives each append its place.
_APPEND = """
local place = redis.call('HINCRBY', KEYS[1], 'n', 1)
local new = redis.call('HSETNX', KEYS[1], ARGV[2], place)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return new
"""
# ARGV: ttl in ms, the field, by how much.
_INCREMENT = """
local value = redis.call('HINCRBY', KEYS[1], ARGV[2], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return value
"""


class RedisSessionMemory:
    """Session memory on the Redis at ``url``. ``ttl`` is in seconds; ``timeout`` bounds connecting and each answer.

    Raises ``ClientError`` (``memory_unavailable``) where Redis is away or refuses, ``ClientTimeout``
    (``memory_timeout``) where it does not answer in time.
    """

    def __init__(self, url: str, *, ttl: float, prefix: str = PREFIX, timeout: float = 1.0) -> None:
        self._url = url
        self._prefix = prefix
        self._ttl = max(1, int(ttl * 1000))
        self._redis = open_redis(url, timeout=timeout, decode_responses=True, encoding_errors="surrogatepass")
        self._claim = self._redis.register_script(_CLAIM)
        self._release = self._redis.register_script(_RELEASE)
        self._append = self._redis.register_script(_APPEND)
        self._increment = self._redis.register_script(_INCREMENT)

    def claim(self, key: str, *, unless: Sequence[frozenset[str]], marks: Sequence[str]) -> bool:
        """Mark ``marks`` unless one of the sets is already wholly marked; atomic. True when it marked."""
        arguments: list[str | int] = [self._ttl, len(unless)]
        for one in unless:
            arguments += [len(one), *(_mark(mark) for mark in sorted(one))]
        arguments += [_mark(mark) for mark in marks]
        with self._translated():
            return bool(self._claim(keys=[self._key(key)], args=arguments))

    def release(self, key: str, marks: Sequence[str]) -> None:
        """Take marks back."""
        with self._translated():
            self._release(keys=[self._key(key)], args=[self._ttl, *(_mark(mark) for mark in marks)])

    def marked(self, key: str) -> frozenset[str]:
        """All marks."""
        return frozenset(name.removeprefix("m:") for name in self._fields(key) if name.startswith("m:"))

    def append(self, key: str, name: str, value: str) -> bool:
        """Add a value to an ordered list of distinct values. True when it was new."""
        with self._translated():
            return bool(self._append(keys=[self._key(key)], args=[self._ttl, _list(name) + value]))

    def values(self, key: str, name: str) -> list[str]:
        """The list's values, in the order of their first append."""
        begin = _list(name)
        found = [(int(place), field) for field, place in self._fields(key).items() if field.startswith(begin)]
        return [field.removeprefix(begin) for _place, field in sorted(found)]

    def increment(self, key: str, name: str, by: int = 1) -> int:
        """Add to a counter and give its new value; atomic. ``by=0`` reads it."""
        with self._translated():
            if by == 0:
                return int(str(self._redis.hget(self._key(key), f"c:{name}") or 0))
            return int(self._increment(keys=[self._key(key)], args=[self._ttl, f"c:{name}", by]))

    def clear(self, key: str) -> None:
        """Forget everything of this key."""
        with self._translated():
            self._redis.delete(self._key(key))

    def health(self) -> PartHealth:
        """Ok, or down with the reason. Never raises."""
        try:
            with self._translated():
                self._redis.ping()
        except ClientError as error:
            return PartHealth("down", f"{error} {error.hint}")
        return PartHealth("ok")

    def close(self) -> None:
        """Let go of the connections."""
        self._redis.close()

    def _key(self, key: str) -> str:
        return f"{self._prefix}{key}"

    def _fields(self, key: str) -> dict[str, str]:
        with self._translated():
            found = self._redis.hgetall(self._key(key))
        return {str(name): str(value) for name, value in dict(found).items()}

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except RedisTimeoutError as error:
            raise ClientTimeout(
                f"Redis at {mask_credentials(self._url)} did not answer in time.", code="memory_timeout", hint=HINT
            ) from error
        except (RedisError, OSError) as error:
            raise ClientError(
                f"Redis at {mask_credentials(self._url)} failed: {mask_credentials(' '.join(str(error).split()))}",
                code="memory_unavailable",
                retryable=True,
                hint=HINT,
            ) from error


def _mark(mark: str) -> str:
    return f"m:{mark}"


def _list(name: str) -> str:
    return f"v:{len(name)}:{name}:"
