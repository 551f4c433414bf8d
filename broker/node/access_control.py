"""The access control of one broker, as its configs want it: ACLs, or only what keeps clients from posing as brokers."""

from __future__ import annotations

from dataclasses import replace

from purgatorio.broker.api.routes import APIS
from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.listeners import has_security
from purgatorio.broker.layers.access.access import Access, Audit
from purgatorio.broker.layers.access.authorizer import Authorizer
from purgatorio.broker.layers.access.brokers_only import brokers_only, brokers_only_without_acls
from purgatorio.broker.layers.access.guards.whole import before
from purgatorio.broker.metadata.store import MetadataStore
from purgatorio.broker.replica.fetching.fetch_session import FetchSessionCache
from purgatorio.broker.routing.route_layers import Layer, RouteLayers
from purgatorio.broker.share.share_session import ShareSessionCache
from purgatorio.purgatory.clock import Clock


def control_access(
    layers: RouteLayers,
    config: BrokerConfig,
    *,
    clock: Clock,
    store: MetadataStore,
    sessions: FetchSessionCache,
    share_sessions: ShareSessionCache,
) -> Access | None:
    """Put the access control of a broker before its handlers; returns that of ACLs, or None without an authorizer.

    No permission makes a client a broker, not even CLUSTER_ACTION or that of super users.
    """
    if not config.authorizer_class_name:
        if has_security(config):
            layers.put(Layer.ACCESS, brokers_only_without_acls)
        return None
    authorizer = Authorizer(
        store,
        super_users=super_users(config.super_users),
        allow_everyone=config.allow_everyone_if_no_acl_found,
    )
    access = Access(
        authorizer,
        store,
        Audit(config.broker_id, clock),
        sessions=sessions,
        share_sessions=share_sessions,
        auto_create=config.auto_create_topics_enable,
    )
    needs = {int(api.key): api.needs for api in APIS}
    layers.put(
        Layer.ACCESS,
        lambda key, route: before(access, needs[key], replace(route, handler=brokers_only(key, route))),
    )
    return access


def super_users(setting: str) -> list[str]:
    """Return the principals of the setting super.users."""
    return [each.strip() for each in setting.split(";") if each.strip()]
