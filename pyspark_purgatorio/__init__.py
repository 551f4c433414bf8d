"""What lets Spark find ``format("purgatorio")`` without being told: it looks into modules whose names begin so."""

from purgatorio.pipeline.source import PurgatorioDataSource as DefaultSource

__all__ = ["DefaultSource"]
