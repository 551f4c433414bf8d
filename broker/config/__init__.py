"""Every setting, its default, and where its value comes from.

`BrokerConfig` has the settings of one broker. `ClusterConfig` has those of one process: its brokers, its admin HTTP,
its log, and a `BrokerConfig` that all of its brokers share. Both are immutable.
`purgatorio.broker.config.sources` reads them from a file, the environment and the command line.
"""

from purgatorio.broker.config.broker_settings import BrokerConfig
from purgatorio.broker.config.cluster_settings import ClusterConfig

__all__ = ["BrokerConfig", "ClusterConfig"]
