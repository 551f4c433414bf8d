"""Every setting, its default, and where its value comes from."""

from purgatorio.broker.config.settings import BrokerConfig, ClusterConfig

__all__ = ["BrokerConfig", "ClusterConfig"]
