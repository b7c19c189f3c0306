"""A hub id where a model is expected. Every test asks a server on this machine; none reaches another address."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from narrows.models import load_model
from narrows.models.hub import _within, hub_id
from narrows.models.hub_refusals import Asked, Refused, Unreachable, reason_of, refused
from narrows.text import BadInput

from .conftest import DATA
from .hub_server import COMMIT, OTHER, Client, Handler, Hub, about, files, refuse

TOKEN = "hf_secretsecretsecret"
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 32000,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
CONFIG = json.dumps(LLAMA).encode()
PARAMETERS = 2 * 32000 * 256 + 2 * (4 * 256**2 + 3 * 256 * 512 + 2 * 256) + 256
LIMIT = 16 * 2**20


@pytest.fixture(scope="module")
def clients(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Client]]:
    """Clients with one cache, made once per environment."""
    base = tmp_path_factory.mktemp("hub")
    made: dict[str, Client] = {}

    def client(endpoint: str = "", **environment: str) -> Client:
        key = repr((endpoint, sorted(environment.items())))
        if key not in made:
            made[key] = Client(base / "cache", endpoint or hub.url, **environment)
        return made[key]

    yield client
    for one in made.values():
        one.close()
        said = one.log.read_text()
        assert said == "", "nothing but narrows' own lines may be printed"


@pytest.fixture
def ask(clients: Callable[..., Client]) -> Client:
    """A client without a token."""
    return clients()


def closed_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{one.getsockname()[1]}"


def error_of(said: dict[str, Any]) -> str:
    assert "error" in said, said
    assert said["slept"] <= 2
    text: str = said["error"]
    assert "\n" not in text
    assert TOKEN not in text
    return text


# ---------------------------------------------------------------- what is read


def test_an_id_that_is_not_in_the_catalogue_is_read_from_the_hub(hub: Hub, ask: Client) -> None:
    hub.repositories["acme/tiny"] = files({"config.json": CONFIG})
    said = ask("acme/tiny")
    assert said["name"] == "acme/tiny"
    assert said["parameters"] == PARAMETERS
    assert said["source"] == f"{hub.url}/acme/tiny/blob/{COMMIT}/config.json"
    assert said["assumptions"] == []


def test_a_branch_a_tag_and_a_commit_are_pinned_and_named(hub: Hub, ask: Client) -> None:
    hub.repositories["acme/pinned"] = files({"config.json": CONFIG}, **{"v1.0": OTHER, "refs/pr/3": OTHER})
    for revision in ("v1.0", "refs/pr/3", OTHER):
        said = ask(f"acme/pinned@{revision}")
        assert said["name"] == "acme/pinned"
        assert said["source"].endswith(f"/acme/pinned/blob/{OTHER}/config.json")
    assert ask("acme/pinned")["source"].endswith(f"/{COMMIT}/config.json")


def test_a_model_of_the_catalogue_is_asked_for_only_with_a_revision(hub: Hub, ask: Client) -> None:
    name = "meta-llama/Llama-2-7b-hf"
    hub.repositories[name] = files({"config.json": CONFIG})
    assert ask(name)["parameters"] == 6_738_415_616
    assert hub.asked(name) == []
    assert ask(f"{name}@main")["parameters"] == PARAMETERS
    assert hub.asked(name)


def test_a_name_that_only_begins_like_several_is_asked_for(hub: Hub, ask: Client) -> None:
    hub.repositories["meta-llama/Llama-2"] = files({"config.json": CONFIG})
    assert ask("meta-llama/Llama-2")["parameters"] == PARAMETERS


@pytest.mark.parametrize("revision", ["", "@main"])
def test_a_directory_beats_the_hub(revision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "acme" / f"local{revision}"
    folder.mkdir(parents=True)
    (folder / "config.json").write_bytes(CONFIG)
    monkeypatch.chdir(tmp_path)
    assert load_model(f"acme/local{revision}").unique_parameters() == PARAMETERS


def test_the_quantization_beside_a_config_is_read_at_the_same_commit(hub: Hub, ask: Client) -> None:
    quantized = json.dumps({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}).encode()
    hub.repositories["acme/modelopt"] = files({"config.json": CONFIG, "hf_quant_config.json": quantized})
    hub.repositories["acme/plain"] = files({"config.json": CONFIG})
    # one byte less per linear weight, and two scales of four bytes for each of the 14 matrices
    saved = ask("acme/plain")["bytes"] - ask("acme/modelopt")["bytes"]
    assert saved == 2 * (4 * 256**2 + 3 * 256 * 512) - 14 * 2 * 4
    beside = hub.asked("acme/modelopt/resolve/" + COMMIT)
    assert {one.path.rpartition("/")[2] for one in beside} == {"hf_quant_config.json", "quantize_config.json"}


def test_a_second_look_costs_one_request(hub: Hub, ask: Client) -> None:
    hub.repositories["acme/twice"] = files({"config.json": CONFIG})
    ask("acme/twice")
    before = len(hub.asked("acme/twice"))
    ask("acme/twice")
    assert [one.method for one in hub.asked("acme/twice")[before:]] == ["HEAD"]


def test_a_new_commit_replaces_what_is_in_the_cache(hub: Hub, ask: Client) -> None:
    hub.repositories["acme/moving"] = files({"config.json": CONFIG})
    ask("acme/moving")
    hub.repositories["acme/moving"] = files(
        {"config.json": json.dumps({**LLAMA, "vocab_size": 64000}).encode()}, main=OTHER
    )
    said = ask("acme/moving")
    assert said["parameters"] == PARAMETERS + 2 * 32000 * 256
    assert OTHER in said["source"]


# ---------------------------------------------------------------- the cache


def test_what_was_read_once_is_read_offline_and_said_so(hub: Hub, ask: Client, clients: Callable[..., Client]) -> None:
    hub.repositories["acme/kept"] = files({"config.json": CONFIG})
    ask("acme/kept")
    before = len(hub.requests)
    said = clients(HF_HUB_OFFLINE="1")("acme/kept")
    assert said["parameters"] == PARAMETERS
    assert COMMIT in said["source"]
    assert said["assumptions"] == [
        "'acme/kept' is taken from the local cache, the hub could not be reached (HF_HUB_OFFLINE is set)"
    ]
    assert len(hub.requests) == before


def test_without_a_network_the_cache_answers(hub: Hub, ask: Client, clients: Callable[..., Client]) -> None:
    hub.repositories["acme/unplugged"] = files({"config.json": CONFIG})
    ask("acme/unplugged")
    said = clients(closed_port())("acme/unplugged")
    assert said["parameters"] == PARAMETERS
    assert any("could not be reached (the connection was refused)" in one for one in said["assumptions"])


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_hub_that_is_down_leaves_the_cache(status: int, hub: Hub, ask: Client) -> None:
    name = f"acme/down-{status}"
    hub.repositories[name] = files({"config.json": CONFIG})
    ask(name)
    hub.repositories[name] = refuse(status)
    assert f"(it answers with HTTP {status})" in ask(name)["assumptions"][0]


def test_a_model_that_became_gated_is_read_from_the_cache(hub: Hub, ask: Client) -> None:
    hub.repositories["acme/closing"] = files({"config.json": CONFIG})
    ask("acme/closing")
    hub.repositories["acme/closing"] = refuse(401, "GatedRepo")
    assert "gives no access" in ask("acme/closing")["assumptions"][0]


def test_a_commit_in_the_cache_asks_nothing_and_assumes_nothing(hub: Hub, ask: Client) -> None:
    hub.repositories["acme/frozen"] = files({"config.json": CONFIG})
    ask("acme/frozen")
    before = len(hub.requests)
    said = ask(f"acme/frozen@{COMMIT}")
    assert said["parameters"] == PARAMETERS
    assert said["assumptions"] == []
    assert len(hub.requests) == before


def test_a_cache_of_another_tool_may_lack_the_quantization_and_that_is_said(clients: Callable[..., Client]) -> None:
    offline = clients(HF_HUB_OFFLINE="1")
    snapshot = offline.home / "hub" / "models--acme--foreign"
    (snapshot / "snapshots" / COMMIT).mkdir(parents=True)
    (snapshot / "refs").mkdir()
    (snapshot / "refs" / "main").write_text(COMMIT)
    (snapshot / "snapshots" / COMMIT / "config.json").write_bytes(CONFIG)
    assert (
        "hf_quant_config.json, quantize_config.json belongs to the model" in offline("acme/foreign")["assumptions"][1]
    )


def test_offline_and_not_in_the_cache_the_catalogue_speaks(hub: Hub, clients: Callable[..., Client]) -> None:
    offline = clients(HF_HUB_OFFLINE="1")
    said = error_of(offline("Qwen/Qwen3-8B-FP9"))
    assert said.startswith("'Qwen/Qwen3-8B-FP9' is not in the catalogue; the nearest are: Qwen/")
    assert "give its config.json" in said
    assert "HF_HUB_OFFLINE" in error_of(offline("Qwen/Qwen3-8B@main"))


def test_a_log_reads_the_cache_and_asks_nothing(hub: Hub, ask: Client) -> None:
    hub.repositories["acme/served"] = files({"config.json": CONFIG})
    before = len(hub.requests)
    assert "not in the catalogue" in error_of(ask("acme/served", online=False))
    assert len(hub.requests) == before
    ask("acme/served")
    before = len(hub.requests)
    said = ask("acme/served", online=False)
    assert said["assumptions"] == ["'acme/served' is taken from the local cache; the hub was not asked"]
    assert len(hub.requests) == before


# ---------------------------------------------------------------- redirects and tokens


def redirecting(target: str, status: int = 302, xet: str = "") -> Callable[[Handler, str, str], None]:
    """As the hub does for large files: what the file is stands beside where it is."""

    def answer(self: Handler, revision: str, file: str) -> None:
        if file != "config.json":
            return refuse(404, "EntryNotFound", commit=COMMIT)(self, revision, file)
        etag = about(CONFIG)["ETag"]
        linked = {"X-Linked-Etag": etag, "X-Linked-Size": str(len(CONFIG)), "X-Repo-Commit": COMMIT}
        return self.reply(status, {"Location": target, "X-Xet-Hash": xet, **linked})

    return answer


def plain(self: Handler, revision: str, file: str) -> None:
    self.reply(200, {"Content-Type": "binary/octet-stream", **about(CONFIG)}, CONFIG)


@pytest.mark.parametrize("status", [302, 307])
def test_a_renamed_repository_is_followed(status: int, hub: Hub, ask: Client) -> None:
    hub.repositories["acme/new-name"] = files({"config.json": CONFIG})
    name = f"acme/old-name-{status}"
    hub.repositories[name] = redirecting("/acme/new-name/resolve/main/config.json", status)
    assert ask(name)["parameters"] == PARAMETERS


def test_a_redirect_to_another_path_of_the_hub_keeps_the_token(hub: Hub, clients: Callable[..., Client]) -> None:
    hub.repositories["blob/here?X-Amz=1"] = plain
    hub.repositories["acme/large-here"] = redirecting(f"{hub.url}/blob/here?X-Amz=1")
    assert clients(HF_TOKEN=TOKEN)("acme/large-here")["parameters"] == PARAMETERS
    assert {one.headers.get("authorization") for one in hub.asked("here")} == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize("xet", ["", "a" * 64])
def test_the_token_goes_to_the_endpoint_and_to_no_other_host(
    xet: str, hub: Hub, store: Hub, clients: Callable[..., Client]
) -> None:
    name = "acme/large" + xet[:3]
    store.repositories[f"blob/{name}?sig=1"] = plain
    store.requests.clear()
    hub.repositories[name] = redirecting(f"{store.url}/blob/{name}?sig=1", xet=xet)
    assert clients(HF_TOKEN=TOKEN)(name)["parameters"] == PARAMETERS
    assert {one.headers.get("authorization") for one in hub.asked(name)} == {f"Bearer {TOKEN}"}
    assert [one.method for one in store.requests] == ["GET"]
    assert all("authorization" not in one.headers and TOKEN not in str(one.headers) for one in store.requests)


def test_without_a_token_none_is_sent(hub: Hub, ask: Client) -> None:
    hub.repositories["acme/public"] = files({"config.json": CONFIG})
    ask("acme/public")
    assert all("authorization" not in one.headers for one in hub.asked("acme/public"))


def test_a_circle_of_redirects_ends(hub: Hub, ask: Client) -> None:
    hub.repositories["acme/circle"] = redirecting("/acme/circle/resolve/main/config.json")
    assert "could not be reached" in error_of(ask("acme/circle"))


# ---------------------------------------------------------------- refusals

REFUSALS: dict[str, tuple[Callable[[Handler, str, str], None], str, str]] = {
    "gated": (refuse(401, "GatedRepo"), "", "accept the licence at {page} and set HF_TOKEN, or download"),
    "gated-no-access": (
        refuse(403, "GatedRepo"),
        TOKEN,
        "your token has no access to it: accept the licence at {page}",
    ),
    "missing": (refuse(401, "RepoNotFound"), "", "has no such public model (a private one needs HF_TOKEN)"),
    "missing-for-token": (refuse(404, "RepoNotFound"), TOKEN, "has no such model that your token may see"),
    "missing-on-a-mirror": (refuse(404), "", "has no such public model"),
    "bad-token": (
        refuse(401, "", "Invalid credentials in Authorization header"),
        TOKEN,
        "does not accept your token; renew it",
    ),
    "forbidden": (refuse(403, "", "no"), TOKEN, "does not give out 'acme/forbidden' (HTTP 403); look at {page}"),
    "disabled": (refuse(403, "", "Access to this resource is disabled."), "", "(HTTP 403); look at {page}"),
    "legal": (refuse(451), "", "(HTTP 451)"),
    "no-config": (files({"model.Q4_K_M.gguf": b"GGUF"}), "", "holds no config.json (a repository of GGUF files"),
    "too-many": (
        refuse(429, RateLimit='"api";r=0;t=3000', **{"Retry-After": "3600"}),
        "",
        "answers that there were too many requests; wait a few minutes, set HF_TOKEN",
    ),
    "down": (refuse(500), "", "(HTTP 500)"),
    "unavailable": (refuse(503, **{"Retry-After": "3600"}), "", "(HTTP 503)"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_says_what_to_do(case: str, hub: Hub, clients: Callable[..., Client]) -> None:
    answer, token, words = REFUSALS[case]
    name = f"acme/{case}"
    hub.repositories[name] = answer
    said = error_of(clients(**{"HF_TOKEN": token} if token else {})(name))
    assert words.format(page=f"{hub.url}/{name}") in said


def test_a_missing_repository_names_the_nearest_of_the_catalogue(ask: Client) -> None:
    said = error_of(ask("Qwen/Qwen3-8B-FP9"))
    assert "is not in the catalogue" in said
    assert "the nearest in the catalogue are: Qwen/Qwen3-" in said


def test_a_missing_revision_is_named(hub: Hub, ask: Client) -> None:
    hub.repositories["acme/branches"] = files({"config.json": CONFIG})
    said = error_of(ask("acme/branches@v9"))
    assert f"'acme/branches' has no revision 'v9' at {hub.url}/acme/branches; give a branch, a tag" in said


# ---------------------------------------------------------------- misbehaviour


def test_an_endpoint_that_refuses_connections_is_said_at_once(clients: Callable[..., Client]) -> None:
    said = clients(closed_port())("acme/nowhere")
    assert "could not be reached (the connection was refused); check the network and HF_ENDPOINT" in error_of(said)
    assert said["slept"] == 0


def test_a_hub_that_does_not_answer_is_left(hub: Hub, clients: Callable[..., Client]) -> None:
    hub.repositories["acme/slow"] = lambda self, revision, file: time.sleep(1.5)
    assert "could not be reached (it does not answer in time)" in error_of(
        clients(HF_HUB_ETAG_TIMEOUT="1")("acme/slow")
    )


def test_a_wait_that_knows_no_limit_is_left() -> None:
    with pytest.raises(Unreachable, match="it does not answer in time"):
        _within(-0.4, lambda: time.sleep(5))  # type: ignore[arg-type, return-value]


def test_a_download_that_breaks_off_is_tried_once_more_at_most(hub: Hub, ask: Client) -> None:
    def answer(self: Handler, revision: str, file: str) -> None:
        if self.head:
            return plain(self, revision, file)
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONFIG)))
        self.end_headers()
        self.wfile.write(CONFIG[:50])
        return self.hang_up()

    hub.repositories["acme/broken"] = answer
    assert "(the connection broke off)" in error_of(ask("acme/broken"))
    assert len(hub.asked("acme/broken", "GET")) <= 2
    hub.repositories["acme/broken"] = files({"config.json": CONFIG})
    assert ask("acme/broken")["parameters"] == PARAMETERS


def test_a_hub_that_hangs_up_is_said(hub: Hub, ask: Client) -> None:
    hub.repositories["acme/hangs-up"] = lambda self, revision, file: self.hang_up()
    assert "(the connection broke off)" in error_of(ask("acme/hangs-up"))


@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_a_login_page_is_no_config_and_is_not_kept(method: str, hub: Hub, ask: Client) -> None:
    page = b"<!DOCTYPE html><html>Sign in to the guest network</html>"

    def answer(self: Handler, revision: str, file: str) -> None:
        if self.head and method == "GET":
            return plain(self, revision, file)
        return self.reply(200, {"Content-Type": "text/html; charset=utf-8"}, page)

    name = f"acme/login-{method}"
    hub.repositories[name] = answer
    said = error_of(ask(name))
    assert f"{hub.url} answers, but not as a hub does (a proxy's login page, or a wrong HF_ENDPOINT?)" in said
    hub.repositories[name] = files({"config.json": CONFIG})
    assert ask(name)["parameters"] == PARAMETERS


@pytest.mark.parametrize("header", ["X-Repo-Commit", "ETag"])
@pytest.mark.parametrize("value", ["../../../../escaped", "/tmp/escaped", ""])
def test_what_would_leave_the_cache_is_refused(header: str, value: str, hub: Hub, ask: Client) -> None:
    name = f"acme/escape-{header.lower()}-{len(value)}"
    hub.repositories[name] = lambda self, revision, file: self.reply(200, {**about(CONFIG), header: value}, CONFIG)
    assert "not as a hub does" in error_of(ask(name))
    assert hub.asked(name, "GET") == []


def test_a_config_larger_than_any_is_not_downloaded(hub: Hub, ask: Client) -> None:
    length = {"Content-Length": str(LIMIT + 1)}

    def answer(self: Handler, revision: str, file: str) -> None:
        self.reply(200, {**about(CONFIG), **length})

    hub.repositories["acme/huge"] = answer
    assert "the config.json of 'acme/huge' is larger than any (limit 16 MB) and was not downloaded" in error_of(
        ask("acme/huge")
    )
    assert hub.asked("acme/huge", "GET") == []


def test_a_config_that_turns_out_larger_is_left_before_its_body(hub: Hub, ask: Client) -> None:
    def answer(self: Handler, revision: str, file: str) -> None:
        self.reply(200, about(CONFIG) | ({} if self.head else {"Content-Length": str(2**40)}), b"{}")
        if not self.head:
            self.hang_up()

    hub.repositories["acme/lies"] = answer
    assert "larger than any" in error_of(ask("acme/lies"))


def chunked(pieces: int, piece: bytes) -> Callable[[Handler, str, str], None]:
    """A file whose size is said nowhere."""

    def answer(self: Handler, revision: str, file: str) -> None:
        if file != "config.json":
            return refuse(404, "EntryNotFound", commit=COMMIT)(self, revision, file)
        self.send_response(200)
        for name, value in about(piece).items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if self.head:
            return None
        try:
            for _ in range(pieces):
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
        return None

    return answer


def test_a_file_without_a_stated_size_is_read(hub: Hub, ask: Client) -> None:
    hub.repositories["acme/chunked"] = chunked(1, CONFIG)
    assert ask("acme/chunked")["parameters"] == PARAMETERS


def test_a_file_without_an_end_is_left_at_the_limit(hub: Hub, ask: Client) -> None:
    hub.repositories["acme/endless"] = chunked(2000, b" " * 2**20)
    assert "larger than any" in error_of(ask("acme/endless"))
    left = [path for path in ask.home.rglob("*") if path.is_file() and path.stat().st_size > 2**20]
    assert left == []


def test_what_is_no_json_is_refused(hub: Hub, ask: Client) -> None:
    hub.repositories["acme/no-json"] = files({"config.json": b"version https://git-lfs.github.com/spec/v1\n"})
    assert "is not valid JSON" in error_of(ask("acme/no-json"))


def test_a_cache_that_cannot_be_written_is_said(hub: Hub, tmp_path: Path) -> None:
    hub.repositories["acme/readonly"] = files({"config.json": CONFIG})
    client = Client(tmp_path / "home", hub.url, HF_HUB_CACHE="/dev/null/hub")
    try:
        assert "the hub's cache cannot be written: Not a directory; set HF_HOME" in error_of(client("acme/readonly"))
    finally:
        client.close()


# ---------------------------------------------------------------- the command line


def test_the_answer_names_the_commit_and_nothing_else_is_printed(
    hub: Hub, clients: Callable[..., Client], narrows: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    def answer(self: Handler, revision: str, file: str) -> None:
        if file != "config.json":
            return refuse(404, "EntryNotFound", commit=COMMIT)(self, revision, file)
        warning = {"X-HF-Warning": "unauthenticated; Warning: You are sending unauthenticated requests."}
        return self.reply(200, {**about(CONFIG), **warning}, CONFIG)

    hub.repositories["acme/cli"] = answer
    environment = {**clients().environment, "HF_HUB_OFFLINE": "0", "HF_TOKEN": TOKEN}
    done = narrows("fit", "acme/cli@main", "--gpu", "l40s", "--json", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    answered = json.loads(done.stdout)
    assert f"{hub.url}/acme/cli/blob/{COMMIT}/config.json" in answered["sources"]
    assert answered["model"]["name"] == "acme/cli"
    assert TOKEN not in done.stdout


def test_a_refusal_is_one_line_and_exit_2(
    hub: Hub, clients: Callable[..., Client], narrows: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    hub.repositories["acme/cli-gated"] = refuse(403, "GatedRepo")
    environment = {**clients().environment, "HF_HUB_OFFLINE": "0", "HF_TOKEN": TOKEN}
    for command in (("fit", "--gpu", "l40s"), ("models",)):
        done = narrows(*command, "acme/cli-gated", **environment)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert done.stderr.startswith("narrows: error: 'acme/cli-gated' is gated")
        assert TOKEN not in done.stderr


def test_check_asks_the_hub_for_no_model_of_a_log(
    hub: Hub, clients: Callable[..., Client], narrows: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    log = (DATA / "logs" / "excerpts" / "vllm-0.19.1-oom.log").read_text()
    assert "Qwen/Qwen2.5-7B-Instruct" in log
    environment = {**clients().environment, "HF_HUB_OFFLINE": "0"}
    before = len(hub.requests)
    done = narrows("check", "-", stdin=log.replace("Qwen/Qwen2.5-7B-Instruct", "acme/logged").encode(), **environment)
    assert done.returncode in (0, 1)
    assert len(hub.requests) == before


def test_without_the_hubs_client_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(BadInput, match="'pip install -U huggingface_hub'"):
        load_model("acme/tiny")
    assert load_model("meta-llama/Llama-2-7b-hf").unique_parameters() == 6_738_415_616


# ---------------------------------------------------------------- names and reasons


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("org/name", ("org/name", None)),
        (" org/name ", ("org/name", None)),
        ("01-ai/Yi-1.5_B", ("01-ai/Yi-1.5_B", None)),
        ("org/name@main", ("org/name", "main")),
        ("org/name@refs/pr/7", ("org/name", "refs/pr/7")),
        (f"org/name@{COMMIT}", ("org/name", COMMIT)),
    ],
)
def test_these_look_like_hub_ids(name: str, meant: tuple[str, str | None]) -> None:
    assert hub_id(name) == meant


@pytest.mark.parametrize(
    "name",
    [
        *("name", "name@main", "a/b/c", "/name", "org/", "org//name", "-org/name", "org/.name", "org/na me"),
        *("org/name@", "org/name@../../x", "org/name@-x", "org/name@a//b", "org/name@a/", "org/name@a@b"),
        *("org/a--b", "org/a..b", "org/name.git", "org/" + "x" * 96, "org/na\nme", "오르그/이름", "org/{name}"),
        *("https://huggingface.co/org/name", "org/name?x=1", "org/name#x", "org\\name", "org/%2e%2e"),
    ],
)
def test_these_do_not(name: str) -> None:
    assert hub_id(name) is None


def chained(cause: Exception) -> Exception:
    """As httpx wraps what the system said; its own words may quote a header."""
    try:
        raise RuntimeError(f"Illegal header value b'Bearer {TOKEN}'") from cause
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (socket.gaierror(-2, "Name or service not known"), "its name cannot be resolved"),
        (ConnectionRefusedError(111, "Connection refused"), "the connection was refused"),
        (ConnectionResetError(104, "reset"), "the connection broke off"),
        (ssl.SSLCertVerificationError("self-signed"), "its certificate is not accepted"),
        (TimeoutError(), "it does not answer in time"),
        (ValueError(TOKEN), "error RuntimeError"),
    ],
)
def test_the_reason_is_the_first_cause_and_never_the_errors_own_words(cause: Exception, reason: str) -> None:
    assert str(reason_of(chained(cause))) == reason


def test_a_password_in_the_endpoint_is_not_shown(clients: Callable[..., Client]) -> None:
    said = clients(closed_port().replace("//", f"//me:{TOKEN}@"))("acme/nowhere")
    assert "http://127.0.0.1:" in error_of(said)


def test_every_status_has_a_sentence() -> None:
    asked = Asked("acme/tiny", None, "https://hub.example")
    for status in range(400, 600):
        for authenticated in (False, True):
            assert len(str(refused(Refused(status, authenticated=authenticated), asked))) < 330


@pytest.mark.parametrize("command", ["fit", "models"])
def test_the_help_names_hub_ids(command: str, narrows: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    assert "org/name@revision" in narrows(command, "--help").stdout
