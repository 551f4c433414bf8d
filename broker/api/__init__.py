"""The APIs: one file each, with the handler that answers it; `routes` is the table of them all."""
