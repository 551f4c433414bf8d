"""Share groups (KIP-932) at their group coordinator: members, assignments, and the partitions that have a state.

Begin with `../modern/modern_groups.py`; `share_groups.py` has the steps of these groups. A partition is assigned when
its share coordinator has initialized its state (`initialization.py`); `deletion.py` takes states away. The records that
members acquire are not here but at the partitions' leaders: `broker/share/`.
"""
