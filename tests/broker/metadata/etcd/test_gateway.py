"""Requests to the members of an etcd: who is asked, who is asked next, and what is told of errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from purgatorio.broker.metadata.etcd.address import EtcdAddress
from purgatorio.broker.metadata.etcd.gateway import EtcdGateway, gateway
from purgatorio.broker.metadata.etcd.requests import EtcdRefused, EtcdUnreachable

Answer = Callable[[str, dict[str, Any], dict[str, str]], Any]
LEADERLESS = {"error": "etcdserver: no leader", "message": "etcdserver: no leader", "code": 14}


class Members:
    """Members of an etcd, each of which answers as a function says."""

    def __init__(self) -> None:
        self.servers: list[asyncio.Server] = []
        self.asked: list[tuple[int, str]] = []

    async def add(self, answer: Answer) -> int:
        """Start one more; returns its port."""
        number = len(self.servers)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while True:
                    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                    headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
                    body = json.loads(await reader.readexactly(int(headers["content-length"])))
                    path = head[0].split()[1]
                    self.asked.append((number, path))
                    told = json.dumps(answer(path, body, headers)).encode()
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(told), told))
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self.servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    def stop(self, number: int) -> None:
        """Refuse connections to one of them."""
        self.servers[number].close()


@pytest.fixture
async def members() -> AsyncIterator[Members]:
    members = Members()
    yield members
    for server in members.servers:
        server.close()


def of(*ports: int, login: str = "") -> EtcdAddress:
    return EtcdAddress.parse(f"etcd://{login}{','.join(f'127.0.0.1:{port}' for port in ports)}")


def answers(what: Any) -> Answer:
    return lambda path, body, headers: what


async def ask(client: EtcdGateway) -> dict[str, Any]:
    return await client.call("kv/range", {"key": ""})


async def test_the_member_that_answered_last_is_asked_again(members: Members) -> None:
    ports = [await members.add(answers({"by": number})) for number in range(2)]
    async with gateway(of(*ports)) as client:
        assert [(await ask(client))["by"] for _ in range(2)] == [0, 0]
        members.stop(0)
        await client.close()  # and with it the connection that was open
    async with gateway(of(*ports)) as client:
        assert [(await ask(client))["by"] for _ in range(2)] == [1, 1]


async def test_a_member_without_a_leader_counts_as_one_that_does_not_answer(members: Members) -> None:
    ports = [await members.add(answers(LEADERLESS)), await members.add(answers({"by": 1}))]
    async with gateway(of(*ports)) as client:
        assert (await ask(client))["by"] == 1
        assert [number for number, _ in members.asked] == [0, 1]
        await ask(client)
        assert [number for number, _ in members.asked] == [0, 1, 1]


async def test_when_nobody_answers_each_members_reason_is_told(members: Members) -> None:
    ports = [await members.add(answers(LEADERLESS)), await members.add(answers({}))]
    members.stop(1)
    async with gateway(of(*ports)) as client:
        with pytest.raises(EtcdUnreachable, match=f"{ports[0]}: etcdserver: no leader; .*{ports[1]}: All connection"):
            await ask(client)


async def test_what_is_no_etcd_is_told(members: Members) -> None:
    port = await members.add(answers("hello"))
    async with gateway(of(port)) as client:
        with pytest.raises(EtcdUnreachable, match="etcd's answer is no object"):
            await ask(client)


async def test_a_refusal_is_raised_and_nobody_else_is_asked(members: Members) -> None:
    refusal = {"error": "etcdserver: permission denied", "message": "etcdserver: permission denied", "code": 7}
    ports = [await members.add(answers(refusal)), await members.add(answers({}))]
    async with gateway(of(*ports)) as client:
        with pytest.raises(EtcdRefused, match="permission denied") as raised:
            await ask(client)
    assert raised.value.code == 7
    assert [number for number, _ in members.asked] == [0]


async def test_a_user_logs_in_and_again_when_the_token_has_expired(members: Members) -> None:
    tokens = ["first", "second"]

    def answer(path: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
        if path.endswith("/authenticate"):
            assert body == {"name": "me", "password": "secret"}
            return {"token": tokens.pop(0)}
        if headers["authorization"] == "first" and members.asked.count((0, path)) > 1:
            return {"error": "etcdserver: invalid auth token", "message": "etcdserver: invalid auth token", "code": 16}
        return {"token": headers["authorization"]}

    port = await members.add(answer)
    async with gateway(of(port, login="me:secret@")) as client:
        assert (await ask(client))["token"] == "first"
        assert (await ask(client))["token"] == "second"


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_certificates_that_cannot_be_used_are_told(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=f"the certificates in {path} cannot be used: "):
        EtcdGateway(EtcdAddress.parse(f"etcds://a?ca={path}"))


async def test_a_host_that_can_be_none_does_not_answer() -> None:
    async with gateway(EtcdAddress(("http://a b:2379",), "x")) as client:
        with pytest.raises(EtcdUnreachable, match="http://a b:2379: "):
            await ask(client)


async def test_a_watch_that_is_refused_or_broken_is_told(members: Members) -> None:
    refused = await members.add(answers({"error": {"grpc_code": 7, "message": "etcdserver: permission denied"}}))
    async with gateway(of(refused)) as client:
        with pytest.raises(EtcdRefused, match="permission denied"):
            await anext(client.watch({}))
    members.stop(0)
    async with gateway(of(refused)) as client:
        with pytest.raises(EtcdUnreachable, match="All connection attempts failed"):
            await anext(client.watch({}))
