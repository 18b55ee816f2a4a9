"""Fixtures for tests against real RocketMQ: one cluster a version, two brokers each, shared by all tests.

Of processes that run tests side by side, one takes all tests of a release: it starts that cluster once. `make test`
runs those marked smoke on 5.4.0, `make test-real` all of them. Without Java or Maven these tests skip, and the last
line says what to install; under CI=true that is a failure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.real.harness.secured_cluster import SecuredCluster

from .harness.cluster import Cluster
from .harness.discovery import NameServerPage
from .harness.jars import RELEASES, VERSIONS, missing_tools
from .harness.process import QUICK_START
from .harness.proxy import Proxy, behind_a_proxy
from .harness.rmqctl import PATIENT, Rmqctl
from .harness.sandbox import SandboxProcess
from .harness.small_disk import SmallDiskCluster, missing_namespaces

# Files with brokers of their own, or none.
_WITHOUT_CLUSTER = (
    "test_apache_suites", "test_sandbox_", "test_brokers", "test_consumer_control", "test_consumer_faults",
    "test_secured", "test_security", "test_least_privileges", "test_lite_topics", "test_transactions",
    "test_truth_missing", "test_truth_random",
)  # fmt: skip
# Reading, resets of groups that run and that do not, undo, send-back, pop, consuming, and the sandbox beside it: what
# runs on the newest release as well.
_CORE = (
    "test_clean_expired", "test_consumer_run", "test_dead_letter_replay", "test_dead_letters", "test_group_changes",
    "test_group_details", "test_lists", "test_lite_topics", "test_message_find", "test_message_get",
    "test_message_resend", "test_no_trace", "test_offset_online", "test_offset_reset", "test_offset_show",
    "test_sandbox_differential", "test_sandbox_java", "test_sandbox_settings", "test_stuck_messages",
    "test_topic_changes", "test_topics", "test_transactions",
)  # fmt: skip
_LOGS = Path(__file__).parent.parent.parent / ".real-logs"
_FAILED = pytest.StashKey[bool]()


class _ByRelease(LoadScopeScheduling):
    """Keeps together the tests that share a release's cluster, and those of each file that does not."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        release = next((version for version in RELEASES if version in nodeid), path)
        return f"{path} {release}" if Path(path).name.startswith(_WITHOUT_CLUSTER) else release


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    return _ByRelease(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    ours = [item for item in items if here in item.path.parents]
    # What 4.9 does not have is not run there, rather than called passed.
    left_out = [item for item in ours if item.get_closest_marker("since_5") and "4.9.7" in item.name]
    left_out += [item for item in ours if RELEASES[-1] in item.name and item.path.stem not in _CORE]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
    missing = missing_tools()
    for item in ours:
        item.add_marker(pytest.mark.timeout(300))
        if missing is not None:
            item.add_marker(pytest.mark.skip(reason=missing))


def pytest_sessionstart() -> None:
    if (missing := missing_tools()) is not None and os.environ.get("CI") == "true":
        raise pytest.UsageError(missing)


def pytest_unconfigure(config: pytest.Config) -> None:
    # The last line of all, after pytest's own; with processes side by side, only the first one prints it.
    if os.environ.get("CI") == "true" or hasattr(config, "workerinput"):
        return
    if (missing := missing_tools()) is not None:
        print(f"No test ran against real RocketMQ: {missing}.")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    report = yield
    if report.failed:
        item.session.stash[_FAILED] = True
    return report


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the commands of a test a state folder, and so a journal, of its own."""
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))


@pytest.fixture(scope="session", params=RELEASES)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a cluster of two brokers; its logs stay in .real-logs/ when a test failed."""
    version = request.param
    folder = tmp_path_factory.mktemp(f"rocketmq-{version}") / "home"
    running = Cluster(version, folder, broker_count=2, settings={"enablePropertyFilter": "true"})
    try:
        yield running.wait()
    finally:
        running.stop()
        _keep_logs(request, folder, version)


@pytest.fixture(scope="session", params=RELEASES)
def sandbox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxProcess]:
    """Run a sandbox of two brokers that plays the release."""
    version = request.param
    folder = tmp_path_factory.mktemp(f"sandbox-{version}") / "home"
    running = SandboxProcess(version, folder, broker_count=2)
    try:
        yield running
    finally:
        running.stop()
        _keep_logs(request, folder, f"sandbox-{version}")


@pytest.fixture(scope="module", params=VERSIONS)
def small_disk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallDiskCluster]:
    if (missing := missing_namespaces()) is not None:
        assert os.environ.get("CI") != "true", missing
        pytest.skip(missing)
    running = SmallDiskCluster(request.param, tmp_path_factory.mktemp(f"small-disk-{request.param}") / "home")
    try:
        running.wait()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module", params=VERSIONS)
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """Run a broker behind TLS and accounts; 4.9.7 wants certificates of clients as well."""
    version = request.param
    folder = tmp_path_factory.mktemp(f"secured-{version}") / "home"
    running = SecuredCluster(version, folder, client_certificates="require" if version == "4.9.7" else "none")
    try:
        yield running.wait()
    finally:
        running.stop()
        _keep_logs(request, folder, f"secured-{version}")


@pytest.fixture(scope="module", params=VERSIONS)
def binary_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a broker, a name server and Java clients that write binary headers."""
    version = request.param
    folder = tmp_path_factory.mktemp(f"binary-{version}") / "home"
    running = Cluster(version, folder, jvm=(*QUICK_START, "-Drocketmq.serialize.type=ROCKETMQ"))
    try:
        yield running.wait()
    finally:
        running.stop()
        _keep_logs(request, folder, f"binary-{version}")


@pytest.fixture(scope="module")
def proxy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """Run a proxy in front of a broker of its own, `proxy.cluster`."""
    folder = tmp_path_factory.mktemp("proxy") / "home"
    try:
        with behind_a_proxy(Cluster("5.4.0", folder)) as proxy:
            yield proxy
    finally:
        _keep_logs(request, folder, "proxy")


@pytest.fixture
def name_server_page() -> Iterator[NameServerPage]:
    """Serve a page that names name servers."""
    page = NameServerPage()
    yield page
    page.close()


def _keep_logs(request: pytest.FixtureRequest, folder: Path, name: str) -> None:
    if not request.session.stash.get(_FAILED, False):
        return
    kept = _LOGS / name
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    for log in folder.rglob("*.log"):
        shutil.copy(log, kept / f"{log.parent.name}-{log.name}")


@pytest.fixture
def rmqctl(request: pytest.FixtureRequest, cluster: Cluster) -> Rmqctl:
    """Run rmqctl as its users do, against the cluster; in the smoke with a deadline that a busy machine meets."""
    return Rmqctl(cluster.namesrv, timeout=PATIENT if request.node.get_closest_marker("smoke") else "")
