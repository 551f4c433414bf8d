"""The command `purgatorio`: what users type, and what is printed.

Begin with `main.py`. `serving.py` runs a cluster until a signal ends it; `processes/` runs a process for each broker,
`hosts/` one broker of several hosts. `operation_commands.py` makes commands of operations; the files of commands
say how their answers are shown. `top/` is `purgatorio top`.
"""
