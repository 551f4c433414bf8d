"""Values of settings: which are allowed, and what is said of the others, in a file and to a client."""

from __future__ import annotations

import re
from typing import Any, get_args, get_type_hints

import pytest

from purgatorio.broker.config import BrokerConfig, ClusterConfig
from purgatorio.broker.config.descriptions import settings_of_process
from purgatorio.broker.log.config import TOPIC_CONFIGS
from purgatorio.broker.log.setting import ConfigType, Setting


def setting(name: str) -> Setting:
    return settings_of_process()[name]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("num_partitions", " 12 ", 12),
        ("num_partitions", "1_000", 1000),
        ("num_partitions", "7.0", 7),
        ("log_retention_ms", "-1", -1),
        ("log_cleaner_min_cleanable_ratio", "1", 1.0),
        ("log_cleaner_min_cleanable_ratio", " 0.25", 0.25),
        ("log_cleaner_enable", "TRUE", True),
        ("log_cleaner_enable", "off", False),
        ("log_cleaner_enable", "0", False),
        ("rack", " a ", " a "),
        ("ssl_client_auth", "required", "required"),
        ("admin_token", "x" * 16, "x" * 16),
    ],
)
def test_text_is_read_by_the_type(name: str, text: str, value: object) -> None:
    read = setting(name).read(text)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("num_partitions", "", "must be a whole number"),
        ("num_partitions", "1.5", "must be a whole number"),
        ("num_partitions", "9" * 5000, "must be a whole number"),
        ("port", "65536", "must be at most 65535"),
        ("log_cleaner_min_cleanable_ratio", "nan", "must be at least 0.0"),
        ("log_cleaner_enable", "", "must be true or false"),
        ("admin_token", "short", "must have at least 16 characters"),
        ("racks", "a\n", "must match ^[^,"),
        ("ssl_keystore_type", "JKS", "must be PEM"),
        ("ssl_client_auth", "maybe", "must be none, requested or required"),
        ("listener_name", "{}", "must be a table"),
    ],
)
def test_text_that_stands_for_no_value_is_refused(name: str, text: str, why: str) -> None:
    with pytest.raises(ValueError, match="must ") as caught:
        setting(name).read(text)
    assert str(caught.value).startswith(why)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_partitions", "3"),
        ("num_partitions", True),
        ("num_partitions", None),
        ("num_partitions", 3.0),
        ("log_cleaner_enable", 1),
        ("log_cleaner_min_cleanable_ratio", True),
        ("log_cleaner_min_cleanable_ratio", "1"),
        ("host", None),
        ("host", b"a"),
        ("listener_name", None),
    ],
)
def test_values_of_another_type_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match="must be "):
        setting(name).checked(value)


def test_a_setting_without_a_default_may_be_none() -> None:
    assert setting("rack").checked(None) is None
    assert setting("admin_token").checked(None) is None
    assert setting("cluster_port").checked(None) is None


TYPES = {
    ConfigType.BOOLEAN: bool,
    ConfigType.INT: int,
    ConfigType.LONG: int,
    ConfigType.DOUBLE: float,
}


@pytest.mark.parametrize("cls", [BrokerConfig, ClusterConfig])
def test_the_type_of_each_field_is_that_of_its_values(cls: Any) -> None:
    """What is checked follows from the declaration; type checkers and editors go by the annotation."""
    hints = get_type_hints(cls)
    for name, field in cls.model_fields.items():
        plain = dict[str, Any] if isinstance(field.default, dict) else TYPES.get(field.type, str)
        if field.choices:
            assert get_args(hints[name]) == field.choices, name
            assert plain is str, name
        else:
            assert hints[name] == (plain if field.default is not None else plain | None), name


def test_every_default_is_allowed() -> None:
    for field in settings_of_process().values():
        assert field.checked(field.default) == field.default


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", "7", 7),
        ("cleanup.policy", " compact ,delete,compact", ("compact", "delete")),
        ("min.cleanable.dirty.ratio", "1", 1.0),
        ("preallocate", "TRUE", True),
        ("compression.type", "zstd", "zstd"),
        ("follower.replication.throttled.replicas", "0:1,0:1", ("0:1", "0:1")),
    ],
)
def test_a_text_that_a_client_sends_becomes_a_value(name: str, text: str, value: object) -> None:
    sent = TOPIC_CONFIGS[name].parse(text)
    assert (sent, type(sent)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("retention.ms", "7.0", "'7.0' is not a whole number"),
        ("segment.bytes", "13", "13 is not between 14 and 2147483647"),
        ("compression.gzip.level", "0", "0 is not allowed"),
        ("min.cleanable.dirty.ratio", "half", "'half' is not a number"),
        ("min.cleanable.dirty.ratio", "1.50", "1.50 is not between 0 and 1"),
        ("preallocate", "yes", "'yes' is neither true nor false"),
        ("remote.storage.enable", "yes", "'yes' is neither true nor false"),
        ("compression.type", "ZIP", "'ZIP' is not one of uncompressed, gzip, snappy, lz4, zstd, producer"),
        ("cleanup.policy", "delete,shrink", "'shrink' is not one of compact, delete"),
        ("message.format.version", "three", "'three' is no version; one is 3.0-IV1"),
    ],
)
def test_a_text_that_a_client_may_not_send_is_refused_with_the_reason(name: str, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        TOPIC_CONFIGS[name].parse(text)


def test_a_setting_has_kafkas_names_beside_its_own() -> None:
    names = {name: (setting(name).dotted, *setting(name).other_names) for name in ("broker_id", "rack", "log_roll_ms")}
    assert names == {
        "broker_id": ("broker.id", "node.id"),
        "rack": ("broker.rack",),
        "log_roll_ms": ("log.roll.ms",),
    }
