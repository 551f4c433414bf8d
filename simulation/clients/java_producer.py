"""A simulated idempotent producer with several requests in flight, which treats errors as Kafka's Java client does.

Java's producer (3.x and 4.x; KIP-360, KIP-654) differs from librdkafka in what it does about sequences:

* OUT_OF_ORDER_SEQUENCE_NUMBER for a batch that is not the oldest one is retried as it is: the oldest one is missing.
* A batch that it gives up leaves a gap. It then sends nothing new until each batch behind the gap is acknowledged, or
  refused as out of order; then it raises the epoch by itself, without asking a broker, and begins anew at sequence 0.
* OUT_OF_ORDER_SEQUENCE_NUMBER for the oldest batch, without a gap, raises the epoch too.

Java then also sends batches again of which an earlier attempt may still be on its way, and so may write them twice,
through no fault of a broker. This producer gives those up.
"""

from __future__ import annotations

from purgatorio.protocol.errors import ErrorCode
from purgatorio.simulation.clients.pipelined import PipelinedProducer, is_final


class JavaProducer(PipelinedProducer):
    """See `PipelinedProducer`; differs in its reaction to errors."""

    async def _recover(self, failures: list[ErrorCode]) -> None:
        if is_final(failures[0]):
            self._drop(self._queue[0], failures[0].name)
        is_out_of_order = [code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER for code in failures]
        if is_out_of_order[0] or (self._has_gap and any(is_out_of_order)):
            self._raise_epoch()

    def _give_up(self) -> None:
        while self._queue and self._clock.now_ms() >= self._queue[0].give_up_ms:
            self._drop(self._queue[0], "not acknowledged in time")
            self._has_gap = True

    def _may_go_on(self) -> bool:
        if self._has_gap and not self._queue:
            self._raise_epoch()
        return not self._has_gap

    def _raise_epoch(self) -> None:
        for batch in [batch for batch in self._queue if batch.maybe_written]:
            self._drop(batch, "it may be written in an earlier epoch")
        producer_id, producer_epoch = self._producer
        self._begin_epoch(producer_id, producer_epoch + 1)
