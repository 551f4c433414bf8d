"""The part of `Kafka` that is about what clients may do: access control lists and quotas."""

from __future__ import annotations

from collections.abc import Callable

from purgatorio.testing.faults import FaultControls


class Quota:
    """Quotas of one entity, named by `words`; a context manager, which removes them at its end."""

    def __init__(self, words: str, remove: Callable[[], None]) -> None:
        self._words = words
        self._remove = remove

    def __repr__(self) -> str:
        return f"<Quota {self._words}>"

    def remove(self) -> None:
        """Remove the quotas; connections that are muted stay so until their time is over."""
        self._remove()

    def __enter__(self) -> Quota:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class AccessControls(FaultControls):
    """Lists, adds and removes access control lists; sets quotas."""

    def acls(self, *add: str) -> list[str]:
        """Add access control lists, and return all of them, oldest first; they are in effect then at all brokers.

        ::

            kafka.acls("allow User:alice READ,WRITE topic orders", "allow User:alice READ group billing-*")

        They are gone by `reset`, but for those of the cluster's option `acls`.

        Args:
            add: each as text, ``allow|deny PRINCIPAL OPERATION[,OPERATION…] RESOURCE [NAME] [from HOST]``. The resource
                is topic, group, transactional-id, user or cluster. A name that ends in ``*`` is a prefix.

        Raises:
            ValueError: a text is no ACL, in which case the message says why, or the cluster has no authorizer: ask for
                one with the option ``acls=[]``.
        """
        from purgatorio.admin.operations.security import MAX_LISTED, AddAcls, ListAcls

        if add:
            self.do(AddAcls(list(add)))
        return [each["text"] for each in self.do(ListAcls(MAX_LISTED))["acls"]]

    def remove_acls(self, *acls: str) -> None:
        """Remove access control lists, as they are listed, at all brokers; all of them or none.

        Raises:
            ValueError: there is no such ACL, or a text is none.
        """
        from purgatorio.admin.operations.security import RemoveAcls

        self.do(RemoveAcls(list(acls)))

    def quota(
        self, *, user: str | None = None, client_id: str | None = None, ip: str | None = None, **quotas: float
    ) -> Quota:
        """Set client quotas; return when all brokers apply them.

        ::

            kafka.quota(client_id="billing", producer_byte_rate=1_000_000)
            with kafka.quota(user="alice", client_id="", consumer_byte_rate=50_000):  # each client of alice
                ...

        A client above its quota gets the answer at once, with its throttle time, and is not heard until then. The mute
        is parked in the purgatory "Throttled": `expire` ends it early. `reset` removes all quotas.

        Args:
            user: the principal's name; "": each user without a quota of its own. ANONYMOUS without authentication.
            client_id: likewise.
            ip: an address, for `connection_creation_rate`; "": each address without a quota of its own.
            quotas: by Kafka's names: producer_byte_rate, consumer_byte_rate (bytes per second), request_percentage,
                controller_mutation_rate, connection_creation_rate (per second).

        Raises:
            ValueError: the brokers refuse it, with their sentence.
        """
        from purgatorio.admin.operations.security import ABSENT, EditQuotas

        # An empty name is the default of its kind, which the operation calls None.
        names = {"user": user, "client_id": client_id, "ip": ip}
        entity = {kind: ABSENT if name is None else name or None for kind, name in names.items()}

        def edit(values: dict[str, float | None]) -> None:
            self.do(EditQuotas(values, **entity))

        edit(dict(quotas))
        parts = [(kind.replace("_", "-"), name) for kind, name in names.items() if name is not None]
        words = ", ".join(f"{kind} {name}" if name else f"default {kind}" for kind, name in parts)
        values = ", ".join(f"{key}={value:g}" for key, value in quotas.items())
        return Quota(f"{words}: {values}", lambda: edit(dict.fromkeys(quotas)))
