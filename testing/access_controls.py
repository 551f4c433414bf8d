"""The part of `Kafka` that is about access control lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from purgatorio.testing.broker_controls import BrokerControls

if TYPE_CHECKING:
    from purgatorio.broker.metadata.acls import AclBinding


class AccessControls(BrokerControls):
    """Lists, adds and removes access control lists."""

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
        if add:
            self._run(self._controls.acls.add(_parsed(add)), "add ACLs")
        return self._call(self._texts, "list the ACLs")

    def remove_acls(self, *acls: str) -> None:
        """Remove access control lists, as they are listed, at all brokers; all of them or none.

        Raises:
            ValueError: there is no such ACL, or a text is none.
        """
        self._run(self._controls.acls.remove(_parsed(acls)), "remove ACLs")

    def _texts(self) -> list[str]:
        from purgatorio.broker.security.acl_text import acl_text

        return [acl_text(acl) for acl in self._controls.acls.listed()]


def _parsed(texts: tuple[str, ...]) -> list[AclBinding]:
    from purgatorio.broker.security.acl_text import parse_acls

    return parse_acls(texts)
