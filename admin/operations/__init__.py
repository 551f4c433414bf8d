"""The operations that operators and tests do on a cluster: each is declared once, in a file about its subject.

From the declarations come the routes of the admin HTTP, their list and their OpenAPI document, the commands of
``purgatorio``, and what tests do. `declare` says how, `table` has them all, `control` does the work and `reading` the
looking. Nothing here but these two imports the broker, so that a command's help is printed at once.
"""
