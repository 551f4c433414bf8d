"""Runs one broker of a cluster on several hosts: the event loop, the signals, and the greeting."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Final

from purgatorio.admin.cli.hosts.hosted import HostedBrokers
from purgatorio.admin.cli.hosts.knocking import NotAccepted, knock
from purgatorio.admin.cli.hosts.secret import SecretUnusable, read_secret
from purgatorio.admin.cli.logging_setup import configure_logging
from purgatorio.admin.cli.serving import (
    THREAD_SWITCH_SECONDS,
    first_of,
    report_ready,
    shown,
    stop_on_signals,
    why_not_listening,
)
from purgatorio.admin.cluster import Cluster
from purgatorio.admin.web.bodies import json_response
from purgatorio.admin.web.front import Front
from purgatorio.admin.web.proofs import asked_as
from purgatorio.admin.web.server import OWN_PATH
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.config.address_settings import is_loopback
from purgatorio.broker.config.authentication import first_credentials
from purgatorio.broker.layers.faults import AnyFault
from purgatorio.broker.metadata.broker_lifecycle import RegistrationLost
from purgatorio.broker.metadata.controller import DuplicateBrokerId
from purgatorio.broker.metadata.etcd.address import EtcdAddress
from purgatorio.broker.metadata.etcd.gateway import gateway
from purgatorio.broker.metadata.etcd.store import BY_CERTIFICATES, ClusterMembership, EtcdStore, StoreUnusable
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.node.broker_maker import new_cluster_id
from purgatorio.broker.node.member import ProcessMember
from purgatorio.broker.security.broker_credentials import BrokerCredentials
from purgatorio.broker.security.tls import TlsError
from purgatorio.broker.server import open_files
from purgatorio.broker.time.event_loop import loop_factory
from purgatorio.broker.time.garbage import GarbageTuning
from purgatorio.broker.time.movable_clock import MovableClock
from purgatorio.broker.time.system_clock import SystemClock

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2


def run(config: ClusterConfig, faults: Sequence[AnyFault] = ()) -> int:
    """Run the broker until a signal stops it; returns the process's exit code."""
    configure_logging(config.log_format, config.log_level)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs each request
    open_files.raise_limit()
    Front.load()
    sys.setswitchinterval(THREAD_SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(serve(config, faults))


async def serve(config: ClusterConfig, faults: Sequence[AnyFault] = ()) -> int:
    """Run the broker until a signal stops it; returns the process's exit code."""
    stop = asyncio.Event()
    stop_on_signals(stop)
    code = 0
    # A broker that does not start, or ends, may bring its error in a group, with what its stop has met.
    try:
        secret = _secret(config)
        async with opened_store(config, secret) as store:
            await knock(config.broker_config(0), store.image, SystemClock())
            code = await _serve(config, faults, store, secret, stop)
    except* (SecretUnusable, TlsError, ValueError) as group:
        code = _print_first(group, EXIT_USAGE)
    except* (StoreUnusable, DuplicateBrokerId, RegistrationLost, NotAccepted) as group:
        code = _print_first(group, EXIT_FAILED)
    return code


def _print_first(group: BaseExceptionGroup[BaseException], code: int) -> int:
    """Print the first error of a group as a line; returns the exit code."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    print(f"purgatorio: {error}", file=sys.stderr)
    return code


@contextlib.asynccontextmanager
async def opened_store(config: ClusterConfig, secret: bytes) -> AsyncIterator[EtcdStore]:
    """The store at the address that the settings have, with its first image.

    Raises:
        StoreUnusable: as `EtcdStore.begin`.
    """
    address = EtcdAddress.parse(config.store or "")
    cluster_id = new_cluster_id(secrets.token_bytes)
    credentials = first_credentials(config.broker, secrets.token_bytes)
    async with gateway(address) as client:
        store = EtcdStore(
            client,
            address.prefix,
            config.broker.broker_id,
            clock=SystemClock(),
            call_soon=asyncio.get_running_loop().call_soon,
        )
        membership = ClusterMembership(config.broker.security_inter_broker_protocol, _proof(config, secret))
        await store.begin(ClusterImage(version=0, cluster_id=cluster_id, scram_credentials=credentials), membership)
        yield store


def _secret(config: ClusterConfig) -> bytes:
    """Return the cluster's secret; where certificates alone identify brokers, one of this process.

    Raises:
        SecretUnusable: see `read_secret`.
    """
    if config.broker.security_inter_broker_protocol == BY_CERTIFICATES:
        return secrets.token_bytes()
    return read_secret(config.cluster_secret_file)


def _proof(config: ClusterConfig, secret: bytes) -> str:
    if config.broker.security_inter_broker_protocol == BY_CERTIFICATES:
        return ""
    return BrokerCredentials(secret).derived(b"metadata store").hex()


async def _serve(
    config: ClusterConfig, faults: Sequence[AnyFault], store: EtcdStore, secret: bytes, stop: asyncio.Event
) -> int:
    token = _token(config, secret)
    own = config.model_copy(update={"admin_token": token})
    member = ProcessMember(0, store, secret)
    cluster = Cluster(own, MovableClock(), admin=False, garbage=GarbageTuning(), member=member)
    for rule in faults:
        cluster.faults.add(rule)
    brokers = HostedBrokers(cluster, store, token)
    front = Front(brokers, token=token, read_token=config.admin_read_token, open_to_all=config.admin_auth == "none")
    front.own = json_response({"error": "this broker is starting"}, 503)
    following = asyncio.create_task(store.run(), name="etcd")
    try:
        try:
            await first_of(_start(cluster, front, config, store), _ended(following), stop.wait())
        except OSError as error:
            print(f"purgatorio: {why_not_listening(config) or error}", file=sys.stderr)
            return EXIT_FAILED
        if not stop.is_set():
            print(greeting(cluster, front, shows_token=config.admin_token is None), flush=True)
            report_ready()
            await first_of(stop.wait(), cluster.failed(), _ended(following))
        return 0
    finally:
        await front.stop()
        await cluster.stop()
        await brokers.close()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _ended(following: asyncio.Task[None]) -> None:
    """Wait for the end of the task, which raises why the store is of no use any more; leave it running otherwise."""
    await asyncio.shield(following)


async def _start(cluster: Cluster, front: Front, config: ClusterConfig, store: EtcdStore) -> None:
    await front.start(*config.admin_address)
    await cluster.start()
    # One port has both the page of all brokers and what the others ask of this one: hosts of one machine, each with a
    # second port beside the first, took each other's.
    page = f"http://{config.advertised_host or config.host}:{front.address[1]}{OWN_PATH}"
    front.own = cluster.admin.below(config.admin_address[0], asked_as(config.broker.broker_id, page))
    store.announce(page)


def _token(config: ClusterConfig, secret: bytes) -> str | None:
    """Return what the admin HTTP of every broker asks for: beyond this machine it must be the same at all of them."""
    if config.admin_token is not None or config.admin_auth == "none" or is_loopback(config.admin_address[0]):
        return config.admin_token
    return BrokerCredentials(secret).derived(b"admin token").hex()


def greeting(cluster: Cluster, front: Front, *, shows_token: bool) -> str:
    """Return the broker, the cluster's other brokers, and the page; a token that was set is not for terminals."""
    (broker,) = cluster.brokers
    others = [each for each in cluster.store.image.live_brokers if each != broker.broker_id]
    lines = [f"Purgatorio is running: broker {broker.broker_id} of cluster {cluster.cluster_id}"]
    lines.append(f"  clients     {shown(broker.endpoints)}")
    lines.append(f"  with        {', '.join(f'broker {each}' for each in sorted(others)) or 'no other broker yet'}")
    token = f"?token={front.token}" if front.token and shows_token else ""
    lines += [
        f"  page        {front.url}/{token}",
        f"  metrics     {front.url}{OWN_PATH}/metrics",
        "",
        "Ctrl-C stops it.",
    ]
    return "\n".join(lines)
