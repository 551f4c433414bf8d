"""The settings of one broker."""

from purgatorio.broker.config import BrokerConfig


def test_clients_are_told_a_host_they_can_connect_to() -> None:
    """Every interface is no address to connect to: localhost stands for it, unless a host is given."""
    assert BrokerConfig(host="0.0.0.0", port=1).advertised == ("localhost", 1)
    assert BrokerConfig(host="10.0.0.1", port=1).advertised == ("10.0.0.1", 1)
    assert BrokerConfig(host="0.0.0.0", advertised_host="kafka", advertised_port=2).advertised == ("kafka", 2)
