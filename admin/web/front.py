"""The admin HTTP of a cluster whose brokers are processes of their own: it asks them, and shows the whole.

An operation declares the processes that answer it (`Operation.answered_by`). A process that does not answer is left
out of what is shown, but for its row in the list of brokers, which says so.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from purgatorio.admin.metrics.prometheus import MembershipCollector, process_registry
from purgatorio.admin.operations import brokers, purgatories, tier, why
from purgatorio.admin.operations.declare import Answer, Operation
from purgatorio.admin.operations.reading.why.facts import no_facts
from purgatorio.admin.operations.table import OPERATIONS
from purgatorio.admin.web.app import application, guarded
from purgatorio.admin.web.bodies import json_response
from purgatorio.admin.web.forwarding import ForwardedAnswer, ForwardedRequest, Unreachable
from purgatorio.admin.web.guard import check_may_change, read_body
from purgatorio.admin.web.merging import merged
from purgatorio.admin.web.router import asked_for, listing_routes
from purgatorio.admin.web.scrapes import Format, SharedScrapes, format_of, joined_metrics
from purgatorio.admin.web.server import OWN_PATH, HttpService
from purgatorio.admin.web.sharing import SharedAnswers
from purgatorio.admin.web.tokens import AdminTokens
from purgatorio.broker.causes.answers import explain
from purgatorio.broker.cluster.decisions import when_led
from purgatorio.broker.cluster.errors import (
    AwaitsElection,
    ClusterUnavailable,
    Elsewhere,
    LeaderRefuses,
    MayBeDone,
    OperationRefused,
    TimedOut,
    no_broker,
)
from purgatorio.purgatory.clock import Clock

_NOT_HERE: Final = frozenset({404, 503})
"""Answers of a process that does not have what is asked for: another one may."""
_PASSING: Final = frozenset({AwaitsElection.__name__, Elsewhere.__name__})
"""Refusals of brokers that do not lead what is asked for, while another one does or will."""
_FINAL: Final = frozenset({LeaderRefuses.__name__, MayBeDone.__name__, TimedOut.__name__})
"""Refusals after which no other process is asked: it could make the change twice, or knows less."""
_IDLE: Final[Answer] = {"connections": 0, "follower": None, "finished_total": 0, "purgatories": []}
"""The row that the page shows of a broker whose process does not answer."""
_OF_BROKERS: Final[dict[type[Operation], Answer]] = {
    purgatories.State: _IDLE,
    brokers.ListBrokers: {},
    why.Facts: {"follower": None},
}
"""Operations that list all brokers, with what is known of one whose process does not answer."""
_BY_ALL: Final = (tier.Offload, tier.VerifyTier, tier.SweepTier)
"""Operations that are refused if one of the processes refuses its part."""


class _Refused(Exception):
    """No process runs the operation; the first one's answer says why."""

    def __init__(self, reply: ForwardedAnswer) -> None:
        super().__init__(reply.body)
        self.reply = reply


class BrokerProcesses(Protocol):
    """The processes of a cluster's brokers, as its supervisor has them."""

    @property
    def clock(self) -> Clock:
        """The supervisor's clock."""

    @property
    def broker_ids(self) -> Sequence[int]:
        """The ids of all brokers, ascending."""

    @property
    def own_ids(self) -> Sequence[int]:
        """The ids of the brokers that end when this process ends, for whose readiness it speaks."""

    @property
    def active_and_fenced(self) -> tuple[int, int]:
        """How many registered brokers hold leases, and how many do not."""

    @property
    def targets(self) -> dict[int, str]:
        """The URL of each broker's own admin HTTP, without a slash at its end; of dead brokers, too."""

    async def ask(self, broker_id: int, asked: ForwardedRequest) -> ForwardedAnswer:
        """Return a process's answer to a request.

        Raises:
            Unreachable: it has ended, stands still, or does not answer in time.
        """

    def row(self, broker_id: int, known: Answer | None) -> Answer:
        """Return the row of a broker in the list of brokers; `known`: what its process says of it, None if nothing."""

    async def control(self, operation: type[Operation], broker_id: int | None) -> Answer:
        """Do what an operation does to the process of a broker, or to all of them.

        Raises:
            OperationRefused: it cannot be done to the process as it is.
        """


class Front(HttpService):
    """The admin HTTP of such a cluster.

    Args:
        processes: the brokers' processes.
        tokens: as for `HttpService`.

    Attributes:
        own: answers below `OWN_PATH`, for the broker of this process alone; None: there is none.
    """

    def __init__(self, processes: BrokerProcesses, **tokens: Any) -> None:
        super().__init__(processes.clock, **tokens)
        self.own: ASGIApp | None = None
        self._processes = processes
        self._metrics = process_registry()
        self._metrics.register(MembershipCollector(lambda: processes.active_and_fenced))
        self._shared = SharedAnswers()
        self._scrapes = SharedScrapes(self._text)

    def _create_app(self, host: str, tokens: AdminTokens | None) -> ASGIApp:
        answering = [
            Route(f"/api/v1{each.path}", partial(self._run, each, host), methods=[each.method]) for each in OPERATIONS
        ]
        own = [*listing_routes(), Route("/api/v1/targets", self._targets), *answering]
        self.app = application(self._all_metrics, self._ready, own)
        of_all = guarded(self.app, host, tokens)

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            is_below = f"{scope.get('path', '')}/".startswith(f"{OWN_PATH}/")
            await (self.own if self.own is not None and is_below else of_all)(scope, receive, send)

        return answer

    async def _close_app(self) -> None:
        """Leave the processes to their supervisor."""

    # --- operations ---

    async def _run(self, kind: type[Operation], host: str, request: Request) -> Response:
        try:
            return await self._answer(kind, host, request)
        except _Refused as refused:
            return _response(refused.reply)
        finally:
            if kind.method != "GET":
                self._shared.changed()

    async def _answer(self, kind: type[Operation], host: str, request: Request) -> Response:
        if kind.made_of is not None:
            make = partial(self._made, kind, kind.made_of, request)
            return await self._shared.answer(kind, request, make) or json_response(await make())
        body = b""
        if kind.method != "GET":
            check_may_change(request.headers, host)
            body = await read_body(request, self._clock, kind.max_body_bytes)
        asked = ForwardedRequest.of(request, body)
        broker_id = int(named) if (named := request.path_params.get("id", "")).isdecimal() else -1
        match kind.answered_by:
            case "its broker":
                return _response(await self._ask(self._known(broker_id), asked))
            case "all brokers":
                found = await self._shared.answer(kind, request, partial(self._of_all, kind, asked))
                return found or json_response(await self._of_all(kind, asked))
            case "who knows":
                return _response(await when_led(partial(self._knowing, asked)))
            case "any broker":
                return _response(await self._first(asked, unless=frozenset({503})))
            case "supervisor":
                return await self._control(kind, broker_id, asked)
        raise OperationRefused("this needs all brokers in one process: purgatorio cluster without --processes")

    def _known(self, broker_id: int) -> int:
        known = self._processes.broker_ids
        if broker_id not in known:
            raise no_broker(broker_id, known)
        return broker_id

    async def _ask(self, broker_id: int, asked: ForwardedRequest) -> ForwardedAnswer:
        try:
            return await self._processes.ask(broker_id, asked)
        except Unreachable as error:
            if error.was_asked and asked.method != "GET":
                raise _may_be_done(error) from None
            raise ClusterUnavailable(str(error)) from None

    async def _first(self, asked: ForwardedRequest, unless: frozenset[int]) -> ForwardedAnswer:
        """Return the first answer that is none of these; if all are, that which says most.

        Raises:
            MayBeDone: a process was asked for a change and does not answer; no other one is asked then.
            ClusterUnavailable: no process answers.
        """
        answers: list[ForwardedAnswer] = []
        reasons: list[str] = []
        for broker_id in self._processes.broker_ids:
            try:
                reply = await self._processes.ask(broker_id, asked)
            except Unreachable as error:
                if error.was_asked and asked.method != "GET":
                    raise _may_be_done(error) from None
                reasons.append(str(error))
                continue
            if reply.status not in unless or reply.refusal in _FINAL:
                return reply
            answers.append(reply)
        if not answers:
            raise ClusterUnavailable("; ".join(reasons))
        return max(answers, key=lambda reply: (reply.status, reply.refusal in _PASSING))

    async def _knowing(self, asked: ForwardedRequest) -> ForwardedAnswer:
        """Return the answer of the broker that leads what is asked for; an AwaitsElection while one is elected."""
        reply = await self._first(asked, unless=_NOT_HERE)
        if reply.refusal in _PASSING:
            raise AwaitsElection(json.loads(reply.body)["error"])
        return reply

    async def _asked_all(self, asked: ForwardedRequest, ids: Sequence[int] | None = None) -> dict[int, ForwardedAnswer]:
        """Return the answers of all that answer, by broker; of all brokers, or of these."""
        ids = self._processes.broker_ids if ids is None else ids
        outcomes = await asyncio.gather(*(self._processes.ask(each, asked) for each in ids), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, Unreachable):
                raise outcome
        return {each: reply for each, reply in zip(ids, outcomes, strict=True) if isinstance(reply, ForwardedAnswer)}

    async def _made(self, kind: type[Operation], source: type[Operation], request: Request) -> Answer:
        """Return the answer that an operation makes of that of another one, which all processes give."""
        asked = ForwardedRequest("GET", source.public_path(), ForwardedRequest.of(request).headers)
        return asked_for(kind, request, {}).made(await self._of_all(source, asked))

    async def _of_all(self, kind: type[Operation], asked: ForwardedRequest) -> Answer:
        answers = await self._asked_all(asked)
        done = {broker_id: reply for broker_id, reply in answers.items() if reply.status == 200}
        if not done or (kind in _BY_ALL and len(done) < len(answers)):
            if answers:
                raise _Refused(next(reply for reply in answers.values() if reply.status != 200))
            if kind is not why.Facts:
                raise ClusterUnavailable("no broker's process answers")
        answer = merged(kind, [json.loads(reply.body) for reply in done.values()]) if done else self._nothing()
        if kind in _OF_BROKERS:
            rows = {row["id"]: row for row in answer["brokers"]}
            shown = [self._processes.row(each, rows.get(each)) for each in self._processes.broker_ids]
            answer["brokers"] = [{**_OF_BROKERS[kind], **row} for row in shown]
        if kind is purgatories.State:
            explain(answer)  # anew: a process knows only its own broker
        return answer

    def _nothing(self) -> Answer:
        """Return the facts about a cluster none of whose processes answers."""
        return no_facts(self._clock.now_ms())

    async def _control(self, kind: type[Operation], broker_id: int, asked: ForwardedRequest) -> Response:
        """Do something to processes; a broker is stopped in good order by its own process first."""
        whose = None if "{id}" not in kind.path else self._known(broker_id)
        if kind is brokers.StopBroker:
            reply = await self._ask(broker_id, asked)
            if reply.status != 200:
                return _response(reply)
        return json_response(await self._processes.control(kind, whose))

    # --- for monitoring systems ---

    async def _all_metrics(self, request: Request) -> Response:
        """``GET /metrics``: those of all processes; metrics of a process have the label ``process``."""
        return await self._scrapes.answer(format_of(request.headers.get("accept", "")))

    async def _text(self, wanted: Format) -> bytes:
        texts = {"supervisor": wanted.encode(self._metrics).decode()}
        asked = ForwardedRequest("GET", "/metrics", {"accept": wanted.content_type})
        for broker_id, reply in (await self._asked_all(asked)).items():
            if reply.status == 200:
                texts[f"broker {broker_id}"] = reply.body
        return (await asyncio.to_thread(joined_metrics, texts)).encode()

    async def _ready(self, request: Request) -> Response:
        """``GET /readyz``: 200 when every own broker is ready in its process, else 503; see `own_ids`."""
        own_ids = self._processes.own_ids
        answers = await self._asked_all(ForwardedRequest.of(request), own_ids)
        missing = [each for each in own_ids if each not in answers or answers[each].status != 200]
        return json_response({"ready": not missing, "missing": missing}, status_code=503 if missing else 200)

    async def _targets(self, request: Request) -> Response:
        """``GET /api/v1/targets``: where Prometheus finds each process's own metrics, in the format of its http_sd.

        A dead broker stays, or Prometheus would forget it instead of reporting ``up == 0``.
        """
        return json_response([_target(each, url) for each, url in self._processes.targets.items()])


def _target(broker_id: int, url: str) -> Answer:
    parts = urlsplit(url)
    path = {"__metrics_path__": f"{parts.path}/metrics"} if parts.path else {}
    return {"targets": [parts.netloc], "labels": {"broker_id": str(broker_id), **path}}


def _may_be_done(error: Unreachable) -> MayBeDone:
    return MayBeDone(f"{error}; it was asked, and may have done it")


def _response(reply: ForwardedAnswer) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(reply.body, reply.status, media_type=reply.media_type, headers=headers)
