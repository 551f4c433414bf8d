"""Operations on what clients may do: users, access control lists, quotas.

Names may contain anything, so they are in bodies. A password is salted by the client that sets it, and never gets here.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from purgatorio.admin.operations.declare import Answer, Base64, Limits, Operation, arg
from purgatorio.broker.cluster.errors import Invalid

if TYPE_CHECKING:
    from purgatorio.admin.operations.operator import Operator
    from purgatorio.broker.metadata.acls import AclBinding
    from purgatorio.broker.metadata.image import ClusterImage

MAX_ENTITIES: Final = 1_000
"""Users, or entities with quotas, that one answer lists."""
MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384
MAX_LISTED: Final = 10_000
LISTED: Final = 1_000
"""ACLs that one answer lists, unless more are asked for."""
_ACLS: Final = "a list of texts like 'allow User:alice READ,WRITE topic orders', or of their words"
_THE_USER: Final = "the user's"
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_UserName = Annotated[str, Limits(min_length=1, max_length=1_000)]
_Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
_Text = Annotated[str, Limits(max_length=4_096)]
_Texts = Annotated[list[_Text | Annotated[list[_Text], Limits(max_length=7)]], Limits(min_length=1, max_length=1_000)]
_EntityName = Annotated[str, Limits(max_length=1_000)]
_ENTITY: Final = "the entity: a name, null for the default of its kind, or absent"
ABSENT: Final = "\0absent"
"""Stands for a name that is not given, where None is the default of its kind."""


class ListUsers(Operation, http="GET /users", command="users list"):
    """Users with SCRAM credentials: mechanisms and iterations."""

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.broker.security.scram import NAMES

        credentials = _image(operator).scram_credentials
        users = [
            {"name": user.name, "mechanism": NAMES[user.mechanism], "iterations": credential.iterations}
            for user, credential in sorted(credentials.items())[:MAX_ENTITIES]
        ]
        return {"users": users, "credential_count": len(credentials)}


class SetUser(Operation, http="POST /users/set"):
    """Set a user's SCRAM credential; answers when all brokers know it."""

    name: _UserName = arg(_THE_USER)
    mechanism: _Mechanism = arg(" or ".join(MECHANISMS), metavar="NAME")
    iterations: Annotated[int, Limits(ge=MIN_ITERATIONS, le=MAX_ITERATIONS)] = arg(
        f"{MIN_ITERATIONS} to {MAX_ITERATIONS}"
    )
    salt: Base64 = arg("in base64")
    salted_password: Base64 = arg("in base64: PBKDF2 of the password with this salt and these iterations (RFC 5802)")

    async def run(self, operator: Operator) -> Answer:
        await _edit(operator, self.name, self.mechanism, self.iterations, self.salt, self.salted_password)
        return {"name": self.name, "mechanism": self.mechanism}


class DeleteUser(
    Operation,
    http="POST /users/delete",
    command="users delete",
    says="user {name} can no longer log in by {mechanism}",
):
    """Delete a user's SCRAM credential; open connections stay."""

    name: _UserName = arg(_THE_USER, metavar="USER", positional=True)
    mechanism: _Mechanism = arg(" or ".join(MECHANISMS), metavar="NAME")

    async def run(self, operator: Operator) -> Answer:
        await _edit(operator, self.name, self.mechanism)
        return {"name": self.name, "mechanism": self.mechanism}


class ListQuotas(Operation, http="GET /quotas", command="quotas list"):
    """Client quotas by user, client id and IP address."""

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.broker.layers.quotas.naming import parts_of

        listed = _image(operator).client_quotas
        quotas = [
            {**{kind.replace("-", "_"): name for kind, name in parts_of(entity)}, "quotas": dict(values)}
            for entity, values in islice(listed.items(), MAX_ENTITIES)
        ]
        return {"quotas": quotas, "entity_count": len(listed)}


class EditQuotas(Operation, http="POST /quotas/edit"):
    """Set and remove quotas of an entity; answers when all brokers apply them."""

    quotas: Annotated[dict[str, float | None], Limits(min_length=1, max_length=10)] = arg(
        "values by Kafka's names, such as producer_byte_rate; null removes one"
    )
    user: _EntityName | None = arg(_ENTITY, default=ABSENT)
    client_id: _EntityName | None = arg(_ENTITY, default=ABSENT)
    ip: _EntityName | None = arg(_ENTITY, default=ABSENT)

    async def run(self, operator: Operator) -> Answer:
        """Edit them; connections that are muted stay so."""
        from purgatorio.admin.operations.control.access import edit_quotas

        named = (("user", self.user), ("client-id", self.client_id), ("ip", self.ip))
        entity = [(kind, name) for kind, name in named if name != ABSENT]
        await edit_quotas(operator.cluster.network, entity, self.quotas)
        return {"quotas": self.quotas}


class ListAcls(Operation, http="GET /acls"):
    """The access control lists, oldest first."""

    limit: Annotated[int, Limits(ge=0, le=MAX_LISTED)] = arg(f"how many, up to {MAX_LISTED}", default=LISTED)

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.control.access import has_authorizer

        listed = _image(operator).acls
        return {
            "authorizer": has_authorizer(operator.cluster),
            "acls": [_shown(each) for each in islice(listed, self.limit)],
            "acl_count": len(listed),
        }


class AddAcls(Operation, http="POST /acls/add"):
    """Add ACLs, all or none; answers when they are in effect at all brokers."""

    acls: _Texts = arg(_ACLS)

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.control.access import add_acls

        acls = _parsed(self.acls)
        await add_acls(operator.cluster, acls)
        return {"acls": [_shown(each) for each in acls]}


class RemoveAcls(Operation, http="POST /acls/remove"):
    """Remove ACLs, all or none."""

    acls: _Texts = arg(_ACLS)

    async def run(self, operator: Operator) -> Answer:
        from purgatorio.admin.operations.control.access import remove_acls

        acls = _parsed(self.acls)
        await remove_acls(operator.cluster, acls)
        return {"acls": [_shown(each) for each in acls]}


def _image(operator: Operator) -> ClusterImage:
    from purgatorio.broker.cluster.decisions import newest

    return newest(operator.cluster.network).image


async def _edit(operator: Operator, name: str, mechanism: str, *credential: Any) -> None:
    from purgatorio.admin.operations.control.access import edit_user
    from purgatorio.broker.security.scram import NAMES
    from purgatorio.broker.security.scram_users import ScramEdit

    kind = next(each for each, known in NAMES.items() if known == mechanism)
    await edit_user(operator.cluster.network, ScramEdit(name, kind, *credential))


def _parsed(texts: Any) -> list[AclBinding]:
    from purgatorio.broker.security.acl_text import AclTextError, parse_acls

    try:
        return parse_acls(texts)
    except AclTextError as error:
        raise Invalid(str(error)) from None


def _shown(acl: AclBinding) -> dict[str, str]:
    from purgatorio.broker.security.acl_text import acl_text

    fields = {name: value if isinstance(value, str) else value.name for name, value in acl._asdict().items()}
    return {"text": acl_text(acl), **fields}
