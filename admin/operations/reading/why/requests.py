"""The last requests of clients, and the errors that they got: from the log of requests, which only tests have."""

from __future__ import annotations

from typing import Final

from purgatorio.admin.operations.declare import Answer
from purgatorio.broker.layers.faults.request_log import LoggedRequest, RequestLog
from purgatorio.broker.time.long_work import Steps
from purgatorio.logger import cut
from purgatorio.protocol.api_key import ApiKey

MAX_REQUESTS: Final = 50
MAX_IDLE: Final = 100
MAX_ERRORS: Final = 200
MAX_ASKED: Final = 200
MAX_TOPICS: Final = 20
"""Topics of each client."""
COST_OF_REQUEST: Final = 3
"""The cost of looking at a request (see `LongWork`)."""
IN_REBALANCE: Final = ("REBALANCE_IN_PROGRESS",)
HEARTBEATS: Final = frozenset((ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT))


def read_requests(log: RequestLog | None, document: Answer) -> Steps:
    """Add to a document what is in the log, in steps.

    `requests` are the last ones that are not idle, oldest first, and `request_count` their number: `at_ms`, `broker`,
    `api`, `client`, `topics`, `errors`, and `ended` ("waiting", "answered", "unanswered", "disconnected").
    `idle_requests` are heartbeats, and polls that found nothing: of each `api`, `client`, and alike `errors` the
    `count`, `first_ms` and `last_ms`. `errors`: of each `client`, `api`, and alike `errors`, `topics` and
    `transactional_id` (or "") the same. `asked`: of each `client` its `apis`, the `topics` of its Metadata requests,
    the name of its `software` ("": it gave none), and whether one of them `may_create` topics. `producers` that began:
    a `client` initialized `transactional_id` at `at_ms`.
    """
    requests: list[LoggedRequest] = []
    idle: dict[tuple[object, ...], Answer] = {}
    errors: dict[tuple[object, ...], Answer] = {}
    asked: dict[str, Answer] = {}
    producers: list[Answer] = []
    for each in () if log is None else list(log.entries):
        if _is_idle(each):
            _count(idle, (each.api, each.client, each.errors), MAX_IDLE, each, {"errors": list(each.errors)})
        else:
            requests.append(each)
        if each.errors:
            key = each.client, each.api, each.errors, each.topics, each.transactional_id
            names = {"topics": list(each.topics), "transactional_id": cut(each.transactional_id)}
            _count(errors, key, MAX_ERRORS, each, {"errors": list(each.errors), **names})
        elif each.api_key == ApiKey.INIT_PRODUCER_ID and each.transactional_id:
            name = cut(each.transactional_id)
            producers.append({"client": each.client, "transactional_id": name, "at_ms": each.at_ms})
        if each.client in asked or len(asked) < MAX_ASKED:
            new = {"client": each.client, "software": "", "may_create": False, "apis": [], "topics": []}
            _note(asked.setdefault(each.client, new), each)
        yield COST_OF_REQUEST
    document["requests"] = [_read(each) for each in requests[-MAX_REQUESTS:]]
    document["request_count"] = len(requests)
    document["idle_requests"] = list(idle.values())
    document["errors"] = list(errors.values())
    document["asked"] = list(asked.values())
    document["producers"] = producers[-MAX_REQUESTS:]
    yield COST_OF_REQUEST * MAX_REQUESTS


def _note(row: Answer, request: LoggedRequest) -> None:
    if request.api not in row["apis"]:
        row["apis"].append(request.api)
    row["software"] = row["software"] or cut(request.software)
    row["may_create"] = row["may_create"] or request.may_create
    if request.api_key == ApiKey.METADATA:
        row["topics"] += [each for each in request.topics if each not in row["topics"]][
            : MAX_TOPICS - len(row["topics"])
        ]


def _is_idle(request: LoggedRequest) -> bool:
    is_ordinary = not request.errors or request.errors == IN_REBALANCE
    return is_ordinary and (request.api_key in HEARTBEATS or request.found_nothing)


def _count(
    counted: dict[tuple[object, ...], Answer],
    key: tuple[object, ...],
    limit: int,
    request: LoggedRequest,
    more: Answer,
) -> None:
    row = counted.get(key)
    if row is None:
        if len(counted) == limit:
            return
        row = {"client": request.client, "api": request.api, **more, "count": 0, "first_ms": request.at_ms}
        counted[key] = row
    row["count"] += 1
    row["last_ms"] = request.at_ms


def _read(request: LoggedRequest) -> Answer:
    return {
        "at_ms": request.at_ms,
        "broker": request.broker,
        "api": request.api,
        "client": request.client,
        "topics": list(request.topics),
        "errors": list(request.errors),
        "ended": request.ended,
    }
