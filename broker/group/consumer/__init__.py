"""Groups of the consumer protocol (KIP-848): the coordinator assigns, members follow at their own pace.

Begin with `heartbeats.py`: every request is a heartbeat. `update.py` is what a request changes, as records and as the
group that they make; `member.py` how a member goes to its target assignment; `assignors.py` who gets what.
`classic_members.py` and `conversion.py` are for groups that go from one protocol to the other.
"""
