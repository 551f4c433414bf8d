"""Topics as DataFrames: a Spark data source in Python over a Kafka client, without a JAR and without the broker."""
