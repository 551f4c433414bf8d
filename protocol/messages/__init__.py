"""One module per API: its request and response, declared once for all versions, with Kafka's names.

Fields have Kafka's names in snake case and Kafka's defaults. What a field means is said where that is not plain from
its name; the notes at the head of each module say what each version changed.
"""
