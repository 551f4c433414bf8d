"""The layer of quotas: it charges requests, and mutes connections that are over a quota.

The answer is sent at once, with the throttle time; then the connection is muted for that time (KIP-219). A request
that is over two quotas waits for the longer time, not for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from functools import partial
from typing import Any, Final

from purgatorio.broker.layers.quotas.client_rates import ClientAccounts, ClientBuckets, ClientRates
from purgatorio.broker.layers.quotas.entities import Limit
from purgatorio.broker.layers.quotas.throttle import QuotaKind, Throttle, ThrottleTimes, larger
from purgatorio.broker.layers.quotas.throttled_channel import Muting
from purgatorio.broker.routing.replies import message_of, throttled
from purgatorio.broker.routing.request import Handler, Reply, RequestContext, is_of_broker
from purgatorio.broker.time.rates import Rate
from purgatorio.late import dataclass
from purgatorio.logger import get_logger
from purgatorio.protocol.api import encode_response
from purgatorio.protocol.api_key import ApiKey
from purgatorio.protocol.messages.add_partitions_to_txn import BROKERS_VERSION
from purgatorio.protocol.messages.fetch import FetchResponse, is_full, replica_of
from purgatorio.purgatory.clock import Clock

_log = get_logger(__name__)
PERCENT: Final = 100.0

Withheld = Callable[[FetchResponse, bool], object]
"""Called with the response to a fetch that the client does not get, and whether the request named all its partitions,
so that the client takes its session for ended."""


@dataclass(slots=True, kw_only=True)
class ClientCharges:
    """The usage of one broker's clients, by quota.

    Attributes:
        request: in percent of the event loop's time.
        mutations: partitions that are created, added or deleted.
        exempt: the time of requests that no quota is about, in percent.
        times: the throttle times in answers, by API.
        muting: mutes connections.
        clock: the broker's, which is a stopwatch of handlers, too.
        knows_brokers: whether the brokers log in to each other; otherwise a request that claims to be a broker's is
            believed.
    """

    produce: ClientRates
    fetch: ClientRates
    request: ClientRates
    mutations: ClientBuckets
    exempt: Rate
    muting: Muting
    clock: Clock
    knows_brokers: bool
    times: ThrottleTimes = field(default_factory=ThrottleTimes)

    def __post_init__(self) -> None:
        self.muting.when_released = lambda throttle: self.of(throttle.kind).released(throttle)

    def of(self, kind: QuotaKind) -> ClientAccounts[Any]:
        """Return the accounts of one kind of quota."""
        every: tuple[ClientAccounts[Any], ...] = (self.produce, self.fetch, self.request, self.mutations)
        return next(each for each in every if each.kind is kind)

    def charge(self, rates: ClientRates, ctx: RequestContext, amount: float) -> Throttle | None:
        """Charge a request; return how its client is throttled."""
        limit = rates.limit(ctx.session.principal.name, ctx.client_id or "")
        return None if limit is None else rates.charge(limit, amount)

    def fit(self, ctx: RequestContext, request: Any) -> Limit | None:
        """Let a fetch ask for no more bytes than its client's limit, which is returned, allows in a window."""
        limit = self.fetch.limit(ctx.session.principal.name, ctx.client_id or "")
        if limit is not None:
            most_bytes = max(1, int(min(2**31 - 1, limit.value * self.fetch.window.full_ms / 1_000)))
            request.max_bytes = min(request.max_bytes, most_bytes)
            request.min_bytes = min(request.min_bytes, most_bytes)
        return limit

    def charge_time(self, ctx: RequestContext, seconds: float) -> Throttle | None:
        """Charge the time of a request; return how its client is throttled."""
        return self.charge(self.request, ctx, seconds * PERCENT)

    def spend_exempt(self, seconds: float) -> None:
        """Count the time of a request that no quota is about."""
        self.exempt.record(seconds * PERCENT, self.clock.now_ms())

    def mute(self, ctx: RequestContext, throttle: Throttle) -> None:
        """Mute a client's connection, and count it."""
        self.of(throttle.kind).throttled(throttle)
        self.times.count(ctx.api_key, throttle.delay_ms)
        self.muting.mute(ctx.session, throttle)

    def held(self, ctx: RequestContext, accounts: Iterable[ClientAccounts[Any]]) -> Throttle | None:
        """Return for how long a request has to wait: its client is muted, but by another connection."""
        held: Throttle | None = None
        if ctx.session.throttled_by is None:  # otherwise the request was started before its connection was muted
            for each in accounts:
                limit = each.limit(ctx.session.principal.name, ctx.client_id or "")
                if limit is not None:
                    held = larger(held, each.mute_of(limit))
        return held


class ChargedApi:
    """Stands before the handler of one API, and charges the time that its requests take.

    Args:
        charges: of the broker.
        handler: the API's own.
    """

    __slots__ = ("_handler", "charges")

    def __init__(self, charges: ClientCharges, handler: Handler) -> None:
        self.charges = charges
        self._handler = handler

    def __call__(self, ctx: RequestContext, request: Any, reply: Reply) -> None:
        """Let the handler work on a request, now or when its client is not muted any more, and charge its answer."""
        held = self.charges.held(ctx, self.accounts(ctx, request))
        if held is None:
            self.start(ctx, request, reply)
        else:
            self.charges.muting.mute(ctx.session, held, partial(self._start_held, ctx, request, reply))

    def _start_held(self, ctx: RequestContext, request: Any, reply: Reply) -> None:
        try:
            self.start(ctx, request, reply)
        except Exception:  # a bug in a handler costs the connection that met it, and no other
            _log.exception("handler failed", peer=ctx.session.peer, api_key=ctx.api_key, version=ctx.api_version)
            reply.close("the handler failed")

    def start(self, ctx: RequestContext, request: Any, reply: Reply) -> None:
        """Let the handler work on a request, and charge its answer."""
        ChargedRequest(self, ctx, self.before(ctx, request), reply).begin(self._handler, request)

    def accounts(self, ctx: RequestContext, request: Any) -> tuple[ClientAccounts[Any], ...]:
        """Return the accounts under which a request of a muted client has to wait.

        They are those of the quotas that are about the API, and no others: a producer that is muted keeps its
        memberships in groups alive.
        """
        return (self.charges.request,)

    def before(self, ctx: RequestContext, request: Any) -> Any:
        """Return facts about a request for `judge`; the request itself may be large, and is not kept."""
        return None

    def judge(self, ctx: RequestContext, known: Any, response: Any, seconds: float) -> tuple[Any, Throttle | None]:
        """Charge a request; return the response to send, and how its client is throttled.

        Args:
            known: what `before` returned.
            response: the handler's; None if it sends none.
            seconds: that the handler took.
        """
        return response, self.charges.charge_time(ctx, seconds)

    def spend_late(self, ctx: RequestContext, known: Any, seconds: float) -> None:
        """Charge time that was spent on an answer after its throttle time was set: the next request pays for it."""
        self.charges.charge_time(ctx, seconds)


class ChargedRequest:
    """One request, from the call of its handler to its answer; the `Reply` that the handler gets.

    It counts the time of the handler, and that of all steps of an answer that is made in steps: a `Stopwatch`.
    """

    __slots__ = ("_api", "_ctx", "_is_judged", "_known", "_reply", "_seconds", "_since_seconds")

    def __init__(self, api: ChargedApi, ctx: RequestContext, known: Any, reply: Reply) -> None:
        self._api = api
        self._ctx = ctx
        self._known = known
        self._reply = reply
        self._is_judged = False
        self._seconds = 0.0
        self._since_seconds = api.charges.clock.now_seconds()

    def begin(self, handler: Handler, request: Any) -> None:
        """Let the handler work on the request."""
        session = self._ctx.session
        before, session.timed_by = session.timed_by, self
        try:
            handler(self._ctx, request, self)
        finally:
            session.timed_by = before
        self.paused()

    def resumed(self) -> None:
        """Begin to count: a step of the request is taken."""
        self._since_seconds = self._api.charges.clock.now_seconds()

    def paused(self) -> None:
        """Count no more: the handler has answered, or the request waits for an event or for its next step."""
        since_seconds, self._since_seconds = self._since_seconds, -1.0
        if since_seconds < 0:
            return
        seconds = max(0.0, self._api.charges.clock.now_seconds() - since_seconds)
        if self._is_judged:
            self._api.spend_late(self._ctx, self._known, seconds)
        else:
            self._seconds += seconds

    def __call__(self, response: Any) -> None:
        """Charge, answer, and then mute."""
        response, throttle = self._judge(response)
        if throttle is None:
            self._reply(response)
        else:
            self._reply(throttled(message_of(self._ctx, response), throttle.delay_ms))
            self._api.charges.mute(self._ctx, throttle)

    def nothing(self) -> None:
        """Charge, and mute: the client gets no answer, but is muted all the same."""
        _, throttle = self._judge(None)
        self._reply.nothing()
        if throttle is not None:
            self._api.charges.mute(self._ctx, throttle)

    def close(self, reason: str) -> None:
        """Charge, and close the connection as the handler wants."""
        self._judge(None)
        self._reply.close(reason)

    def _judge(self, response: Any) -> tuple[Any, Throttle | None]:
        self.paused()
        self._is_judged = True
        return self._api.judge(self._ctx, self._known, response, self._seconds)


class ChargedProduce(ChargedApi):
    """Charges the bytes of Produce requests when their answers are ready, those of failed ones too (KIP-13)."""

    __slots__ = ()

    def accounts(self, ctx: RequestContext, request: Any) -> tuple[ClientAccounts[Any], ...]:
        return self.charges.produce, self.charges.request

    def judge(self, ctx: RequestContext, known: Any, response: Any, seconds: float) -> tuple[Any, Throttle | None]:
        """Charge the bytes, and the time only of a request that has an answer (not of acks=0)."""
        charges = self.charges
        over_bytes = charges.charge(charges.produce, ctx, ctx.request_bytes)
        if response is None:
            charges.spend_exempt(seconds)
            return response, over_bytes
        return response, larger(over_bytes, charges.charge_time(ctx, seconds))


class ChargedFetch(ChargedApi):
    """Charges the bytes of answers to consumers (KIP-13). A consumer that is over gets an empty answer instead.

    Args:
        withheld: see `Withheld`.
    """

    __slots__ = ("_withheld",)

    def __init__(self, charges: ClientCharges, handler: Handler, withheld: Withheld) -> None:
        super().__init__(charges, handler)
        self._withheld = withheld

    def accounts(self, ctx: RequestContext, request: Any) -> tuple[ClientAccounts[Any], ...]:
        """Name the accounts; a consumer above its byte rate is answered, but by no records."""
        return () if replica_of(request) >= 0 else (self.charges.request,)

    def before(self, ctx: RequestContext, request: Any) -> Any:
        """Let a fetch take no more than the limit allows in a window (KAFKA-9677).

        Returns:
            Whether the request names all its partitions; None if a follower sent it.
        """
        if replica_of(request) >= 0:
            return None
        self.charges.fit(ctx, request)
        return is_full(request)

    def judge(self, ctx: RequestContext, known: Any, response: Any, seconds: float) -> tuple[Any, Throttle | None]:
        """Charge the bytes of the answer, or withhold its records.

        A single batch may be larger than all that the limit allows in a window. It would never pass, in Kafka: here a
        client that used nothing lately gets it, and waits afterwards.
        """
        charges = self.charges
        if known is None:
            charges.spend_exempt(seconds)
            return response, None
        over_time = charges.charge_time(ctx, seconds)
        limit = charges.fetch.limit(ctx.session.principal.name, ctx.client_id or "")
        over_bytes, is_first, size_bytes = None, False, 0
        if limit is not None:
            size_bytes = sum(map(len, encode_response(ctx.api_key, ctx.api_version, 0, response)))
            is_first = charges.fetch.is_unused(limit)
            over_bytes = charges.fetch.charge(limit, size_bytes)
        if over_time is None and (over_bytes is None or is_first):
            return response, over_bytes
        if limit is not None:
            charges.fetch.take_back(limit, size_bytes)
        return self._emptied(response, known), larger(over_bytes, over_time)

    def spend_late(self, ctx: RequestContext, known: Any, seconds: float) -> None:
        if known is None:
            self.charges.spend_exempt(seconds)
        else:
            self.charges.charge_time(ctx, seconds)

    def _emptied(self, response: Any, was_full: bool) -> Any:
        """Return an answer without topics, for the same fetch session if it goes on (KAFKA-6946)."""
        if not isinstance(response, FetchResponse) or response.error_code:
            return response
        self._withheld(response, was_full)
        return FetchResponse(session_id=0 if was_full else response.session_id)


class ChargedShareFetch(ChargedApi):
    """Charges the bytes of answers to members of share groups, which consumer_byte_rate is about.

    A member that is over acquires nothing, so that its records go to others: Kafka withholds them when it has acquired
    them, until their lock runs out. Acquired records are sent, and the member waits afterwards.
    """

    __slots__ = ()

    def before(self, ctx: RequestContext, request: Any) -> Any:
        """Let a fetch take no more than the limit allows in a window, and nothing of a client that is over."""
        limit = self.charges.fit(ctx, request)
        if limit is not None and self.charges.fetch.is_over(limit):
            request.max_records = 0

    def judge(self, ctx: RequestContext, known: Any, response: Any, seconds: float) -> tuple[Any, Throttle | None]:
        charges = self.charges
        over_time = charges.charge_time(ctx, seconds)
        limit = charges.fetch.limit(ctx.session.principal.name, ctx.client_id or "")
        if limit is None or response is None:
            return response, over_time
        size_bytes = sum(map(len, encode_response(ctx.api_key, ctx.api_version, 0, response)))
        return response, larger(charges.fetch.charge(limit, size_bytes), over_time)


class ExemptApi(ChargedApi):
    """Times the requests of brokers among each other, which no quota is about."""

    __slots__ = ()

    def accounts(self, ctx: RequestContext, request: Any) -> tuple[ClientAccounts[Any], ...]:
        return ()

    def judge(self, ctx: RequestContext, known: Any, response: Any, seconds: float) -> tuple[Any, Throttle | None]:
        self.charges.spend_exempt(seconds)
        return response, None

    def spend_late(self, ctx: RequestContext, known: Any, seconds: float) -> None:
        self.charges.spend_exempt(seconds)


class ChargedUnlessBroker(ChargedApi):
    """Charges the time of requests that brokers send as well, but not theirs."""

    __slots__ = ()

    def accounts(self, ctx: RequestContext, request: Any) -> tuple[ClientAccounts[Any], ...]:
        return () if self.before(ctx, request) else (self.charges.request,)

    def before(self, ctx: RequestContext, request: Any) -> Any:
        """Return whether a broker sent the request."""
        if self.charges.knows_brokers:
            return ctx.session.principal.is_broker
        if ctx.api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
            return ctx.api_version >= BROKERS_VERSION and is_of_broker(ctx.client_id or "")
        return request.replica_id >= 0

    def judge(self, ctx: RequestContext, known: Any, response: Any, seconds: float) -> tuple[Any, Throttle | None]:
        if not known:
            return response, self.charges.charge_time(ctx, seconds)
        self.charges.spend_exempt(seconds)
        return response, None

    def spend_late(self, ctx: RequestContext, known: Any, seconds: float) -> None:
        if known:
            self.charges.spend_exempt(seconds)
        else:
            self.charges.charge_time(ctx, seconds)
