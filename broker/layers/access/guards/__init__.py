"""The checks of APIs: what is asked of the authorizer before a handler runs.

`whole.py` is for requests that pass or fail as one, `each.py` for those that name several resources with an answer
each. The other files are for APIs with further checks. An API's registration names its check (`needs`).
"""
