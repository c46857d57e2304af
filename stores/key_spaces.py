"""How a key of the suite becomes a key in one of several key spaces of one database.

Some packages give a user many key spaces that share a database, a commit and an offset: prefixes,
as the state of each message key is, or column families. The contract has no such word. An adapter
for them cuts each key in two: the beginning names the key space, and the rest is the key in there.
Then everything that is asked of keys is asked of several key spaces in one commit.
"""

from __future__ import annotations

from zlib import crc32

__all__ = ["cut"]


def cut(key: bytes) -> tuple[bytes, bytes]:
    """A key as the name of its key space and its key in there; both may be empty.

    Different keys give different pairs, because a pair put together again is the key. Where a key
    is cut depends on all of it, so that keys with one beginning lie in different key spaces.
    """
    end = crc32(key) % (len(key) + 1)
    return key[:end], key[end:]
