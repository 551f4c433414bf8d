"""Settings as DescribeConfigs and the configuration file show them."""

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.descriptions import BrokerDescription, settings_of_process
from purgatorio.broker.log.config import ConfigType


def test_settings_are_described_under_kafkas_names() -> None:
    """DescribeConfigs gets dotted names, text values, types, and whether a value is the default."""
    found = BrokerDescription(BrokerConfig(num_partitions=4, host="::1", port=9092, broker_id=7))
    assert found["num.partitions"][:3] == ("4", False, ConfigType.INT)
    assert found["log.retention.ms"][:3] == ("604800000", True, ConfigType.LONG)
    assert found["auto.create.topics.enable"][:3] == ("true", True, ConfigType.BOOLEAN)
    assert found["broker.rack"][:3] == (None, True, ConfigType.STRING)
    assert found["log.cleaner.min.cleanable.ratio"][:3] == ("0.5", True, ConfigType.DOUBLE)
    assert found["listeners"].value == "PLAINTEXT://[::1]:9092"
    assert found["node.id"] == found["broker.id"]
    assert list(found) == sorted(found)


def test_every_setting_is_documented() -> None:
    """Each setting says in a sentence what it does."""
    for name, field in settings_of_process().items():
        assert field.doc is not None, name
        assert field.doc.endswith("."), name
