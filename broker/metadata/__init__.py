"""The cluster's metadata: the immutable image, the decisions that change it, and the store that holds it.

Begin with `image.py`. Brokers act on an image and change it by compare-and-set (`store.py`): a decision is a pure
function from an image to the next one (`controller/`). The store is `embedded.py` in one process, `served.py` for
processes of one machine, `etcd/` for several hosts. `broker_lifecycle.py` is a broker's registration and lease.
"""
