"""Transaction coordinator: transactional ids and their transactions, stored in ``__transaction_state``."""
