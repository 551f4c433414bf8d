"""One module per API: its request and response, declared once for all versions, with Kafka's names.

Fields have Kafka's names in snake case and Kafka's defaults. A docstring explains a field if its name does not; the
notes at the head of each module list the changes of each version.
"""
