"""Why requests wait, as data: each delayed operation returns its causes, and one place makes sentences of them.

`kinds.py` is the table of purgatories: all that names one follows from its row; `purgatories.py` makes those of a
broker, with the reaper of their deadlines. For causes begin with `why.py`, what
all of them have, and `cause.py`: each is a class with its sentence and the actors for which it waits. `words.py` puts
their sentences together. `answers.py` groups the causes of many requests and names the ways out, for the page and the
commands. No sentence is ever read back.
"""
