"""From options, environment and context to a client: what is wrong is said before anybody is asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rmqctl.client.access import Access
from rmqctl.client.auth import signed
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.command import Command, HeaderEncoding
from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.cli.scripted_server import served

from .calls import call, closed_address

Captured = pytest.CaptureFixture[str]
_N = ("-n", "127.0.0.1:9")
_CREDENTIALS = "accessKey: operator\nsecretKey: s3cret\n"


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (("--map-address", "broker-a"), "--map-address expects BROKER=HOST:PORT, not 'broker-a'."),
        (("--map-address", "=a:1"), "--map-address expects BROKER=HOST:PORT, not '=a:1'."),
        (("--map-address", "broker-a=nowhere"), "Invalid address 'nowhere'."),
        (("--tls-verify", "maybe"), "Invalid TLS verification 'maybe'."),
        (("--tls-ca", "/no/such.pem"), "Cannot read the CA certificate /no/such.pem: no such file or directory."),
        (("--tls-key", "/no/such.pem"), "A client key requires its certificate."),
        (("--tls-cert", "/no/such.pem"), "Cannot read the client certificate /no/such.pem: no such file or"),
        (("--credentials", "/no/such"), "Cannot read the credentials file /no/such: no such file or directory."),
    ],
)
def test_a_setting_that_can_not_be_used_is_one_sentence(argv: tuple[str, ...], sentence: str, capsys: Captured) -> None:
    result = call(capsys, "group", "list", *_N, *argv)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"rmqctl: {sentence}")
    assert len(result.err.splitlines()) <= 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ('header = "XML"', "Invalid header encoding 'XML'."),
        ('[contexts.c.tls]\nverify = "maybe"', "Invalid TLS verification 'maybe'."),
        ('[contexts.c.tls]\nca = "gone.pem"', "gone.pem: no such file or directory."),
        ('[contexts.c.tls]\nca = "a\\u0000b"', "invalid file name."),
        ('[contexts.c.tls]\nca_file = "x"', "has an unknown setting 'ca_file' in tls of context c."),
        ('[contexts.c.map-address]\nbroker-a = "nowhere"', "Invalid address 'nowhere'."),
        ("[contexts.c.map-address]\nbroker-a = 5", "map-address in context c must be a table"),
        ('credentials = "gone"', "gone: no such file or directory."),
        (
            'credentials = "~nobody-has-this-name/x"',
            "home directory in ~nobody-has-this-name/x.",
        ),
        ('readonly = "yes"', "readonly in context c must be true or false."),
        ('secretKey = "s3cret"', "has an unknown setting 'secretKey' in context c."),
    ],
)
def test_a_context_that_can_not_be_used_is_one_sentence(
    settings: str, words: str, config_file: Path, capsys: Captured
) -> None:
    config_file.write_text(f"[contexts.c]\n{settings}\n")
    result = call(capsys, "group", "list", *_N, "--context", "c")
    assert (result.code, result.out) == (2, "")
    assert words in result.err.splitlines()[0]
    assert "s3cret" not in result.err


def test_a_configuration_that_is_nested_without_end_is_a_mistake(config_file: Path, capsys: Captured) -> None:
    config_file.write_text("x = " + "[" * 100_000)
    result = call(capsys, "group", "list")
    assert result.code == 2
    assert "is not valid TOML" in result.err


def _cluster() -> Cluster:
    return Cluster(BrokerState("broker-a", topics={"T": [Queue(10)]}))


def _is_signed(command: Command, access: Access) -> bool:
    fields = {name: value for name, value in command.ext_fields.items() if name != "Signature"}
    credentials = access.credentials()
    assert credentials is not None
    return signed(Command(command.code, fields, command.body), credentials).ext_fields == command.ext_fields


def test_a_context_says_who_asks_how_and_where(tmp_path: Path, config_file: Path, capsys: Captured) -> None:
    """Files are relative to the configuration's folder, whatever folder the command runs in."""
    cluster = _cluster()
    (tmp_path / "keys").write_text(_CREDENTIALS)
    with served(cluster) as name_server:
        here, cluster.addresses["broker-a"] = cluster.addresses["broker-a"], closed_address()
        config_file.write_text(
            f'[contexts.c]\nnamesrv = "{name_server}"\ncredentials = "keys"\nheader = "rocketmq"\n'
            f'[contexts.c.map-address]\nbroker-a = "{here}"\n'
        )
        result = call(capsys, "cluster", "list", "--context", "c")
    assert result.code == 0, result.err
    asked = [*cluster.name_server.asked, *cluster.servers["broker-a"].asked]
    assert {command.encoding for command in asked} == {HeaderEncoding.ROCKETMQ}
    access = Access("ns:1", 1.0, credentials_path=str(tmp_path / "keys"))
    assert all(_is_signed(command, access) for command in asked)
    assert cluster.servers["broker-a"].asked


def test_flags_stand_above_the_context(tmp_path: Path, config_file: Path, capsys: Captured) -> None:
    cluster = _cluster()
    (tmp_path / "keys").write_text(_CREDENTIALS)
    with served(cluster) as name_server:
        here, cluster.addresses["broker-a"] = cluster.addresses["broker-a"], closed_address()
        config_file.write_text(
            f'[contexts.c]\ncredentials = "gone"\n[contexts.c.map-address]\nbroker-a = "{closed_address()}"\n'
        )
        flags = ("--credentials", str(tmp_path / "keys"), "--map-address", f"broker-a={here}")
        assert call(capsys, "cluster", "list", "--context", "c", "-n", name_server).code == 2
        result = call(capsys, "cluster", "list", "--context", "c", "-n", name_server, *flags)
    assert result.code == 0, result.err


def test_name_servers_by_url_are_looked_up_within_the_deadline(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)

    async def scenario() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nns:1;ns2:2")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            client = await Access(f" http://127.0.0.1:{port}/ ", 60.0).connect()
        assert client.name_servers == ("ns:1", "ns2:2")
        assert client.deadline.seconds < 60.0

    asyncio.run(scenario())
    result = call(capsys, "group", "list", "-n", f"http://user:s3cret@{closed_address()}/nsaddr?token=s3cret")
    assert result.code == 6
    assert "s3cret" not in result.err


# Options that every command takes


def _rows(capsys: Captured, name_server: str, *argv: str) -> tuple[int, list[str]]:
    result = call(capsys, *argv, "-n", name_server)
    return result.code, result.out.split()


def test_rows_are_filtered_and_sorted_by_options_at_the_root_or_the_command(capsys: Captured) -> None:
    brokers = [BrokerState(f"broker-{name}", disk_ratio=ratio) for name, ratio in (("a", 0.1), ("b", 0.5), ("c", 0.3))]
    words: tuple[str, ...] = ("cluster", "list", "-o", "name")
    with served(Cluster(*brokers)) as name_server:

        def rows(*argv: str) -> tuple[int, list[str]]:
            return _rows(capsys, name_server, *argv)

        assert rows(*words, "--sort", "-commitLogDiskRatio") == (0, ["broker-b", "broker-c", "broker-a"])
        assert rows("--sort", "commitLogDiskRatio", *words) == (0, ["broker-a", "broker-c", "broker-b"])
        assert rows(*words, "--where", "commitLogDiskRatio>0.2") == (0, ["broker-b", "broker-c"])
        both = ("--where", "commitLogDiskRatio>0.2", "--where", "brokerName!=broker-b")
        assert rows(*words, *both) == (0, ["broker-c"])
        assert rows(*both, *words) == (0, ["broker-c"])
        assert rows(*both, *words, "--where", "brokerName~a$")[1] in ([], ["broker-a"])
        assert rows(*words, "--where", "commitLogDiskRatio>9") == (0, [])
        result = call(capsys, *words, "--where", "zzz>1", "-n", name_server)
        assert (result.code, result.out) == (2, "")
        assert "Unknown key 'zzz'" in result.err


@pytest.mark.parametrize("text", ["lag", ">5", "", "lag ~ ("])
def test_what_is_no_condition_is_a_mistake_before_anybody_is_asked(text: str, capsys: Captured) -> None:
    result = call(capsys, "group", "list", *_N, "--where", text)
    assert result.code == 2
    assert result.err.startswith("rmqctl: --where: ")


def test_a_namespace_stands_before_the_names_of_groups_and_topics(capsys: Captured) -> None:
    state = BrokerState("broker-a", topics={"NS%T": [Queue(10)]}, offsets={"NS%G": {"NS%T": {0: 4}}})
    state.configured.add("NS%G")
    cluster = Cluster(state)
    with served(cluster) as name_server:
        result = call(capsys, "offset", "show", "G", "--namespace", "NS", "-n", name_server, "-o", "json")
    assert result.code == 0, result.err
    asked: list[Any] = [
        command.ext_fields["consumerGroup"]
        for command in cluster.servers["broker-a"].asked
        if command.code == Q.GET_CONSUME_STATS
    ]
    assert set(asked) == {"NS%G"}
