"""The login of a command: TLS and SASL by a file of Kafka's client settings, as Kafka's own tools take it."""

from __future__ import annotations

import re
import secrets
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from purgatorio.admin.cli.command import CommandRefused
from purgatorio.admin.cli.printable import printable
from purgatorio.client.client import VERSIONS
from purgatorio.late import dataclass
from purgatorio.protocol.api import ApiKey
from purgatorio.protocol.message import Message
from purgatorio.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from purgatorio.protocol.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    from purgatorio.client.negotiated import Login, NegotiatedLink

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TIMEOUT_MS: Final = 15_000
_FAILED: Final = "SASL_AUTHENTICATION_FAILED"
MAX_ITERATIONS: Final = 1_000_000
"""The most iterations that a broker may ask for: about a second."""
_OPTION: Final = re.compile(r'\s*(?P<name>[\w.]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s;"]+))')
_FROM_KCAT: Final = {"sasl.mechanisms": "sasl.mechanism"}
"""Names of librdkafka for settings that Kafka's clients have, too."""


class LoginRefused(CommandRefused):
    """A broker refuses the client's login, as every other one would."""

    def __init__(self, why: str) -> None:
        super().__init__(f"purgatorio: {printable(why)}", 1)


class SettingsError(Exception):
    """The file, or a setting in it, is of no use; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Security:
    """How to connect.

    Attributes:
        tls: None: without TLS.
        login: None: without a login.
        bootstrap: ``bootstrap.servers`` of the file; "": it has none.
    """

    tls: ssl.SSLContext | None = None
    login: Login | None = None
    bootstrap: str = ""


def read_security(file: str) -> Security:
    """Return what a file of Java properties says; settings that are not about the connection are ignored.

    Raises:
        SettingsError: it cannot be read, or says what is not possible.
    """
    from purgatorio.broker.config.sources import parse_properties

    try:
        found = parse_properties(Path(file).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: {(getattr(error, 'strerror', None) or 'it is not UTF-8').lower()}") from None
    settings = {_FROM_KCAT.get(name, name): value.strip() for name, value in found.items()}
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise SettingsError(f"{file}: security.protocol is {' or '.join(PROTOCOLS)}, not {protocol}")
    try:
        tls = _tls(settings) if protocol.endswith("SSL") else None
        login = _login(settings) if protocol.startswith("SASL") else None
    except SettingsError as error:
        raise SettingsError(f"{file}: {error}") from None
    return Security(tls, login, settings.get("bootstrap.servers", ""))


# --- TLS ---


def _tls(settings: Mapping[str, str]) -> ssl.SSLContext:
    for store in ("keystore", "truststore"):
        if f"ssl.{store}.location" in settings and (kind := settings.get(f"ssl.{store}.type", "PEM").upper()) != "PEM":
            raise SettingsError(f"ssl.{store}.type is {kind}: only PEM is read here")
    try:
        context = ssl.create_default_context(
            cafile=settings.get("ssl.truststore.location") or settings.get("ssl.ca.location"),
            cadata=_pem(settings, "ssl.truststore.certificates"),
        )
        _show_certificate(context, settings)
    except ssl.SSLError as error:
        why = f": {error.reason}" if error.reason else ""
        raise SettingsError(f"a certificate or key is not PEM, or its password is wrong{why}") from None
    except (TypeError, ValueError):
        raise SettingsError("a certificate or key is not PEM, or its password is too long") from None
    except OSError as error:
        raise SettingsError(f"{error.filename or 'a file of certificates'}: {str(error.strerror).lower()}") from None
    if settings.get("ssl.endpoint.identification.algorithm", "https") in ("", "none"):
        context.check_hostname = False
    return context


def _show_certificate(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    """Have the client show its certificate, if it has one."""
    password = settings.get("ssl.key.password", "")  # without one OpenSSL would ask the terminal
    chain = settings.get("ssl.keystore.location") or settings.get("ssl.certificate.location")
    if chain:
        context.load_cert_chain(chain, settings.get("ssl.key.location"), password)
        return
    pem = [_pem(settings, f"ssl.keystore.{each}") for each in ("certificate.chain", "key")]
    if all(pem):
        import tempfile  # Python reads chains from files alone

        with tempfile.TemporaryDirectory() as made:
            file = Path(made, "chain.pem")
            file.touch(mode=0o600)
            file.write_text("\n".join(each or "" for each in pem))
            context.load_cert_chain(file, None, password)


def _pem(settings: Mapping[str, str], name: str) -> str | None:
    """Return certificates that stand in the file itself, where line ends may be blanks."""
    text = settings.get(name)
    if text is None:
        return None
    return re.sub(r"(-----(?:BEGIN|END) [A-Z ]+-----)", r"\n\1\n", text)


# --- SASL ---


def _login(settings: Mapping[str, str]) -> Login:
    mechanism = settings.get("sasl.mechanism", "")
    if mechanism not in MECHANISMS:
        raise SettingsError(f"sasl.mechanism is {' or '.join(MECHANISMS)}, not {mechanism or 'left out'}")
    jaas = dict(_options(settings.get("sasl.jaas.config", "")))
    name = jaas.get("username", settings.get("sasl.username"))
    password = jaas.get("password", settings.get("sasl.password"))
    if not name or password is None:
        raise SettingsError('sasl.jaas.config needs username="…" and password="…"')
    user, secret = name, password
    try:
        f"{user}{secret}".encode()
    except UnicodeEncodeError:
        raise SettingsError("username or password has half of a surrogate pair, which no UTF-8 has") from None

    async def login(link: NegotiatedLink) -> None:
        answer = await _ask(link, ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism=mechanism))
        if answer.error_code:
            offered = ", ".join(answer.mechanisms) or "none"
            raise LoginRefused(f"UNSUPPORTED_SASL_MECHANISM: the broker has {offered}, not {mechanism}")
        if mechanism == "PLAIN":
            await _token(link, f"\0{user}\0{secret}".encode())
        else:
            await _scram(link, mechanism, user, secret)

    return login


def _options(jaas: str) -> list[tuple[str, str]]:
    found = []
    for option in _OPTION.finditer(jaas):
        quoted = option["quoted"]
        found.append((option["name"], option["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)))
    return found


async def _scram(link: NegotiatedLink, mechanism: str, user: str, password: str) -> None:
    """Log in by SCRAM (RFC 5802): the broker says salt and iterations, and shows in the end that it knows the user."""
    import base64

    from purgatorio.broker.security.mechanism import AuthenticationFailed
    from purgatorio.broker.security.scram import NAMES, ScramLogin, new_nonce, salted

    (kind,) = (each for each, name in NAMES.items() if name == mechanism)
    nonce = new_nonce(secrets.token_bytes)
    asked = ScramLogin(kind, user, b"", 0, b"", nonce)
    challenge = await _token(link, asked.first())
    fields = dict(each.partition("=")[::2] for each in challenge.decode(errors="replace").split(","))
    try:
        salt, iterations = base64.b64decode(fields["s"], validate=True), int(fields["i"])
        if not 0 < iterations <= MAX_ITERATIONS:
            raise ValueError(iterations)
        login = ScramLogin(kind, user, salt, iterations, salted(kind, password, salt, iterations), nonce)
        final = login.final(challenge)
    except (KeyError, ValueError, AuthenticationFailed):
        raise LoginRefused(f"{_FAILED}: the broker's message is not one of SCRAM") from None
    proof = await _token(link, final)
    try:
        login.verify(proof)
    except AuthenticationFailed:
        raise LoginRefused(f"{_FAILED}: the broker does not know the user's keys") from None


async def _token(link: NegotiatedLink, token: bytes) -> bytes:
    answer = await _ask(link, ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest(auth_bytes=token))
    if answer.error_code:
        raise LoginRefused(f"{_FAILED}: {answer.error_message or 'the broker refuses the login'}")
    return bytes(answer.auth_bytes)


async def _ask(link: NegotiatedLink, api: ApiKey, request: Message) -> Any:
    return await link.request(api, VERSIONS[api], request, timeout_ms=TIMEOUT_MS)
