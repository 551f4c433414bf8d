"""Histories of who may do what, and how much: ACLs, quotas, SCRAM credentials; and what a cluster tells of itself.

An era is a version; each API is asked in the nearest one that it has.
"""

from __future__ import annotations

from typing import Any

from purgatorio.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlteredEntityPart,
    ClientQuotasOp,
)
from purgatorio.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from purgatorio.protocol.messages.api_versions import ApiVersionsRequest
from purgatorio.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from purgatorio.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from purgatorio.protocol.messages.describe_acls import DescribeAclsRequest
from purgatorio.protocol.messages.describe_client_quotas import ClientQuotasComponent, DescribeClientQuotasRequest
from purgatorio.protocol.messages.describe_cluster import DescribeClusterRequest
from purgatorio.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from purgatorio.protocol.messages.find_coordinator import FindCoordinatorRequest
from purgatorio.protocol.messages.list_config_resources import ListConfigResourcesRequest
from purgatorio.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from purgatorio.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.compat.same_answers.talk import Talk

ANY, TOPIC, GROUP, CLUSTER = 1, 2, 3, 4
MATCH, LITERAL, PREFIXED = 2, 3, 4
READ, WRITE, ALTER = 3, 4, 7
DENY, ALLOW = 2, 3
EXACT, DEFAULT, ANY_NAME = range(3)
SHA_256, SHA_512 = 1, 2


def _acl(**changes: Any) -> AclCreation:
    fields = {
        "resource_type": TOPIC,
        "resource_pattern_type": LITERAL,
        "principal": "User:ann",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return AclCreation(**{**fields, **changes})


def acls(talk: Talk) -> None:
    """Rules that are made, found and removed."""
    name = talk.group
    wrong = (
        {"resource_name": ""},
        {"resource_type": 0},
        {"resource_type": ANY},
        {"resource_type": 99},
        {"resource_pattern_type": MATCH},
        {"resource_pattern_type": 1},
        {"resource_pattern_type": 99},
        {"principal": "ann"},
        {"principal": ""},
        {"principal": "User:"},
        {"host": ""},
        {"host": "nowhere.example"},
        {"operation": 1},
        {"operation": 99},
        {"permission_type": 1},
        {"permission_type": 0},
        {"resource_type": CLUSTER},
        {"resource_type": CLUSTER, "resource_name": "kafka-cluster", "operation": READ},
        {"operation": 12},
    )
    for changes in wrong:
        talk.ask(f"{changes}", CreateAclsRequest(creations=[_acl(**{"resource_name": name, **changes})]))
    creations = [
        _acl(resource_name=name),
        _acl(resource_name=name, operation=WRITE, permission_type=DENY, host="127.0.0.1"),
        _acl(resource_name=name, resource_pattern_type=PREFIXED, resource_type=GROUP),
        _acl(resource_name=name),
    ]
    talk.ask("some", CreateAclsRequest(creations=creations))
    talk.ask("none", CreateAclsRequest())
    filters: tuple[dict[str, Any], ...] = (
        {},
        {"resource_type_filter": TOPIC},
        {"resource_type_filter": 0},
        {"resource_type_filter": 99},
        {"pattern_type_filter": LITERAL},
        {"pattern_type_filter": MATCH},
        {"pattern_type_filter": 0},
        {"principal_filter": "User:ann"},
        {"principal_filter": "User:bob"},
        {"principal_filter": "ann"},
        {"host_filter": "127.0.0.1"},
        {"operation": WRITE},
        {"operation": 0},
        {"permission_type": DENY},
        {"permission_type": 0},
    )
    for changes in filters:
        talk.ask(f"{changes}", DescribeAclsRequest(**_filter(name, **changes)))
    for step, changes in (
        ("of bob", {"principal_filter": "User:bob"}),
        ("to write", {"operation": WRITE}),
        ("unknown pattern", {"pattern_type_filter": 0}),
        ("the rest", {}),
        ("nothing left", {}),
    ):
        talk.ask(step, DeleteAclsRequest(filters=[DeleteAclsFilter(**_filter(name, **changes))]))
    talk.ask("none", DeleteAclsRequest())


def _filter(name: str, **changes: Any) -> dict[str, Any]:
    fields = {
        "resource_type_filter": ANY,
        "resource_name_filter": name,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
    }
    return {**fields, **changes}


def quotas(talk: Talk) -> None:
    """Quotas of users, clients and addresses."""
    user = talk.group

    def alter(
        step: str,
        entity: dict[str, str | None],
        *ops: tuple[str, float | None],
        validate_only: bool = False,
        times: int = 1,
    ) -> None:
        parts = [AlteredEntityPart(entity_type=kind, entity_name=name) for kind, name in entity.items()]
        changes = [ClientQuotasOp(key=key, value=value or 0.0, remove=value is None) for key, value in ops]
        entries = [AlterClientQuotasEntry(entity=parts, ops=changes)] * times
        talk.ask(step, AlterClientQuotasRequest(entries=entries, validate_only=validate_only))

    rate = "producer_byte_rate"
    alter("user", {"user": user}, (rate, 1000.0), ("consumer_byte_rate", 2000.5))
    alter("user and client", {"user": user, "client-id": "app"}, (rate, 500.0))
    alter("fraction", {"user": user}, ("request_percentage", 12.5))
    alter("validated", {"user": user}, (rate, 1.0), validate_only=True)
    alter("unknown key", {"user": user}, ("no_such_rate", 1.0))
    alter("key of addresses", {"user": user}, ("connection_creation_rate", 1.0))
    for value in (0.0, -1.0, 0.5, float("nan"), 1e300):
        alter(f"rate {value}", {"user": user}, (rate, value))
    alter("nothing", {}, (rate, 1.0))
    alter("no name", {"user": ""}, (rate, 1.0))
    alter("unknown kind", {"team": user}, (rate, 1.0))
    alter("no kind", {"": user}, (rate, 1.0))
    alter("address", {"ip": "127.0.0.9"}, ("connection_creation_rate", 5.0))
    alter("no address", {"ip": "nowhere at all"}, ("connection_creation_rate", 5.0))
    alter("address and user", {"ip": "127.0.0.9", "user": user}, ("connection_creation_rate", 5.0))
    alter("twice", {"user": user}, (rate, 7.0), times=2)
    alter("removed", {"user": user}, ("consumer_byte_rate", None))
    alter("removed again", {"user": user}, ("consumer_byte_rate", None))
    alter("no changes", {"user": user})
    talk.ask("none", AlterClientQuotasRequest())

    def describe(step: str, *components: tuple[str, int, str | None], strict: bool = False) -> None:
        asked = [ClientQuotasComponent(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
        talk.ask(step, DescribeClientQuotasRequest(components=asked, strict=strict))

    describe("user", ("user", EXACT, user))
    describe("user alone", ("user", EXACT, user), strict=True)
    describe("user and client", ("user", EXACT, user), ("client-id", EXACT, "app"))
    describe("user and any client", ("user", EXACT, user), ("client-id", ANY_NAME, None))
    describe("default user", ("user", DEFAULT, None))
    describe("nobody", ("user", EXACT, "nobody"))
    describe("no name", ("user", EXACT, None))
    describe("default with a name", ("user", DEFAULT, user))
    describe("unknown match", ("user", 9, None))
    describe("unknown kind", ("team", ANY_NAME, None))
    describe("no kind", ("", ANY_NAME, None))
    describe("twice", ("user", EXACT, user), ("user", EXACT, user))
    describe("address and user", ("ip", ANY_NAME, None), ("user", ANY_NAME, None))
    alter("gone", {"user": user}, (rate, None), ("request_percentage", None))
    alter("client gone", {"user": user, "client-id": "app"}, (rate, None))


def credentials(talk: Talk) -> None:
    """SCRAM credentials of users."""
    user = talk.group

    def put(name: str = user, mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = b"salt") -> Any:
        return ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=b"p" * 32
        )

    def alter(step: str, *upsertions: Any, deletions: tuple[tuple[str, int], ...] = ()) -> None:
        gone = [ScramCredentialDeletion(name=name, mechanism=mechanism) for name, mechanism in deletions]
        talk.ask(step, AlterUserScramCredentialsRequest(deletions=gone, upsertions=list(upsertions)))

    alter("one", put())
    alter("another", put(mechanism=SHA_512, iterations=8192))
    for iterations in (4095, 16_385, 0, -1):
        alter(f"{iterations} rounds", put(iterations=iterations))
    for mechanism in (0, 3, -1):
        alter(f"mechanism {mechanism}", put(mechanism=mechanism))
        alter(f"mechanism {mechanism} gone", deletions=((user, mechanism),))
    alter("no name", put(name=""))
    alter("no name gone", deletions=(("", SHA_256),))
    alter("nobody gone", deletions=(("nobody", SHA_256),))
    alter("twice", put(), put())
    alter("put and gone", put(), deletions=((user, SHA_256),))
    alter("some wrong", put(), put(name=f"{user}-2", iterations=1))
    alter("none")
    for step, names in (("one", [user]), ("twice", [user, user]), ("nobody", ["nobody"]), ("no name", [""])):
        users = [UserName(name=name) for name in names]
        talk.ask(step, DescribeUserScramCredentialsRequest(users=users))
    talk.ask("all", DescribeUserScramCredentialsRequest(users=None))
    alter("gone", deletions=((user, SHA_256), (user, SHA_512)))
    talk.ask("gone", DescribeUserScramCredentialsRequest(users=[UserName(name=user)]))


def sasl(talk: Talk) -> None:
    """Where no login is asked for, none is accepted."""
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "", "NONE"):
        talk.ask(f"{mechanism!r}", SaslHandshakeRequest(mechanism=mechanism))
    for data in (b"\0ann\0secret", b""):
        talk.ask(f"{data!r}", SaslAuthenticateRequest(auth_bytes=data))


def cluster(talk: Talk) -> None:
    """What the cluster tells of itself, and where coordinators are."""
    for kind in (1, 2, 0, 9):
        for operations in (False, True):
            request = DescribeClusterRequest(endpoint_type=kind, include_cluster_authorized_operations=operations)
            talk.ask(f"{kind}, operations {operations}", request)
    talk.ask("fenced, too", DescribeClusterRequest(include_fenced_brokers=True))
    for kind in (0, 1, 2, 3, -1):
        for key in (talk.group, "", "a:b:c"):
            step = f"{kind}, {'group' if key == talk.group else repr(key)}"
            talk.ask(step, FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key]))
    several = [talk.group, talk.group, "", "other"]
    talk.ask("several", FindCoordinatorRequest(key=talk.group, coordinator_keys=several))
    talk.ask("none", FindCoordinatorRequest(key=talk.group, coordinator_keys=[]))
    talk.new_topic("listed")
    for kinds in ([], [2], [4], [32], [16], [8], [9], [2, 2], [2, 4]):
        if talk.era > 0 or not kinds:
            talk.listed(f"kinds {kinds}", ListConfigResourcesRequest(resource_types=kinds))


def versions(talk: Talk) -> None:
    """Names and versions of client software, and whom the client means to ask; the table itself is another test's."""
    of_cluster = talk.cluster_id
    for name, version in (
        ("app", "1.0"),
        ("", "1"),
        ("app", ""),
        ("a b", "1"),
        ("-app", "1"),
        ("app-", "1"),
        ("ä", "1"),
    ):
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        talk.told_error(f"{name!r} {version!r}", request)
    for step, whom in (
        ("me", {"cluster_id": of_cluster, "node_id": 1}),
        ("my cluster", {"cluster_id": of_cluster}),
        ("my id", {"node_id": 1}),
        ("another cluster", {"cluster_id": "another", "node_id": 1}),
        ("another cluster alone", {"cluster_id": "another"}),
        ("another broker", {"cluster_id": of_cluster, "node_id": 7}),
        ("another broker alone", {"node_id": 7}),
        ("no cluster", {"cluster_id": "", "node_id": 1}),
        ("a negative broker", {"cluster_id": of_cluster, "node_id": -2}),
    ):
        talk.told_error(step, ApiVersionsRequest(client_software_name="app", client_software_version="1", **whom))


HISTORIES = {
    acls: range(1, 4),
    quotas: range(2),
    credentials: (0,),
    sasl: range(3),
    cluster: range(7),
    versions: range(6),
}
"""Each with its eras."""
GUARDED = {acls: range(1, 4), cluster: (0, 2, 6)}
"""Those that are told to clusters with an authorizer, too."""
