"""The transaction coordinator: transactional ids and their transactions, kept in `__transaction_state`.

Begin with `coordinator.py`. `values.py` has the states and which may follow which (docs/states.md), `producers.py` is
InitProducerId, `partitions.py` AddPartitionsToTxn, `completion.py` how a transaction ends, by its deadline too.
`marker_sender.py` has leaders write the end markers, `marker_writer.py` is how a leader does.
"""
