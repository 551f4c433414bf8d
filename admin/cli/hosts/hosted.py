"""The brokers of a cluster on several hosts, as one of them sees the others: the `BrokerProcesses` of its page."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping, Sequence
from typing import Final

import httpx

from purgatorio.admin.cluster import Cluster
from purgatorio.admin.operations.control.cluster_control import KnownBroker
from purgatorio.admin.operations.declare import Answer, Operation
from purgatorio.admin.operations.reading.members import read_member
from purgatorio.admin.web.forwarding import READ_LIMIT_MS, ForwardedAnswer, ForwardedRequest, Unreachable, ask
from purgatorio.admin.web.proofs import NONCE_BYTES, SCHEME, TOLD, Proofs, asked_as
from purgatorio.broker.cluster.errors import OperationRefused
from purgatorio.broker.metadata.etcd.store import EtcdStore
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.purgatory.clock import Clock, time_limit

CONNECT_SECONDS: Final = READ_LIMIT_MS / 1000
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""The largest answer that is taken of another host, where another process may answer."""
NOT_PASSED_ON: Final = frozenset({"host", "origin"})
"""Headers that the own admin HTTP has checked; the other one would compare them with its own address."""


class _TooLarge(Exception):
    """An answer is too large; the message says so."""


class HostedBrokers:
    """All brokers of the cluster.

    Args:
        cluster: this process's broker.
        store: knows the other brokers, and where their admin HTTP is.
        token: what their admin HTTP asks for, which is not sent (`Proofs`); None: nothing.

    Attributes:
        clock: this process's clock.
    """

    def __init__(self, cluster: Cluster, store: EtcdStore, token: str | None) -> None:
        self.clock: Clock = cluster.clock
        self._cluster = cluster
        self._store = store
        self._own_id = cluster.config.broker.broker_id
        self._silent_since_ms: dict[int, int] = {}
        self._token = token
        self._client = httpx.AsyncClient(
            timeout=CONNECT_SECONDS, trust_env=False, headers={"accept-encoding": "identity"}
        )

    async def close(self) -> None:
        """Close the connections to the others."""
        await self._client.aclose()

    @property
    def broker_ids(self) -> Sequence[int]:
        """The ids of all registered brokers, and of this one, ascending."""
        return sorted({*self._store.image.brokers, self._own_id})

    @property
    def own_ids(self) -> Sequence[int]:
        """This process's broker alone: what asks a host for its readiness leaves it alone when another host fails."""
        return [self._own_id]

    @property
    def active_and_fenced(self) -> tuple[int, int]:
        """How many registered brokers hold leases, and how many do not."""
        image = self._store.image
        return len(image.live_brokers), len(image.brokers) - len(image.live_brokers)

    @property
    def targets(self) -> dict[int, str]:
        """Where the admin HTTP of each registered broker is, or was when it lived."""
        pages = self._store.last_pages
        return {each: pages[each] for each in sorted(self._store.image.brokers) if each in pages}

    async def ask(self, broker_id: int, asked: ForwardedRequest) -> ForwardedAnswer:
        """Return a broker's answer to a request.

        Raises:
            Unreachable: it does not answer, or what answers is not this broker.
        """
        if broker_id == self._own_id:
            if self._cluster.admin.app is None:
                raise Unreachable("this broker is starting")
            return await ask(self._cluster.admin.app, asked)
        page = self._store.pages.get(broker_id)
        if page is None:
            raise Unreachable(f"broker {broker_id} cannot be asked: it holds no lease")
        headers = {name: value for name, value in asked.headers.items() if name not in NOT_PASSED_ON}
        headers["host"] = "localhost"  # an admin HTTP refuses hosts that it does not know: pages of other sites
        asked_ms = self.clock.now_ms()
        try:
            request = self._client.build_request(
                asked.method,
                page + asked.target,
                headers=headers,
                content=asked.body.encode(),
                timeout=httpx.Timeout(asked.limit_ms / 1000, connect=CONNECT_SECONDS),
            )
            # httpx has a limit for each piece, by the event loop's time, as this one for all of them.
            async with time_limit(SystemClock(), asked.limit_ms + CONNECT_SECONDS * 1000):
                nonces, proofs = await self._prove(request, asked, broker_id, page)
                response, body = await self._answer(request)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            self._silent_since_ms.setdefault(broker_id, asked_ms)
            why = f"broker {broker_id} cannot be asked at {page}: {self._trouble(broker_id)}"
            was_asked = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            raise Unreachable(why, was_asked=was_asked) from error
        except _TooLarge as error:
            raise Unreachable(f"broker {broker_id} cannot be asked at {page}: {error}", was_asked=True) from None
        self._silent_since_ms.pop(broker_id, None)
        reply = ForwardedAnswer(
            response.status_code, response.headers.get("content-type", ""), body.decode(errors="replace")
        )
        proof = response.headers.get(TOLD, "").encode()
        if proofs is not None and not hmac.compare_digest(proof, proofs.of_answer(nonces, reply).encode()):
            why = f"broker {broker_id} cannot be asked at {page}: what answers there is not this broker"
            raise Unreachable(why, was_asked=True)
        return reply

    async def _answer(self, request: httpx.Request) -> tuple[httpx.Response, bytearray]:
        """Return an answer, and its body as it was sent: what is packed could be large when it is unpacked.

        Raises:
            HTTPError: there is none.
            _TooLarge: it has more than `MAX_ANSWER_BYTES`.
        """
        body = bytearray()
        response = await self._client.send(request, stream=True)
        try:
            async for part in response.aiter_raw():
                body += part
                if len(body) > MAX_ANSWER_BYTES:
                    raise _TooLarge(f"what answers there sends more than {MAX_ANSWER_BYTES} bytes")
        finally:
            await response.aclose()
        return response, body

    async def _prove(
        self, request: httpx.Request, asked: ForwardedRequest, broker_id: int, page: str
    ) -> tuple[str, Proofs | None]:
        """Have a request show that a broker asks; returns the nonces, and what the answer must show, if anything.

        Raises:
            HTTPError, _TooLarge: as `_answer`.
        """
        if self._token is None:
            return "", None
        proofs, nonce = Proofs(self._token, asked_as(broker_id, page)), secrets.token_hex(NONCE_BYTES)
        headers = {"host": "localhost", "authorization": f"{SCHEME} {nonce}"}
        answer, _ = await self._answer(self._client.build_request("GET", page, headers=headers))
        challenge = answer.headers.get("www-authenticate", "").encode("ascii", "replace").decode()
        nonces = f"{nonce}.{challenge.removeprefix(f'{SCHEME} ')}"
        sent = asked._replace(target=request.url.raw_path.decode())
        request.headers["authorization"] = f"{SCHEME} {nonces}.{proofs.of_request(nonces, sent)}"
        return nonces, proofs

    def _trouble(self, broker_id: int) -> str:
        since_ms = self._silent_since_ms.get(broker_id)
        return "" if since_ms is None else f"has not answered for {(self.clock.now_ms() - since_ms) / 1000:.0f} s"

    def row(self, broker_id: int, known: Answer | None) -> Answer:
        """Return the row of a broker in the list of brokers; its process has no id here: it gets no signals."""
        if known is not None:
            return {**known, "process": {"id": None, "trouble": ""}}
        registration = self._store.image.brokers.get(broker_id)
        lives = registration is not None and not registration.fenced
        address = (registration.endpoints[0].host, registration.endpoints[0].port) if registration else None
        member = KnownBroker(broker_id, "running" if lives else "stopped", address)
        row: Mapping[str, object] = read_member(member, None, self._store.image, paused=False)
        return {**row, "process": {"id": None, "trouble": self._trouble(broker_id) or "holds no lease"}}

    async def control(self, operation: type[Operation], broker_id: int | None) -> Answer:
        """Refuse: processes on other hosts are started and ended there."""
        raise OperationRefused(
            "the brokers are processes of several hosts: start, stop (SIGTERM), kill (SIGKILL) and pause (SIGSTOP) "
            "each of them on its own host"
        )
