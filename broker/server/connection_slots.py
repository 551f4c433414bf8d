"""How many connections clients may have open: of a broker, of one address, and before they have logged in.

A client that has not logged in costs a file, and nothing has shown yet that it means well. So it does not keep others
out: where there is no room for a new connection, the one that has waited longest without logging in is closed.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Protocol

from purgatorio.broker.server.limits import ConnectionLimits, Refusal
from purgatorio.late import dataclass

BEFORE_LOGIN_SHARE: Final = 0.25
"""The share of a broker's connections that clients without a login may have."""
MIN_BEFORE_LOGIN: Final = 64
"""As many may be logging in at once even where few connections are allowed."""


class Guest(Protocol):
    """A connection, or a TLS handshake that is to become one."""

    def make_room(self, why: str) -> None:
        """Close: another client gets the slot."""
        ...


@dataclass(slots=True, eq=False)
class Slot:
    """One of the connections that a broker allows.

    Attributes:
        host: its address.
        guest: the connection, or the TLS handshake before it, which passes the slot on to it.
        is_held: whether the guest still has it, and has to free it.
    """

    host: str
    guest: Guest
    is_held: bool = True


Refused = tuple[Refusal, str]


class ConnectionSlots:
    """The slots for connections of one broker's listeners.

    Args:
        limits: how many there are.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self._most_of = limits.max_connections_of
        self._of_host: Counter[str] = Counter()
        self._before_login: dict[Slot, None] = {}
        self._before_login_of: dict[str, dict[Slot, None]] = {}
        self._taken = 0
        self.allow(limits.max_connections, limits.max_connections_per_ip)

    @property
    def taken(self) -> int:
        """How many slots are taken."""
        return self._taken

    @property
    def before_login(self) -> int:
        """How many of them belong to clients that have not logged in."""
        return len(self._before_login)

    def allow(self, max_connections: int, max_connections_per_ip: int) -> None:
        """Change the number of slots, in all and for one address; connections beyond it stay open."""
        self._most = max_connections
        self._most_per_ip = max_connections_per_ip
        self._most_before_login = max(MIN_BEFORE_LOGIN, int(max_connections * BEFORE_LOGIN_SHARE))

    def take(self, host: str, guest: Guest) -> Slot | Refused:
        """Return a slot for a guest that has not logged in, or why there is none."""
        most_of_host = self._most_of.get(host, self._most_per_ip)
        if self._of_host[host] >= most_of_host:
            detail = f"{most_of_host} connections of {host} are open, as many as max.connections.per.ip allows"
            if not self._make_room(self._before_login_of.get(host), detail):
                return Refusal.TOO_MANY_CONNECTIONS_OF_ADDRESS, detail
        if self._taken >= self._most:
            detail = f"{self._most} connections are open, as many as max.connections and the limit of open files allow"
            if not self._make_room(self._before_login, detail):
                return Refusal.TOO_MANY_CONNECTIONS, detail
        if len(self._before_login) >= self._most_before_login:
            self._make_room(self._before_login, f"{self._most_before_login} clients have not logged in")
        slot = Slot(host, guest)
        self._taken += 1
        self._of_host[host] += 1
        self._before_login[slot] = None
        self._before_login_of.setdefault(host, {})[slot] = None
        return slot

    def logged_in(self, slot: Slot) -> None:
        """The guest of a slot has logged in: the slot is its own until it leaves."""
        if self._before_login.pop(slot, 0) is None:
            of_host = self._before_login_of[slot.host]
            del of_host[slot]
            if not of_host:
                del self._before_login_of[slot.host]

    def leave(self, slot: Slot) -> None:
        """Free a slot, if its guest did not have to before."""
        if not slot.is_held:
            return
        slot.is_held = False
        self.logged_in(slot)
        self._taken -= 1
        self._of_host[slot.host] -= 1
        if not self._of_host[slot.host]:
            del self._of_host[slot.host]

    def _make_room(self, among: dict[Slot, None] | None, why: str) -> bool:
        """Close the guest that has waited longest among those; return whether there was one."""
        if not among:
            return False
        slot = next(iter(among))
        self.leave(slot)
        slot.guest.make_room(f"{why}: of those that have not logged in, this one waited longest")
        return True
