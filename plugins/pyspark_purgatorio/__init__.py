"""Lets Spark find ``format("purgatorio")`` without `register`: it looks for data sources in ``pyspark_*`` modules."""

from purgatorio.pipeline.source import PurgatorioDataSource as DefaultSource

__all__ = ["DefaultSource"]
