"""Which name of the Python kit is which operation, with which fixed values; other kits have these methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class KitName(NamedTuple):
    """A method of the Python kit as an operation of the admin HTTP.

    Attributes:
        name: the method's name in Python.
        operation: the operation's class.
        takes: the arguments, with spaces between: "topic", or "broker=id" for a field of another name; "*groups" for
            any number of them; "operation:Parked" for a value of which `of` takes fields.
        options: the fields that may be left out and are given by their names.
        fixed: the fields that always have a value.
        returns: what it returns of the answer: "leader:int", "clients:texts", "parked:Parked[]"; "": nothing.
        owner: the class that has the method.
        elsewhere: its name in other languages, as Python writes names, if it is another one.
        whole: the name of the argument that has further fields of an operation whose fields are free.
        of: fields that attributes of the value in `takes` give.
        own: the field that the owner's name or number gives.
        left_out: what is done when the argument is left out: an operation, "each running broker", or "the same".
        until: until when the operation is asked again: "found", for a list that has something; "true", for what it
            returns; "times", for a count that is large enough; or "group", for a state and a number of members.
        may_be_refused: whether a refusal is an answer: there is no such value, or nothing to do.
        inner: the list that each row of the returned list has; its rows are returned, each with what is beside them.
        words: its first sentence; "": that of the method in Python.
        among: the list of the answer with the row that has the owner's number; `returns` is of that row.
    """

    name: str
    operation: str
    takes: str = ""
    options: str = ""
    fixed: Mapping[str, Any] = {}
    returns: str = ""
    owner: str = "Kafka"
    elsewhere: str = ""
    whole: str = ""
    of: Mapping[str, str] = {}
    own: str = ""
    left_out: str = ""
    until: str = ""
    may_be_refused: bool = False
    among: str = ""
    inner: str = ""
    words: str = ""


KIT: Final[tuple[KitName, ...]] = (
    KitName("leader", "FindLeader", "topic", "partition", returns="leader:int"),
    KitName("move_leader", "MoveLeader", "topic", "partition to", returns="leader:int"),
    KitName("no_leader", "NoLeader", "topic", "partition"),
    KitName("apply_retention", "ApplyRetention"),
    KitName("compact", "Compact", options="topic"),
    KitName("until_in_sync", "ShowTopic", "topic", returns="in_sync:bool", until="true"),
    KitName("hold_follower", "ChangeFollower", "broker=id", fixed={"held": True}),
    KitName("release", "ChangeFollower", "broker=id", fixed={"held": False}, left_out="each running broker"),
    KitName("kill", "KillBroker", "broker=id"),
    KitName("stop", "StopBroker", "broker=id", fixed={"force": True}),
    KitName("start", "StartBroker", "broker=id"),
    KitName("add_broker", "AddBroker", options="rack", returns="broker:int"),
    KitName("pause", "PauseBroker", "broker=id"),
    KitName("resume", "ResumeBroker", "broker=id", left_out="ResumeBrokers"),
    KitName("partition", "PartitionNetwork", "*groups"),
    KitName("heal", "HealNetwork"),
    KitName("parked", "ListParked", options="api topic client", returns="parked:Parked[]"),
    KitName("until_parked", "ListParked", options="api topic client", returns="parked:Parked[]", until="found"),
    KitName("expire", "Expire", "operation:Parked", of={"id": "broker", "name": "purgatory", "operation": "id"}),
    KitName(
        "group",
        "DescribeGroup",
        "name=id",
        fixed={"members": 1000, "offsets": 0},
        returns=":Group",
        may_be_refused=True,
        words="Return a consumer group, as its coordinator has it; nothing if it does not exist",
    ),
    KitName(
        "until",
        "DescribeGroup",
        "name=id",
        fixed={"members": 1000, "offsets": 0},
        returns=":Group",
        elsewhere="until_group",
        until="group",
        may_be_refused=True,
    ),
    KitName("expire_member", "ExpireMember", "group=id", "member", returns="member:text"),
    KitName("expire_transaction", "ExpireTransaction", "transactional_id=id"),
    KitName(
        "move_coordinator",
        "MoveGroupCoordinator",
        "group=id",
        "to",
        returns="coordinator:int",
        elsewhere="move_group_coordinator",
        words="Move the coordinator of a group to another broker; return its id",
    ),
    KitName(
        "move_coordinator",
        "MoveTransactionCoordinator",
        "transactional_id=id",
        "to",
        returns="coordinator:int",
        elsewhere="move_transaction_coordinator",
        words="Move the coordinator of a transactional id to another broker; return its id",
    ),
    KitName("clients", "ListClients", returns="clients:texts"),
    KitName(
        "fault", "AddFault", whole="rule", returns=":Fault", words="Add a fault rule: an action on matching requests"
    ),
    KitName(
        "network",
        "AddFault",
        "toxic",
        whole="toxic_is",
        returns=":Fault",
        words="Make the network between clients and brokers bad, with a toxic",
    ),
    KitName("hide", "AddFault", "broker=hide", returns=":Fault"),
    KitName("faults", "ListFaults", fixed={"fired": 0}, returns="faults:Fault[]"),
    KitName("clear_faults", "ClearFaults"),
    KitName(
        "acls",
        "AddAcls",
        "*acls",
        elsewhere="add_acls",
        words="Add access control lists; they are in effect then at all brokers",
    ),
    KitName("remove_acls", "RemoveAcls", "*acls"),
    KitName(
        "quota",
        "EditQuotas",
        "quotas",
        "user client_id ip",
        words="Set client quotas by Kafka's names; return when all brokers apply them",
    ),
    KitName(
        "snapshot",
        "TakeSnapshot",
        returns="name:text",
        words="Take a snapshot of what the cluster has now; return its name, for `restore`",
    ),
    KitName("restore", "RestoreSnapshot", "snapshot=name"),
    KitName("reset", "Reset"),
    KitName("report", "Report", returns="text:text"),
    KitName("explain", "Why", "name", returns="text:text", left_out="the same"),
    KitName(
        "advance",
        "AdvanceClock",
        "seconds",
        "sessions",
        owner="KafkaClock",
        returns="ended:Ended[]",
        words="Move the brokers' clock forward; return what ended by it, without fetches of followers",
    ),
    KitName(
        "now",
        "ShowClock",
        owner="KafkaClock",
        returns="wall_ms:int",
        elsewhere="now_ms",
        words="Return the brokers' time: milliseconds since 1970-01-01 UTC",
    ),
    KitName("freeze", "FreezeClock", owner="KafkaClock"),
    KitName("unfreeze", "UnfreezeClock", owner="KafkaClock"),
    KitName("expire_locks", "ExpireLocks", options="member", owner="ShareGroup", own="id", returns="expired:int"),
    KitName("members", "DescribeShareGroup", owner="ShareGroup", own="id", returns="members:texts"),
    KitName(
        "in_flight",
        "DescribeShareGroup",
        owner="ShareGroup",
        own="id",
        returns="partitions:InFlight[]",
        inner="batches",
    ),
    KitName("matched", "ListFaults", fixed={"fired": 0}, owner="Fault", among="faults", returns="matched:int"),
    KitName("fired", "ListFaults", fixed={"fired": 0}, owner="Fault", among="faults", returns="fired:int"),
    KitName("held", "ListFaults", fixed={"fired": 0}, owner="Fault", among="faults", returns="held:int"),
    KitName(
        "until_fired",
        "ListFaults",
        fixed={"fired": 0},
        owner="Fault",
        among="faults",
        returns="fired:int",
        until="times",
        words="Wait until the rule has fired so often; return how often it has",
    ),
    KitName("release", "ReleaseFault", owner="Fault", own="id", may_be_refused=True),
    KitName("remove", "RemoveFault", owner="Fault", own="id", may_be_refused=True),
)
"""The methods, in the order in which the other kits have them."""

VALUES: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "Parked": {
        "broker": ("broker", "int"),
        "id": ("id", "int"),
        "purgatory": ("purgatory", "text"),
        "client": ("client", "text"),
        "keys": ("keys", "texts"),
        "missing": ("missing", "text"),
        "causes": ("causes", "data"),
        "waited_ms": ("waited_ms", "int"),
        "left_ms": ("remaining_ms", "int"),
    },
    "Ended": {
        "broker": ("broker", "int"),
        "purgatory": ("purgatory", "text"),
        "client": ("client", "text"),
        "keys": ("keys", "texts"),
        "missing": ("missing", "text"),
        "waited_ms": ("waited_ms", "int"),
    },
    "InFlight": {
        "topic": ("topic", "text"),
        "partition": ("partition", "int"),
        "first_offset": ("first_offset", "int"),
        "last_offset": ("last_offset", "int"),
        "state": ("state", "text"),
        "delivery_count": ("delivery_count", "int"),
        "member": ("member", "text?"),
        "lock_left_ms": ("lock_left_ms", "int?"),
    },
    "Member": {"id": ("member_id", "text"), "client": ("client", "text")},
    "Group": {
        "name": ("id", "text"),
        "state": ("state", "text"),
        "coordinator": ("coordinator", "int"),
        "epoch": ("epoch", "int"),
        "members": ("members", "Member[]"),
        "waits_for": ("waits_for", "text"),
    },
}
"""The values that methods return: the attributes of those in Python, with the names and kinds that answers have."""

BY_HAND: Final[Mapping[str, Mapping[str, str]]] = {
    "Kafka": {
        "admin_url": "adminUrl AdminURL adminUrl",
        "bootstrap": "bootstrap Bootstrap bootstrap",
        "bootstrap_servers": "brokers Brokers brokers",
        "brokers": "runningBrokers RunningBrokers runningBrokers",
        "client_config": "clientConfig franz.Options clientConfig",
        "clock": "clock Clock clock",
        "close": "close Close close",
        "do": "operations Do run",
        "produce": "produce Produce produce",
        "records": "records Records records",
        "schema_registry": "schemaRegistryUrl SchemaRegistryURL schemaRegistryUrl",
        "share_group": "shareGroup ShareGroup shareGroup",
        "topic": "topic Topic topic",
    },
    "Fault": {"id": "id ID id"},
    "ShareGroup": {"name": "id ID id"},
}
"""What the other kits have by hand, with its names in JavaScript, Go and Java."""

WITHOUT: Final[Mapping[str, Mapping[str, str]]] = {
    "Kafka": {
        "is_usable": "no process of another language forks with a cluster",
        "left_open": "`clients` lists the client ids that are connected",
        "tier": "the operations Offload, ShowTier, HoldTier, ReleaseTier and VerifyTier, and `fault` with `tier`",
        "requests": "the operation Facts and the report have the last ones",
    },
    "Fault": {
        "at_start": "the flag `--faults` gives rules from the start",
    },
    "ShareGroup": {
        "acquired": "those of `in_flight` with this state",
        "archived": "those of `in_flight` with this state",
        "dead_letters": "`records` reads the dead-letter topic",
        "start_offsets": "the operation DescribeShareGroup lists them",
        "until_acquired": "`in_flight` lists them",
        "until_dead_letters": "`records` reads the dead-letter topic",
    },
    "Quota": {"remove": "`quota` with null for each quota, or a reset, removes them"},
}
"""What the other kits do not have, with the reason, or with what stands for it."""
