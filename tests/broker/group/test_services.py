"""What the parts of the group coordinator share."""

import random
import uuid

from purgatorio.broker.group.services import random_uuid


def test_random_ids_are_uuids_of_version_4() -> None:
    made = [random_uuid(random.Random(seed)) for seed in range(20)]
    assert made == [str(uuid.UUID(int=random.Random(seed).getrandbits(128), version=4)) for seed in range(20)]
