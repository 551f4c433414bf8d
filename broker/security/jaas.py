"""Users of PLAIN in the form of Kafka's `sasl.jaas.config`, as brokers' property files have them."""

from __future__ import annotations

import re
from typing import Final

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_ENTRY: Final = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)(?P<options>.*?);?\s*", re.S
)
_OPTION: Final = re.compile(r"\s*(?P<name>[^\s=\"';]+)=(?:\"(?P<quoted>(?:\\.|[^\"\\])*)\"|(?P<bare>[^\s\"';]+))", re.S)
_USER: Final = "user_"


def plain_users(text: str) -> dict[str, str]:
    """Return the passwords by user: options `user_alice="alice-secret"` of the login module of PLAIN.

    Its `username` and `password` are those of brokers for each other, which have credentials of their own here.

    Raises:
        ValueError: the text is of another form, or names another login module. It is not repeated: it holds passwords.
    """
    entry = _ENTRY.fullmatch(text)
    if entry is None or entry["module"] != PLAIN_MODULE:
        raise ValueError(f'sasl.jaas.config must look like {PLAIN_MODULE} required user_alice="alice-secret";')
    users, options, position = {}, entry["options"].rstrip(), 0
    while position < len(options):
        option = _OPTION.match(options, position)
        if option is None:
            raise ValueError('sasl.jaas.config has an option that is not like user_alice="alice-secret"')
        position = option.end()
        if option["name"].startswith(_USER):
            quoted = option["quoted"]
            users[option["name"][len(_USER) :]] = option["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    return users


def listed_users(text: str) -> dict[str, str]:
    """Return the passwords by user of a setting like `alice=alice-secret,bob=bob-secret`.

    Raises:
        ValueError: an entry is of another form, or a user is there twice. Entries are not repeated in the text.
    """
    users: dict[str, str] = {}
    for number, part in enumerate(text.split(","), 1):
        name, _, password = part.strip().partition("=")
        if not name or not password or name in users:
            raise ValueError(f"sasl.users must look like alice=alice-secret,bob=bob-secret; entry {number} does not")
        users[name] = password
    return users
