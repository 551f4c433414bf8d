"""Topics as DataFrames: a Spark data source in Python on confluent-kafka, without a JAR and without the broker."""
