"""The file with the secret of a cluster on several hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from purgatorio.admin.cli.hosts.secret import SecretUnusable, read_secret


def test_the_secret_is_what_the_file_has_without_its_last_newline(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("0123456789abcdef\n")
    assert read_secret(str(tmp_path / "secret")) == b"0123456789abcdef"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, r"cannot be read: No such file or directory; make one with `openssl rand -hex 32`"),
        ("short\n", "has 5 bytes, which is no secret"),
        ("x" * 5_000, "has 4097 bytes, which is no secret"),
    ],
)
def test_what_is_no_secret_is_refused_in_a_sentence(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SecretUnusable, match=said):
        read_secret(str(path))


def test_without_the_setting_it_is_named() -> None:
    with pytest.raises(SecretUnusable, match=r"set cluster\.secret\.file"):
        read_secret(None)
