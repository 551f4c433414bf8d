"""The transaction coordinator: transactional ids and their transactions, kept in the topic ``__transaction_state``."""
