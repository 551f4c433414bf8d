"""Authorization: a guard before each API asks the authorizer.

`authorizer.py` has the rules of Kafka's StandardAuthorizer, `guards/` the check of each API, `brokers_only.py` keeps
clients from requests that only brokers send, `access.py` counts and logs what was refused. The ACLs themselves are
metadata; `broker/security/acl_index.py` is how few of them a check looks at.
"""
