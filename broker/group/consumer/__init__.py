"""Groups of the consumer protocol (KIP-848): the coordinator assigns, members follow at their own pace.

Begin with `../modern/modern_groups.py`: requests are heartbeats; `consumer_groups.py` has the steps of these groups.
`records.py` has the changes of a request, `member.py` how a member goes to its target assignment, `assignors.py` which
partitions each gets.
`classic_members.py` and `conversion.py` are for groups that go from one protocol to the other.
"""
