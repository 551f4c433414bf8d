"""Commands that speak Kafka's protocol, with any cluster: topics, records, groups and configs.

Begin with `asking.py`: where the cluster is, and how a command's coroutine is run with a client of it. `topics.py`,
`configs.py` and `groups.py` are a few requests and their answers; `producing.py` and `consuming.py` move records, whose
form as text is in `lines.py` and `formats.py`. `security.py` reads the file of `--command-config`. The files of
commands declare the words, and load this room when a command runs.
"""
