"""Headers of a repository's files by range requests: a server on this machine, large files that are mostly zeros."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from narrows.models.hub_refusals import Unreachable
from narrows.models.stored.directory import MOST_HEADERS
from narrows.models.stored.remote import _in_time

from .hub_server import COMMIT, OTHER, Client, Handler, Hub, Large, files, listing, refuse, serve, weights
from .safetensors_files import header_of, write
from .test_stored import DEEPSEEK, LLAMA, bytes_of, deepseek, llama

TOKEN = "hf_secretsecretsecret"
CONFIG = json.dumps(LLAMA).encode()


@pytest.fixture(scope="module")
def clients(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Client]]:
    base = tmp_path_factory.mktemp("hub")
    made: dict[str, Client] = {}

    def client(**environment: str) -> Client:
        key = repr(sorted(environment.items()))
        if key not in made:
            made[key] = Client(base / "cache", hub.url, **environment)
        return made[key]

    yield client
    for one in made.values():
        one.close()
        assert one.log.read_text() == ""


@pytest.fixture
def ask(clients: Callable[..., Client]) -> Client:
    return clients()


def large(tensors: dict[str, Any]) -> Large:
    header, body = header_of(tensors, {"format": "pt"})
    return Large(header, len(header) + body)


def sharded(tensors: dict[str, Any], count: int) -> dict[str, Large]:
    names = list(tensors)
    step = -(-len(names) // count)
    return {
        f"model-{i + 1:05}-of-{count:05}.safetensors": large({n: tensors[n] for n in names[i * step : (i + 1) * step]})
        for i in range(count)
    }


def unread(said: dict[str, Any], reason: str) -> None:
    """The config was read, the headers were not, and it is said why."""
    assert "stored" not in said
    assert len(said["assumptions"]) == 1
    assert reason in said["assumptions"][0]
    assert TOKEN not in said["assumptions"][0]


# ---------------------------------------------------------------- what is read


def test_headers_are_read_and_nothing_behind_them(hub: Hub, ask: Client) -> None:
    huge = {
        **llama(),
        "model.embed_tokens.weight": ("BF16", (1024, 256)),
        "beyond.weight": ("BF16", (1 << 20, 1 << 18)),
    }
    hub.repositories["acme/huge"] = weights(CONFIG, {"model.safetensors": large(huge)})
    before = hub.sent
    said = ask("acme/huge")
    assert said["bytes"] == bytes_of(huge) > 2**39
    assert said["stored"][:2] == [1, len(huge)]
    assert hub.sent - before < 40_000
    assert len(hub.asked("acme/huge/resolve", "GET")) - len(hub.asked("acme/huge/resolve/main", "GET")) <= 3


def test_many_shards_cost_a_request_each_and_little_traffic(hub: Hub, ask: Client) -> None:
    tensors = {
        f"model.layers.{i}.mlp.experts.{e}.up_proj.weight": ("BF16", (4, 4)) for i in range(60) for e in range(100)
    }
    shards = sharded(tensors, 60)
    hub.repositories["acme/shards"] = weights(CONFIG, shards)
    before, connections = hub.sent, hub.connections
    said = ask("acme/shards")
    # eight at a time, each connection used again
    assert hub.connections - connections <= 8
    assert said["bytes"] == bytes_of(tensors)
    headers = said["stored"][2]
    assert said["stored"][:2] == [60, 6000]
    # while nothing tells how long headers are, the first eight may be asked for too much
    assert hub.sent - before < headers * 1.3 + 9 * 32 * 1024
    assert len([one for one in hub.asked("acme/shards") if ".safetensors" in one.path]) <= 60 + 8


def test_a_header_longer_than_what_was_asked_for_first_is_read_to_its_end(hub: Hub, ask: Client) -> None:
    tensors = {f"model.layers.0.mlp.experts.{e}.up_proj.weight": ("BF16", (4, 4)) for e in range(3000)}
    hub.repositories["acme/long"] = weights(CONFIG, {"model.safetensors": large(tensors)})
    said = ask("acme/long")
    assert said["bytes"] == bytes_of(tensors)
    ranges = [one.headers["range"] for one in hub.asked("acme/long", "GET") if ".safetensors" in one.path]
    assert len(ranges) == 2
    assert ranges[1].startswith("bytes=32768-")


def test_an_index_is_fetched_only_where_names_do_not_tell(hub: Hub, ask: Client) -> None:
    index = json.dumps({"weight_map": dict.fromkeys(llama(), "part-a.safetensors")}).encode()
    one = large(llama())
    plain = files(
        {"config.json": CONFIG, "model.safetensors.index.json": index, "part-a.safetensors": b"", "x.safetensors": b""}
    )

    def answer(self: Handler, revision: str, file: str) -> None:
        if file.endswith(".safetensors"):
            serve(self, one)
        else:
            plain(self, revision, file)

    hub.repositories["acme/index"] = answer
    assert ask("acme/index")["stored"][0] == 1
    hub.repositories["acme/numbered"] = weights(CONFIG, {**sharded(llama(), 2), "model.safetensors.index.json": one})
    assert ask("acme/numbered")["stored"][0] == 2
    assert not [one for one in hub.asked("acme/numbered") if one.path.endswith("index.json")]


def test_the_revision_is_pinned_to_its_commit(hub: Hub, ask: Client) -> None:
    old, new = large(llama("F32")), large(llama())
    plain = files({"config.json": CONFIG, "model.safetensors": b""}, **{"v1": OTHER})

    def answer(self: Handler, revision: str, file: str) -> None:
        if file == "model.safetensors":
            serve(self, old if revision == OTHER else new)
        else:
            plain(self, revision, file)

    hub.repositories["acme/revisions"] = answer
    assert ask("acme/revisions@v1")["bytes"] == bytes_of(llama("F32"))
    assert ask("acme/revisions")["bytes"] == bytes_of(llama())
    asked = {one.path for one in hub.asked("acme/revisions") if one.path.endswith(".safetensors")}
    assert asked == {f"/acme/revisions/resolve/{commit}/model.safetensors" for commit in (COMMIT, OTHER)}


def test_what_was_read_once_is_not_asked_for_again(hub: Hub, clients: Callable[..., Client]) -> None:
    hub.repositories["acme/again"] = weights(CONFIG, sharded(llama(), 3))
    first = clients()("acme/again")
    before = len(hub.requests)
    assert clients()("acme/again") == first
    assert [one.method for one in hub.requests[before:]] == ["HEAD"]
    offline = clients(HF_HUB_OFFLINE="1")("acme/again")
    assert (offline["bytes"], offline["stored"]) == (first["bytes"], first["stored"])


def test_weights_in_the_cache_are_read_there(hub: Hub, ask: Client) -> None:
    hub.repositories["acme/whole"] = files({"config.json": CONFIG})
    plain = ask("acme/whole")
    (folder,) = (ask.home / "hub" / "models--acme--whole" / "snapshots").iterdir()
    write(folder / "model.safetensors", llama("F32"))
    before = len(hub.requests)
    said = ask("acme/whole", online=False)
    assert said["bytes"] == 2 * plain["bytes"]
    assert len(hub.requests) == before


def test_a_repository_without_safetensors_is_read_by_its_config(hub: Hub, ask: Client) -> None:
    hub.repositories["acme/bin"] = files(
        {"config.json": CONFIG, "pytorch_model.bin": b"", "original/x.safetensors": b""}
    )
    said = ask("acme/bin")
    assert "stored" not in said
    assert said["assumptions"] == []


def test_shards_that_a_repository_lacks_are_named(hub: Hub, ask: Client) -> None:
    shards = sharded(llama(), 3)
    del shards["model-00002-of-00003.safetensors"]
    hub.repositories["acme/lacking"] = weights(CONFIG, shards)
    said = ask("acme/lacking")
    assert "1 of the checkpoint's 3 files are not there (model-00002-of-00003.safetensors)" in said["assumptions"][0]


def test_mtp_layers_are_told_by_the_headers(hub: Hub, ask: Client) -> None:
    hub.repositories["acme/mtp"] = weights(json.dumps(DEEPSEEK).encode(), sharded(deepseek(), 4))
    said = ask("acme/mtp")
    assert said["bytes"] == bytes_of(deepseek())
    assert any("multi-token prediction" in text for text in said["assumptions"])


# ---------------------------------------------------------------- redirects and tokens


def test_the_token_goes_to_the_hub_and_not_to_the_store(hub: Hub, store: Hub, clients: Callable[..., Client]) -> None:
    shards = sharded(llama(), 3)

    def away(self: Handler, file: Large) -> None:
        self.reply(302, {"Location": f"{store.url}/blobs/resolve/x{self.path}"})

    def blob(self: Handler, revision: str, file: str) -> None:
        serve(self, shards[file])

    hub.repositories["acme/stored"] = weights(CONFIG, shards, away)
    store.repositories["blobs"] = blob
    said = clients(HF_TOKEN=TOKEN)("acme/stored")
    assert said["bytes"] == bytes_of(llama())
    asked = [one for one in hub.asked("acme/stored") if one.path.endswith(".safetensors")]
    assert len(asked) == 3
    assert all(one.headers["authorization"] == f"Bearer {TOKEN}" for one in asked)
    assert len(store.requests) == 3
    for one in store.requests:
        assert "authorization" not in one.headers
        assert TOKEN not in json.dumps(one.headers)
        assert one.headers["range"].startswith("bytes=0-")


def test_a_circle_of_redirects_ends(hub: Hub, ask: Client) -> None:
    def circle(self: Handler, file: Large) -> None:
        self.reply(302, {"Location": self.path})

    hub.repositories["acme/circle"] = weights(CONFIG, {"model.safetensors": large(llama())}, circle)
    unread(ask("acme/circle"), "it sends in circles")
    assert len([one for one in hub.asked("acme/circle") if ".safetensors" in one.path]) <= 12


def test_a_redirect_to_a_file_is_not_followed(hub: Hub, ask: Client) -> None:
    def away(self: Handler, file: Large) -> None:
        self.reply(302, {"Location": "file:///etc/passwd"})

    hub.repositories["acme/file"] = weights(CONFIG, {"model.safetensors": large(llama())}, away)
    unread(ask("acme/file"), "the answer is none of a hub's")


@pytest.mark.parametrize("token", [False, True])
def test_gated_weights_are_explained(token: bool, hub: Hub, clients: Callable[..., Client]) -> None:
    def gated(self: Handler, file: Large) -> None:
        refuse(403, "GatedRepo")(self, "", "")

    hub.repositories[f"acme/gated-{token}"] = weights(CONFIG, sharded(llama(), 2), gated)
    said = clients(**({"HF_TOKEN": TOKEN} if token else {}))(f"acme/gated-{token}")
    unread(said, "your token has no access" if token else "accept the licence on its page and set HF_TOKEN")


# ---------------------------------------------------------------- servers that misbehave


def test_a_server_without_ranges_is_left_when_the_header_is_in(hub: Hub, ask: Client) -> None:
    tensors = {**llama(), "beyond.weight": ("BF16", (1 << 20, 1 << 12))}

    def all_of_it(self: Handler, file: Large) -> None:
        serve(self, file, ranges=False)

    hub.repositories["acme/whole-file"] = weights(CONFIG, {"model.safetensors": large(tensors)}, all_of_it)
    before = hub.sent
    said = ask("acme/whole-file")
    assert said["bytes"] == bytes_of(tensors) > 8e9
    time.sleep(0.2)
    # what the system's buffers took before the connection was closed
    assert hub.sent - before < 20e6


def test_more_than_the_range_that_was_asked_for_is_left(hub: Hub, ask: Client) -> None:
    def more(self: Handler, file: Large) -> None:
        self.send_response(206)
        self.send_header("Content-Range", f"bytes 0-{file.size - 1}/{file.size}")
        self.send_header("Content-Length", str(file.size))
        self.end_headers()
        try:
            for first in range(0, file.size, 1 << 16):
                self.write(file.cut(first, first + (1 << 16)))
        except OSError:
            self.close_connection = True

    tensors = {**llama(), "beyond.weight": ("BF16", (1 << 20, 1 << 12))}
    hub.repositories["acme/more"] = weights(CONFIG, {"model.safetensors": large(tensors)}, more)
    before = hub.sent
    assert ask("acme/more")["bytes"] == bytes_of(tensors)
    time.sleep(0.2)
    assert hub.sent - before < 20e6


def test_a_range_other_than_the_one_asked_for_is_no_answer(hub: Hub, ask: Client) -> None:
    def other(self: Handler, file: Large) -> None:
        self.reply(206, {"Content-Range": f"bytes 8-999/{file.size}"}, file.cut(8, 1000))

    hub.repositories["acme/wrong-range"] = weights(CONFIG, {"model.safetensors": large(llama())}, other)
    unread(ask("acme/wrong-range"), "the answer is none of a hub's")


def test_a_long_header_from_a_server_without_ranges_takes_one_request(hub: Hub, ask: Client) -> None:
    tensors = {f"model.layers.0.mlp.experts.{e}.up_proj.weight": ("BF16", (4, 4)) for e in range(3000)}

    def all_of_it(self: Handler, file: Large) -> None:
        serve(self, file, ranges=False)

    hub.repositories["acme/long-whole"] = weights(CONFIG, {"model.safetensors": large(tensors)}, all_of_it)
    assert ask("acme/long-whole")["bytes"] == bytes_of(tensors)
    assert len([one for one in hub.asked("acme/long-whole") if ".safetensors" in one.path]) == 1


def test_a_connection_that_breaks_is_tried_once_more(hub: Hub, ask: Client) -> None:
    broken: set[str] = set()

    def once(self: Handler, file: Large) -> None:
        if self.path in broken:
            serve(self, file)
            return
        broken.add(self.path)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes 0-1000/{file.size}")
        self.send_header("Content-Length", "1001")
        self.end_headers()
        self.write(file.cut(0, 500))
        self.hang_up()

    hub.repositories["acme/breaking"] = weights(CONFIG, sharded(llama(), 3), once)
    assert ask("acme/breaking")["bytes"] == bytes_of(llama())


def test_a_server_that_hangs_up_is_said(hub: Hub, ask: Client) -> None:
    def never(self: Handler, file: Large) -> None:
        self.hang_up()

    hub.repositories["acme/silent"] = weights(CONFIG, sharded(llama(), 2), never)
    unread(ask("acme/silent"), "(the connection broke off)")


def test_a_server_that_sends_a_byte_at_a_time_is_left_in_time(hub: Hub, tmp_path: Path) -> None:
    def drip(self: Handler, file: Large) -> None:
        self.send_response(206)
        self.send_header("Content-Range", f"bytes 0-1000/{file.size}")
        self.send_header("Content-Length", "1001")
        self.end_headers()
        try:
            for at in range(1000):
                self.write(file.cut(at, at + 1))
                self.wfile.flush()
                time.sleep(0.2)
        except OSError:
            self.close_connection = True

    hub.repositories["acme/drip"] = weights(CONFIG, sharded(llama(), 2), drip)
    quick = Client(tmp_path / "cache", hub.url)
    quick.prepare = "import narrows.models.stored.remote as remote; remote.MOST_SECONDS = 1.5"
    begun = time.monotonic()
    unread(quick("acme/drip"), "it does not answer in time")
    assert time.monotonic() - begun < 15
    quick.close()


def test_work_that_knows_no_limit_is_left() -> None:
    with pytest.raises(Unreachable):
        _in_time([lambda: time.sleep(60)], time.monotonic() - 0.4)


@pytest.mark.parametrize("status", [404, 416, 429, 500])
def test_an_error_leaves_the_config(status: int, hub: Hub, ask: Client) -> None:
    def failing(self: Handler, file: Large) -> None:
        refuse(status)(self, "", "")

    hub.repositories[f"acme/failing-{status}"] = weights(CONFIG, sharded(llama(), 2), failing)
    unread(ask(f"acme/failing-{status}"), f"(HTTP {status})")


def test_a_mirror_without_lists_leaves_the_config(hub: Hub, ask: Client) -> None:
    plain = files({"config.json": CONFIG})

    def answer(self: Handler, revision: str, file: str) -> None:
        (plain if file else refuse(404))(self, revision, file)

    hub.repositories["acme/mirror"] = answer
    unread(ask("acme/mirror"), "(HTTP 404)")


@pytest.mark.parametrize("listed", [b"", b"[]", b"[" * 100_000, b'{"siblings": [1]}', b"<html>"])
def test_a_list_that_is_none_leaves_the_config(listed: bytes, hub: Hub, ask: Client) -> None:
    plain = files({"config.json": CONFIG})

    def answer(self: Handler, revision: str, file: str) -> None:
        if file:
            plain(self, revision, file)
        else:
            self.reply(200, {"Content-Type": "application/json"}, listed)

    name = f"acme/listed-{len(listed)}"
    hub.repositories[name] = answer
    unread(ask(name), "the answer is none of a hub's")


def test_a_login_page_in_the_place_of_weights_leaves_the_config(hub: Hub, ask: Client) -> None:
    def page(self: Handler, file: Large) -> None:
        self.reply(200, {"Content-Type": "text/html"}, b"<html>")

    hub.repositories["acme/page"] = weights(CONFIG, sharded(llama(), 2), page)
    unread(ask("acme/page"), "the answer is none of a hub's")


@pytest.mark.parametrize(
    ("begin", "size", "reason"),
    [
        (b"\xff" * 8, 10**6, "at byte 0: its header would be"),
        ((90_000_000).to_bytes(8, "little") + b"{}", 10**6, "at byte 0: its header would be"),
        ((2).to_bytes(8, "little") + b"{}", 10**6, "at byte 10: its header describes no more"),
        ((2).to_bytes(8, "little") + b"[]", 10, "at byte 8: its header is no object of tensors"),
        (b"\x01", 1, "at byte 1: the file ends before its header begins"),
    ],
)
def test_a_broken_file_is_refused_by_its_name(begin: bytes, size: int, reason: str, hub: Hub, ask: Client) -> None:
    name = f"acme/broken-{len(begin)}-{size}-{begin[0]}-{begin[-1]}"
    hub.repositories[name] = weights(CONFIG, {"model.safetensors": Large(begin, size)})
    said = ask(name)
    assert f"'{name}/model.safetensors' cannot be read as safetensors, {reason}" in said["error"]


def test_headers_of_terabytes_in_all_are_not_read(hub: Hub, tmp_path: Path) -> None:
    long = (99_000_000).to_bytes(8, "little")
    shards = {f"model-{i:05}-of-00100.safetensors": Large(long, 10**9) for i in range(1, 101)}
    hub.repositories["acme/headers"] = weights(CONFIG, shards)
    careful = Client(tmp_path / "cache", hub.url)
    before = hub.sent
    unread(careful("acme/headers"), "they are larger than those of any model")
    careful.close()
    assert hub.sent - before < 1.3 * MOST_HEADERS


def test_names_that_lead_elsewhere_are_not_asked_for(hub: Hub, ask: Client) -> None:
    plain = files({"config.json": CONFIG})

    def answer(self: Handler, revision: str, file: str) -> None:
        if file:
            plain(self, revision, file)
        else:
            self.reply(200, {}, listing(["../../other/model.safetensors", "sub/model.safetensors", "config.json"]))

    hub.repositories["acme/elsewhere"] = answer
    said = ask("acme/elsewhere")
    assert said["assumptions"] == []
    assert not [one for one in hub.asked("safetensors") if "other" in one.path]
