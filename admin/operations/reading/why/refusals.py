"""Rules about clients that are refused: by permissions, at the login, or by an error of their request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from purgatorio.admin.operations.declare import Answer
from purgatorio.admin.operations.reading.why.known import STUCK, Conclusion, Facts
from purgatorio.broker.causes.words import listed
from purgatorio.broker.layers.faults.names import api_name, api_named

REFUSED: Final = STUCK + 5
"""The weight of a conclusion about a client that was refused: it weighs more than how a consumer reads."""
NEEDED: Final[Mapping[tuple[str, str], str]] = {
    ("DESCRIBE", "GROUP"): "READ",
    ("DESCRIBE", "TRANSACTIONAL_ID"): "WRITE",
    ("DESCRIBE", "TOPIC"): "READ",
}
"""The permission that a client wants in the end which may not even describe something; it includes DESCRIBE."""
CONNECTIONS: Final[Mapping[str, str]] = {
    "not_authenticated": "sent a request before it logged in ({detail}): set security.protocol and the sasl settings",
    "authentication_failed": "was refused at its login ({detail}): correct its user and password",
    "session_expired": "has not logged in again in time: raise connections.max.reauth.ms",
    "tls_on_plain_listener": "speaks TLS where the broker has none: set security.protocol without SSL",
    "tls_handshake_failed": "failed at its TLS handshake ({detail}): set its certificates, and security.protocol",
    "frame_too_large": "sent a request that is too large ({detail}): send less, or raise socket.request.max.bytes",
}
"""By the reason for which connections are refused, what the client did, and what to change."""
ERRORS: Final[Mapping[str, str]] = {
    "MESSAGE_TOO_LARGE": "a batch is larger than max.message.bytes; send smaller records, or raise it for the topic",
    "RECORD_LIST_TOO_LARGE": "its batches are larger than a segment; send less at once, or raise segment.bytes",
    "INVALID_TIMESTAMP": "the time of a record is too far from the broker's; set the record's timestamp right",
    "INVALID_RECORD": "the topic takes no such record, such as one without a key where it is compacted; give it a key",
    "CORRUPT_MESSAGE": "the batch was damaged on its way",
    "UNSUPPORTED_COMPRESSION_TYPE": "this version has no such compression; choose another compression.type",
    "INVALID_REQUIRED_ACKS": "acks has a value that there is not; set it to 0, 1 or all",
    "INVALID_SESSION_TIMEOUT": "session.timeout.ms is not within group.min.session.timeout.ms and "
    "group.max.session.timeout.ms; change it",
    "INCONSISTENT_GROUP_PROTOCOL": "the members of the group have no assignor in common; give all the same "
    "partition.assignment.strategy and group.protocol",
    "FENCED_INSTANCE_ID": "another member has the same group.instance.id; give each an id of its own",
    "UNRELEASED_INSTANCE_ID": "another member has the same group.instance.id; give each an id of its own",
    "GROUP_MAX_SIZE_REACHED": "the group is full; raise group.max.size",
    "GROUP_ID_NOT_FOUND": "there is no such group (yet); check the group.id",
    "INVALID_GROUP_ID": "the group.id is not one; set it",
    "INVALID_TOPIC_EXCEPTION": "the topic's name is not one; use letters, digits, dots, dashes and underscores",
    "TOPIC_ALREADY_EXISTS": "the topic exists already",
    "INVALID_PARTITIONS": "the number of partitions is not one; a topic may only get more",
    "INVALID_REPLICATION_FACTOR": "there are fewer brokers than replicas; lower the replication factor",
    "INVALID_CONFIG": "a config has no such name or value",
    "POLICY_VIOLATION": "a rule of the cluster forbids it",
    "TRANSACTIONAL_ID_NOT_FOUND": "there is no such transactional.id; call init_transactions first",
    "INVALID_TXN_STATE": "the transaction is in another state; begin one before, and end each once",
    "INVALID_TRANSACTION_TIMEOUT": "transaction.timeout.ms is longer than brokers allow; lower it, or raise "
    "transaction.max.timeout.ms",
    "OUT_OF_ORDER_SEQUENCE_NUMBER": "batches of the idempotent producer are missing before this one",
    "UNSUPPORTED_VERSION": "the brokers do not speak this version",
}
"""By the name of an error that a client does not get over by trying again, the cause, and what to change."""


def lacks_a_permission(facts: Facts) -> Iterator[Conclusion]:
    """Yield requests that were refused for lack of a permission, each permission once."""
    found = {(row["client"], row["operation"], row["resource"], row["name"]): row for row in facts.document["denied"]}
    for row in found.values():
        where = "cluster" if row["resource"] == "CLUSTER" else f"{_noun(row['resource'])} {row['name']}"
        wanted = NEEDED.get((row["operation"], row["resource"]), row["operation"])
        api = api_named(row["api"])
        asked = "" if api is None else f" ({api_name(api)})"
        says = (
            f"{name_of(row)} is refused{asked}: {row['principal']} may not {row['operation']} {where}; add the ACL "
            f"`allow {row['principal']} {wanted} {where}`"
        )
        yield Conclusion(says, (row["client"], row["name"]), REFUSED)


def _noun(resource: str) -> str:
    return resource.lower().replace("_", "-")


def is_refused_as_a_connection(facts: Facts) -> Iterator[Conclusion]:
    """Yield connections that brokers closed before they answered, each client and reason once."""
    found = {(row["client"], row["reason"]): row for row in facts.document["refused_connections"]}
    for row in found.values():
        if row["reason"] in CONNECTIONS:
            says = CONNECTIONS[row["reason"]].format(detail=row["detail"])
            yield Conclusion(f"{name_of(row)} {says}", (row["client"],), REFUSED)


def is_answered_with_an_error(facts: Facts) -> Iterator[Conclusion]:
    """Yield requests whose last answer is an error that does not pass."""
    for row in facts.errors:
        if is_over(facts, row) or fault_of(facts, row) is not None:
            continue
        for error in row["errors"]:
            if error in ERRORS:
                topics = f" for {listed(row['topics'])}" if row["topics"] else ""
                says = f"{row['api']} of {name_of(row)}{topics} is refused, {error}: {ERRORS[error]}"
                yield Conclusion(says, (row["client"], *row["topics"]), REFUSED)


def is_answered_by_a_fault_rule(facts: Facts) -> Iterator[Conclusion]:
    """Yield requests that a fault rule answered with an error last."""
    for row in facts.errors:
        rule = fault_of(facts, row)
        if rule is not None and not is_over(facts, row):
            says = (
                f"{row['api']} of {name_of(row)} is answered {', '.join(row['errors'])} by fault rule {rule['rule']}; "
                f"remove the rule, or give it a count"
            )
            yield Conclusion(says, (row["client"], *row["topics"]), REFUSED)


def fault_of(facts: Facts, row: Answer) -> Answer | None:
    """Return what a fault rule did last for requests like those that got an error, if that is of the rule."""
    for each in facts.document["fired"]:
        if (each["client"], each["api"]) == (row["client"], row["api"]):
            return each if any(words in each["action"] for words in (*row["errors"], "by a function")) else None
    return None


def is_over(facts: Facts, row: Answer) -> bool:
    """Return whether the same request of a client had no error later."""
    return any(
        each["client"] == row["client"]
        and each["api"] == row["api"]
        and each["at_ms"] >= row["last_ms"]
        and each["ended"] == "answered"
        and not each["errors"]
        for each in facts.document["requests"]
    )


def name_of(row: Answer) -> str:
    """Return the client that a row is about."""
    return str(row["client"]) or "a client without id"


RULES: Final = (
    lacks_a_permission,
    is_refused_as_a_connection,
    is_answered_by_a_fault_rule,
    is_answered_with_an_error,
)
