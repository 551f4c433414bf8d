"""A simulation finds the errors that its brokers log, even while logging is switched off."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from unittest import mock

import pytest

from purgatorio.broker.replica.partition import Partition
from purgatorio.logger import get_logger
from purgatorio.simulation.checks.internal_errors import INTERNAL_ERROR, MAX_ERRORS, collected
from purgatorio.simulation.run import Scenario, simulate
from purgatorio.simulation.world.loop import SimulatedLoop

logger = get_logger("purgatorio.somewhere")


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(random.Random(1))
    yield loop
    loop.close()


def test_an_error_that_a_node_logs_is_an_anomaly_with_the_node_and_the_virtual_time(loop: SimulatedLoop) -> None:
    async def fails() -> None:
        logger.error("this broke", partition="orders-0")

    with collected(loop) as errors:
        loop.run_until_complete(loop.node("broker-2").spawn(fails()))
    (anomaly,) = errors.anomalies
    assert (anomaly.name, anomaly.partition) == (INTERNAL_ERROR, "broker-2")
    assert anomaly.message == "at 1000000 ms: purgatorio.somewhere: this broke partition=orders-0"


def test_an_exception_is_told_with_the_line_that_raised_it(loop: SimulatedLoop) -> None:
    with collected(loop) as errors:
        try:
            raise KeyError("no such thing")
        except KeyError:
            logger.exception("this broke")
    assert "this broke (KeyError('no such thing'), test_an_exception_is_told" in errors.anomalies[0].message


def test_an_exception_that_reaches_the_loop_is_an_anomaly(loop: SimulatedLoop) -> None:
    async def main() -> None:
        loop.node("broker-1").call(lambda: 1 // 0)

    with collected(loop) as errors:
        loop.run_until_complete(main())
        loop.run_until_complete(main())
    assert errors.anomalies[0].partition == "broker-1"
    assert "ZeroDivisionError" in errors.anomalies[0].message


def test_warnings_are_no_anomalies_and_a_dead_node_logs_nothing(loop: SimulatedLoop) -> None:
    async def fails() -> None:
        try:
            await loop.create_future()
        finally:
            logger.error("interrupted")

    async def main() -> None:
        node = loop.node("broker-1")
        node.spawn(fails())
        node.call(node.kill)
        logger.warning("an intended fault")

    with collected(loop) as errors:
        loop.run_until_complete(main())
    assert errors.anomalies == []


def test_errors_are_collected_while_logging_is_switched_off_and_all_is_as_before_afterwards(
    loop: SimulatedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    logging.disable(logging.CRITICAL)
    try:
        with collected(loop) as errors:
            for _ in range(MAX_ERRORS + 1):
                logger.error("this broke")
        assert logging.root.manager.disable == logging.CRITICAL
    finally:
        logging.disable(logging.NOTSET)
    assert len(errors.anomalies) == MAX_ERRORS, "they are bounded"
    assert caplog.records == [], "no other handler gets them"
    logger.warning("after it")
    assert [record.getMessage() for record in caplog.records] == ["after it"]


@pytest.mark.simulation
def test_a_bug_in_a_broker_that_only_its_log_tells_of_is_found() -> None:
    with (
        mock.patch.object(Partition, "laggards", side_effect=RuntimeError),
        mock.patch.object(Partition, "low_watermark", new_callable=mock.PropertyMock, side_effect=RuntimeError),
        mock.patch.object(Partition, "propose_to_drop_laggards", side_effect=RuntimeError("a bug")),
    ):
        report = simulate(1, Scenario(seconds=2.0))
    assert INTERNAL_ERROR in {anomaly.name for anomaly in report.anomalies}
