"""Coverage-guided fuzzing of every decoder, for a bounded number of runs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

RUNS = 2_000_000

PROGRAM = """
import sys
import atheris

with atheris.instrument_imports(include=["purgatorio"]):
    from purgatorio.protocol.api import APIS
    from purgatorio.protocol.decoder import compile_decoder
    from purgatorio.protocol.errors import DecodeError
    from purgatorio.protocol.framing import FrameDecoder
    from purgatorio.protocol.records import iter_batches, iter_records

DECODERS = [
    compile_decoder(cls, version, version >= api.flexible_from)
    for api in APIS.values() for version in api.versions for cls in (api.request, api.response)
]

def records(data):
    for _, batch in iter_batches(data, allow_partial=True):
        list(iter_records(batch, max_bytes=100_000))

TARGETS = [*DECODERS, FrameDecoder(1000).feed, records]

def one(data):
    if data:
        try:
            TARGETS[data[0] % len(TARGETS)](data[1:])
        except DecodeError:
            pass

atheris.Setup(sys.argv, one)
atheris.Fuzz()
"""


@pytest.mark.heavy
@pytest.mark.timeout(600)
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed (the extra 'fuzz')")
def test_decoders_raise_only_decode_errors() -> None:
    command = [sys.executable, "-c", PROGRAM, f"-atheris_runs={RUNS}", "-rss_limit_mb=1024", "-max_len=4096"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=580, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
