"""The common services and defaults of one broker's logs."""

from __future__ import annotations

from dataclasses import field

from purgatorio.broker.log.config import LogConfig
from purgatorio.broker.log.log import Log
from purgatorio.broker.log.memory import MemoryBudget
from purgatorio.broker.log.producer_state import PRODUCER_EXPIRATION_MS
from purgatorio.broker.log.validator import RecordValidation
from purgatorio.late import dataclass


@dataclass(slots=True)
class BrokerLogs:
    """Services that the logs of one broker share, and the defaults of new ones.

    Attributes:
        memory: the budget of all logs together.
        defaults: the defaults of topic configs.
        validation: how records inside produced batches are checked.
        producer_id_expiration_ms: the idle time after which a producer's sequence numbers are forgotten.
    """

    memory: MemoryBudget
    defaults: LogConfig
    validation: RecordValidation = field(default_factory=RecordValidation)
    producer_id_expiration_ms: int = PRODUCER_EXPIRATION_MS

    def new(self, config: LogConfig, name: str) -> Log:
        """Return an empty log with the configuration of its topic."""
        log = Log(config, memory=self.memory, validation=self.validation, name=name)
        log.producers.expiration_ms = self.producer_id_expiration_ms
        return log
