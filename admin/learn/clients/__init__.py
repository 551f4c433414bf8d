"""The clients of scenes. Each speaks to the brokers over TCP, and has facts that the page shows as figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from purgatorio.admin.learn.clients.client import Client
from purgatorio.admin.learn.clients.consumer import Consumer
from purgatorio.admin.learn.clients.member import MemberClient
from purgatorio.admin.learn.clients.modern_member import ModernMember
from purgatorio.admin.learn.clients.producer import Producer
from purgatorio.admin.learn.clients.share_member import ShareMember
from purgatorio.admin.learn.clients.timers import Timers
from purgatorio.admin.learn.clients.transactional import Transactional

KINDS: Final[dict[str, Callable[..., Client]]] = {
    "producer": Producer,
    "consumer": Consumer,
    "transactional": Transactional,
    "member": MemberClient,
    "modern member": ModernMember,
    "share member": ShareMember,
    "timers": Timers,
}
"""Makers of clients, by the kind that a scene names; a scene gives the rest as keywords."""
