"""The settings of one broker about who it is, where it listens, and which clients may do what."""

from __future__ import annotations

import contextlib
import ipaddress
from typing import Any, Final, Literal

from purgatorio.broker.config.declare import Settings
from purgatorio.broker.log.setting import MAX_INT, ConfigType, flag, number, other, text

_KIB: Final = 1024
WILDCARD_HOSTS: Final = frozenset({"0.0.0.0", "::"})
"""Every address of this machine: to listen on, not to connect to."""
AuthorizerText = Literal["", "StandardAuthorizer", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"]
_MECHANISM: Final = "(PLAIN|SCRAM-SHA-256|SCRAM-SHA-512|OAUTHBEARER)"
_PER_LISTENER: Final = ("ssl_", "sasl_", "connections_max_reauth_ms")


def is_per_listener(name: str) -> bool:
    """Return whether a listener may have a setting of this field name for itself (`listener.name.external.…`)."""
    return name.startswith(_PER_LISTENER)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


class AddressSettings(Settings):
    """Identity, listeners, TLS, access control and SASL."""

    # Identity and address
    broker_id: int = number(
        1,
        "The broker's id; in a cluster, the id of its first broker.",
        le=MAX_INT - 100,
        names=("broker.id", "node.id"),
    )
    rack: str | None = text(None, "The rack, announced in metadata.", min_length=1, names=("broker.rack",))
    host: str = text("127.0.0.1", "The address to listen on for Kafka clients.", min_length=1)
    port: int = number(9092, "The port to listen on for Kafka clients; 0 takes any free one.", le=65535)
    advertised_host: str | None = text(
        None,
        "The host that clients are told to connect to. Not set: `host`, or localhost if that is every interface.",
        min_length=1,
    )
    advertised_port: int | None = other(
        None,
        "The port that clients are told to connect to. Not set: the port listened on.",
        ConfigType.INT,
        ge=1,
        le=65535,
    )

    # Listeners
    listeners: str | None = text(
        None,
        "The listeners for clients, e.g. INTERNAL://0.0.0.0:29092,EXTERNAL://0.0.0.0:9092; those of the next brokers "
        "of a cluster are one port higher each. Not set: one listener PLAINTEXT on `host` and `port`.",
        min_length=1,
    )
    advertised_listeners: str | None = text(
        None,
        "The addresses that clients of each listener are told to connect to, e.g. INTERNAL://broker:29092,"
        "EXTERNAL://localhost:9092; counted up like `listeners`. Not set: those of `listeners`.",
        min_length=1,
    )
    listener_security_protocol_map: str | None = text(
        None,
        "The security protocol of each listener, e.g. INTERNAL:PLAINTEXT,EXTERNAL:SASL_SSL. The protocols PLAINTEXT, "
        "SSL, SASL_PLAINTEXT and SASL_SSL are listener names of their own.",
    )
    inter_broker_listener_name: str | None = text(
        None,
        "Must be a listener's name, as in Kafka. The brokers of one process use it only while no listener has "
        "security; otherwise they have a listener of their own on loopback, with a secret of their own.",
    )
    cluster_port: int | None = other(
        None,
        "With a store: the port on which the other brokers of a cluster on several hosts connect to this one, with the "
        "cluster's secret; 0 takes any free one. They connect to `advertised.host`, or `host`.",
        ConfigType.INT,
        ge=0,
        le=65535,
    )
    security_inter_broker_protocol: Literal["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"] = text(
        "SASL_PLAINTEXT",
        "With a store: how the brokers of a cluster on several hosts know each other, at `cluster.port`: by the secret "
        "in cluster.secret.file (SASL_PLAINTEXT, not encrypted), by TLS with client certificates (SSL), or by both "
        "(SASL_SSL). The files for TLS are listener.name.brokers.ssl.keystore.location and "
        "listener.name.brokers.ssl.truststore.location. The brokers of one process do not need it.",
    )
    listener_name: dict[str, Any] = other(
        {},
        "Settings of one listener, e.g. listener.name.external.ssl.client.auth, which win over those of all listeners; "
        "the listener of the brokers on several hosts is `brokers`.",
        ConfigType.PASSWORD,  # there may be some among them
    )

    # TLS
    as_version: Literal["3.9", "4.0", "4.1", "4.2", "4.3", "4.4", "latest"] = text(
        "latest",
        "Purgatorio's own: the release of Apache Kafka as which brokers answer: with its APIs, their versions, and its "
        "features. latest: all that is answered here.",
    )
    ssl_keystore_type: Literal["PEM"] = text("PEM", "The form of ssl.keystore.location. Kafka's default is JKS.")
    ssl_keystore_location: str | None = text(
        None, "The PEM file with the broker's private key and certificate chain.", min_length=1
    )
    ssl_key_password: str | None = other(None, "The password of the private key, if it has one.", ConfigType.PASSWORD)
    ssl_truststore_type: Literal["PEM"] = text("PEM", "The form of ssl.truststore.location. Kafka's default is JKS.")
    ssl_truststore_location: str | None = text(
        None, "The PEM file with the certificates of the authorities that sign clients' certificates.", min_length=1
    )
    ssl_client_auth: Literal["none", "requested", "required"] = text(
        "none", "Whether clients show a certificate: required, requested (without one they are anonymous), or none."
    )
    ssl_enabled_protocols: str = other(
        "TLSv1.2,TLSv1.3",
        "The versions of TLS that are spoken.",
        ConfigType.LIST,
        pattern=r"^TLSv1\.[23](,TLSv1\.[23])*$",
    )
    ssl_endpoint_identification_algorithm: Literal["https", ""] = text(
        "https",
        "Whether a broker of a cluster on several hosts makes sure that another one's certificate names the host to "
        "which it connects (https), or takes any certificate of the authority (empty).",
    )
    ssl_principal_mapping_rules: str = text(
        "DEFAULT",
        "How a client's name is made from its certificate: rules like RULE:^CN=(.*?),.*$/$1/L with commas between; "
        "the first that matches counts, and DEFAULT takes the whole distinguished name (KIP-371).",
    )

    # Access control
    authorizer_class_name: AuthorizerText = text(
        "",
        "StandardAuthorizer, or Kafka's full name of it: each request needs permissions, which ACLs give. Not set: "
        "every client may do everything.",
    )
    super_users: str = text(
        "",
        "Principals that may do everything, with semicolons between, e.g. User:admin;User:CN=root,C=DE. The brokers "
        "themselves need not be among them.",
        pattern=r"^\s*([^:;]+:[^;]+(;\s*[^:;]+:[^;]+)*;?)?\s*$",
    )
    allow_everyone_if_no_acl_found: bool = flag(
        False, "Whether every client may use a resource that no ACL is about. Otherwise only super users may."
    )

    # SASL
    sasl_enabled_mechanisms: str = other(
        "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "The mechanisms by which clients of SASL listeners authenticate. Kafka's default is GSSAPI, which is not here.",
        ConfigType.LIST,
        pattern=rf"^{_MECHANISM}(,{_MECHANISM})*$",
    )
    sasl_users: str | None = other(
        None,
        "Purgatorio's own: the first users, e.g. alice=alice-secret,bob=bob-secret, for PLAIN and SCRAM. Those of "
        "SCRAM can be changed later.",
        ConfigType.PASSWORD,
    )
    sasl_jaas_config: str | None = other(
        None,
        "Users of PLAIN as Kafka's brokers have them; of one listener: listener.name.external.plain.sasl.jaas.config.",
        ConfigType.PASSWORD,
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = text(
        None, "Where the public keys of the tokens' issuer are, as a JSON Web Key Set: an https, http or file URL."
    )
    sasl_oauthbearer_expected_audience: str | None = text(
        None, "Audiences, with commas between, of which a token must name one."
    )
    sasl_oauthbearer_expected_issuer: str | None = text(None, "The issuer that a token must name.", min_length=1)
    sasl_oauthbearer_clock_skew_seconds: int = number(
        30, "How much the clocks of brokers and issuer may differ.", le=3_600
    )
    sasl_oauthbearer_sub_claim_name: str = text("sub", "The claim of a token that has the user's name.", min_length=1)
    sasl_oauthbearer_unsecured: bool = flag(
        False,
        "Purgatorio's own: take tokens without a signature (KIP-255), which everybody can make for any name. In Kafka "
        "that is the default.",
    )
    sasl_server_max_receive_size: int = number(
        512 * _KIB, "Largest request of a client that has not authenticated.", ge=_KIB
    )
    connections_max_reauth_ms: int = number(
        0, "Time after which clients must authenticate again (KIP-368); 0: their sessions last.", long=True
    )
    connection_failed_authentication_delay_ms: int = number(
        100, "Time that the answer to a failed authentication waits (KIP-306)."
    )

    @property
    def advertised(self) -> tuple[str, int]:
        """The advertised host and port; port 0 if the broker has yet to take a free one."""
        host = self.advertised_host or ("localhost" if self.host in WILDCARD_HOSTS else self.host)
        return host, self.advertised_port or self.port
