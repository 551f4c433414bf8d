"""``purgatorio configs``: what is set, where it is from, and the nearest name of one that does not exist."""

from __future__ import annotations

from tests.admin.cli.wire.conftest import Run


def test_configs_of_a_topic_are_set_and_shown(run: Run) -> None:
    of_brokers = ["min.insync.replicas", "1", "all", "brokers"]
    assert run("configs", "describe", "topic", "orders").out.splitlines()[1].split() == of_brokers
    assert run("configs", "set", "topic", "orders", "retention.ms=60000", "cleanup.policy=delete").code == 0
    lines = run("config", "describe", "topic", "orders", found=True)
    assert lines.code == 2  # `config` prints settings: it is a command of its own
    shown = run("configs", "describe", "topic", "orders", found=True).out.splitlines()
    assert [line.split() for line in shown[:4]] == [
        ["CONFIG", "VALUE", "FROM"],
        ["cleanup.policy", "delete", "topic"],
        of_brokers,
        ["retention.ms", "60000", "topic"],
    ]
    assert shown[4].endswith("more as by default or in the broker's file; --all shows them")
    every = run("configs", "describe", "topic", "orders", "--all").out
    assert "max.message.bytes" in every
    unset = run("configs", "set", "topic", "orders", "--unset", "retention.ms", "--unset", "cleanup.policy")
    assert unset.out == "topic orders: retention.ms is as by default\ntopic orders: cleanup.policy is as by default\n"


def test_configs_of_a_broker_and_of_all_brokers(run: Run) -> None:
    assert run("configs", "set", "broker", "1", "log.cleaner.threads=1").code in (0, 1)
    assert run("configs", "set", "broker", "", "message.max.bytes=2000000").out == (
        "all brokers: message.max.bytes is 2000000\n"
    )
    assert "message.max.bytes" in run("configs", "describe", "broker", "1").out
    assert run("configs", "describe", "broker", "7").err == "purgatorio: there is no broker 7, only 1\n"
    assert run("configs", "set", "broker", "", "--unset", "message.max.bytes").code == 0


def test_a_misspelt_config_of_a_broker_is_refused_and_one_of_a_plug_in_is_taken(run: Run) -> None:
    for broker in ("1", ""):
        assert run("configs", "set", "broker", broker, "message.max.byte=2000000") == (
            1,
            "",
            "purgatorio: INVALID_CONFIG: there is no such broker config; did you mean message.max.bytes?\n",
        )
        assert run("configs", "set", "broker", broker, "org.example.zzz=1").code == 0
        assert run("configs", "set", "broker", broker, "--unset", "org.example.zzz").code == 0


def test_an_unknown_config_names_the_nearest(run: Run) -> None:
    ran = run("configs", "set", "topic", "orders", "retention.m=1")
    assert ran.code == 1
    assert ran.err.startswith("purgatorio: INVALID_CONFIG: ")
    assert ran.err.endswith("; is retention.ms meant?\n")
    assert "did you mean" not in run("configs", "set", "topic", "orders", "retention.ms=soon").err
    assert run("configs", "set", "queue", "orders", "a=b").code == 2
    assert run("configs", "describe", "topic", "oders").err.endswith("there is no topic oders; did you mean orders?\n")
