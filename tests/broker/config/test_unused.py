"""Tests of the dynamic broker configs of Kafka's that have no effect here."""

from __future__ import annotations

import pytest

from purgatorio.broker.config import BrokerConfig
from purgatorio.broker.config.dynamic import DynamicBrokerConfig
from purgatorio.broker.config.unused import MAX_TEXT, unused_keys
from purgatorio.broker.log.config import TOPIC_CONFIGS
from purgatorio.broker.metadata.image import ClusterImage

KEYS = {key.name: key for key in unused_keys()}


def accepts(name: str, text: str) -> bool:
    try:
        KEYS[name].parse(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("num.io.threads", ("1", "9"), ("0", "x")),
        ("log.cleaner.threads", ("0",), ("-1",)),
        ("sasl.kerberos.min.time.before.relogin", ("58000",), ("soon", "-1")),
        ("sasl.login.refresh.buffer.seconds", ("4000",), ("32768",)),
        ("sasl.login.refresh.window.factor", ("0.1",), ("x", "nan", "inf")),
        ("transaction.partition.verification.enable", ("true", "FALSE"), ("x",)),
        ("sasl.kerberos.service.name", ("kafka",), ("k" * (MAX_TEXT + 1),)),
    ],
)
def test_values_are_checked_by_type_and_bounds(name: str, good: tuple[str, ...], bad: tuple[str, ...]) -> None:
    assert [text for text in good if not accepts(name, text)] == []
    assert [text for text in bad if accepts(name, text)] == []


def test_none_of_them_is_read_anywhere_and_each_says_so() -> None:
    read = {name.replace("_", ".") for name in BrokerConfig.model_fields}
    assert not set(KEYS) & (read | {key.broker_name for key in TOPIC_CONFIGS.values()})
    assert all("without effect" in key.doc for key in KEYS.values())


def test_setting_one_changes_no_setting() -> None:
    dynamic = DynamicBrokerConfig(BrokerConfig(broker_id=1))
    image = ClusterImage(1, "test", broker_configs={"1": {"num.io.threads": "9", "log.preallocate": "true"}})
    assert dynamic.image_changed(image) == {}
