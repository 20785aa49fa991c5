"""What answers in place of `docker`: ROOT WORDS... Only what the scripts ask for is understood; anything else is a mistake of theirs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(sys.argv[1])
CONTAINERS = ROOT / "containers"
INSIDE = (ROOT / "path").read_text()
VALUED = "--entrypoint --gpus --user -v -e --security-opt --cap-add --ulimit --device --group-add --memory --restart --name --label".split()


def main(words: list[str]) -> None:
    with (ROOT / "calls").open("a") as calls:
        calls.write(json.dumps(words) + "\n")
    fault = ROOT / "fault"
    if fault.exists():
        if fault.read_text() == "hang":
            time.sleep(600)
        fail(fault.read_text())
    failing = ROOT / f"fail.{words[0]}"
    if failing.exists():
        fail(failing.read_text())
    verbs = {
        "run": run,
        "create": create,
        "inspect": inspect,
        "image": image,
        "stop": stop,
        "rm": remove,
        "ps": listing,
        "logs": logs,
        "exec": execute,
        "version": version,
    }
    verbs[words[0]](words[1:])


def version(words: list[str]) -> None:
    del words
    print("28.2.2")


def wait(words: list[str]) -> None:
    for meta in chosen(words):
        while ended(meta) is None:
            time.sleep(0.01)
        print(ended(meta))


def run(words: list[str]) -> None:
    options, rest = parse(words)
    name = options["--name"][0]
    if any(meta["name"] == name for meta in all_containers()):
        fail(f'Error response from daemon: Conflict. The container name "/{name}" is already in use by container "x".')
    made = os.urandom(32).hex()
    labels = dict(text.split("=", 1) for text in options.get("--label", []))
    mount = next(text.split(":")[0] for text in options["-v"] if text.endswith(":/run/sparkrun"))
    entrypoint = json.loads((ROOT / "images.json").read_text())[rest[0]] or []
    if "--entrypoint" in options:
        entrypoint = [word for word in options["--entrypoint"] if word]
    command = [*entrypoint, *(word.replace("/run/sparkrun", mount) for word in rest[1:])]
    env = dict(text.split("=", 1) for text in options.get("-e", []))
    mounts = [text.split(":")[0] for text in options["-v"]]
    meta = {"id": made, "name": name, "labels": labels, "image": rest[0], "exit": None, "oom": False, "started": now(), "mounts": mounts}
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(read)
        supervise(meta, command, env, write)
    os.close(write)
    os.read(read, 1)
    print(made)


def create(words: list[str]) -> None:
    """Only makes sure of a name: nothing is started, so there is nothing to supervise."""
    options, rest = parse(words)
    meta = {
        "id": os.urandom(32).hex(),
        "name": options["--name"][0],
        "labels": dict(text.split("=", 1) for text in options.get("--label", [])),
        "image": rest[0],
        "exit": 0,
        "oom": False,
        "mounts": [text.split(":")[0] for text in options["-v"]],
    }
    save(meta)
    print(meta["id"])


def supervise(meta: dict[str, Any], command: list[str], env: dict[str, str], ready: int) -> NoReturn:
    os.setsid()
    sink = os.open(CONTAINERS / f"{meta['id']}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, target in ((0, nothing), (1, sink), (2, sink)):
        os.dup2(target, number)
    child = subprocess.Popen(command, env={"PATH": INSIDE, **env}, start_new_session=True)
    save({**meta, "pid": child.pid})
    os.write(ready, b"x")
    os.close(ready)
    code = child.wait()
    told = CONTAINERS / f"{meta['id']}.exit"
    told.with_suffix(".code").write_text(str(code if code >= 0 else 128 - code))
    told.with_suffix(".code").rename(told)
    os._exit(0)


def inspect(words: list[str]) -> None:
    template, names = words[words.index("-f") + 1], words[words.index("--") + 1 :]
    missing = []
    for name in names:
        found = [meta for meta in all_containers() if name in (meta["name"], meta["id"])]
        if found:
            print(rendered(template, described(found[0])))
        else:
            missing.append(name)
    if missing:
        fail("\n".join(f"Error: No such container: {name}" for name in missing))


def image(words: list[str]) -> None:
    name = words[-1]
    images = json.loads((ROOT / "images.json").read_text())
    if name not in images:
        fail(f"Error: No such image: {name}")
    print(f"IMAGE sha256:{name}\nENTRYPOINT {json.dumps(images[name], separators=(',', ':'))}")


def stop(words: list[str]) -> None:
    grace_s = int(words[words.index("-t") + 1])
    for meta in chosen(words):
        signal_group(meta, signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while ended(meta) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if ended(meta) is None:
            signal_group(meta, signal.SIGKILL)
            while ended(meta) is None:
                time.sleep(0.01)


def remove(words: list[str]) -> None:
    for meta in chosen(words):
        signal_group(meta, signal.SIGKILL)
        (CONTAINERS / f"{meta['id']}.json").unlink()


def listing(words: list[str]) -> None:
    wanted = [words[at + 1].removeprefix("label=").split("=") for at, word in enumerate(words) if word == "--filter"]
    for meta in all_containers():
        if "-a" not in words and ended(meta) is not None:
            continue
        facts = {**meta["labels"], "status": "running" if ended(meta) is None else "exited"}
        if all(facts.get(name) in (value or [facts.get(name, "")]) for name, *value in wanted):
            if "--format" in words:
                print(f"{meta['name']}.{meta['labels'].get('sparkrun.launch', '')}")
                continue
            print(meta["id"], *([] if "-q" in words else [meta["name"], meta["labels"].get("sparkrun.launch", "")]))


def logs(words: list[str]) -> None:
    meta = chosen(words)[0]
    path = CONTAINERS / f"{meta['id']}.log"
    lines = path.read_text().splitlines()
    if "--tail" in words:
        lines = lines[len(lines) - int(words[words.index("--tail") + 1]) :] if int(words[words.index("--tail") + 1]) < len(lines) else lines
    with path.open() as stream:
        stream.seek(0, os.SEEK_END)
        print("\n".join(lines), flush=True)
        over = "-f" not in words
        while not over:
            over = ended(meta) is not None
            print(stream.read(), end="", flush=True)
            time.sleep(0.01)


def execute(words: list[str]) -> None:
    at = words.index("--") if "--" in words else -1
    name, command = words[at + 1], words[at + 2 :]
    meta = next((meta for meta in all_containers() if meta["name"] == name), None)
    if meta is None:
        fail(f"Error: No such container: {name}")
    if ended(meta) is not None:
        fail(f"Error response from daemon: Container {meta['id']} is not running")
    sys.exit(subprocess.run(["setsid", "-w", *command], env={"PATH": INSIDE}, check=False).returncode)


def parse(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    options: dict[str, list[str]] = {}
    at = 0
    while words[at].startswith("-"):
        if words[at] in VALUED:
            options.setdefault(words[at], []).append(words[at + 1])
            at += 1
        at += 1
    return options, words[at:]


def rendered(template: str, facts: dict[str, Any]) -> str:
    if '{{with index .Config.Labels "sparkrun.job"}}' in template:
        job = facts["labels"].get("sparkrun.job")
        older = re.search(r"\{\"cluster_id\":\{\{json \.\}\}.*\}", template.split("{{end}}{{end}}", 1)[0])
        assert older is not None
        text = older[0].replace("{{json .}}", json.dumps(facts["labels"].get("sparkrun.cluster_id")))
        job = job or (text if "sparkrun.cluster_id" in facts["labels"] else "")
        head, tail = template.split("LABELS=", 1)
        template = f"{head}LABELS={job}{tail.split('{{end}}{{end}}', 1)[1]}"
    template = template.replace(r'{{range .Mounts}}{{.Source}}{{"\n"}}{{end}}', "\n".join(facts["mounts"]))
    template = re.sub(
        r"\{\{json \(index \$\.Config\.Labels \"([^\"]+)\"\)\}\}", lambda m: json.dumps(facts["labels"].get(m[1], "")), template
    )
    template = re.sub(r"\{\{index \.Config\.Labels \"([^\"]+)\"\}\}", lambda m: facts["labels"].get(m[1], ""), template)
    template = re.sub(r"\{\{json (\.[A-Za-z.]+)\}\}", lambda m: json.dumps(facts[m[1]]), template)
    return re.sub(r"\{\{(\.[A-Za-z.]+)\}\}", lambda m: str(facts[m[1]]), template)


def described(meta: dict[str, Any]) -> dict[str, Any]:
    code = ended(meta)
    return {
        ".Id": meta["id"],
        ".Name": f"/{meta['name']}",
        ".State.Status": "running" if code is None else "exited",
        ".State.Running": "true" if code is None else "false",
        ".State.ExitCode": code or 0,
        ".State.OOMKilled": str(meta["oom"]).lower(),
        ".State.Pid": meta["pid"] if code is None else 0,
        ".State.StartedAt": meta.get("started", "2026-01-02T03:04:05.6789Z"),
        ".State.FinishedAt": "0001-01-01T00:00:00Z" if code is None else now(),
        ".RestartCount": 0,
        ".Image": f"sha256:{meta['image']}",
        ".Config.Image": meta["image"],
        "labels": meta["labels"],
        "mounts": meta.get("mounts", []),
    }


def all_containers() -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(CONTAINERS.glob("*.json"))]


def chosen(words: list[str]) -> list[dict[str, Any]]:
    wanted = words[words.index("--") + 1 :]
    found = [meta for meta in all_containers() if meta["id"] in wanted or meta["name"] in wanted]
    if len(found) < len(wanted):
        fail("Error: No such container: x")
    return found


def ended(meta: dict[str, Any]) -> int | None:
    path = CONTAINERS / f"{meta['id']}.exit"
    code: int | None = int(path.read_text()) if path.exists() else meta["exit"]
    return code


def signal_group(meta: dict[str, Any], how: signal.Signals) -> None:
    if ended(meta) is None and meta.get("started"):
        try:
            os.killpg(meta["pid"], how)
        except ProcessLookupError:
            return


def save(meta: dict[str, Any]) -> None:
    path = CONTAINERS / f"{meta['id']}.json"
    path.with_suffix(".new").write_text(json.dumps(meta))
    path.with_suffix(".new").rename(path)


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000000Z", time.gmtime())


def fail(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(125 if sys.argv[2] == "run" else 1)


if __name__ == "__main__":
    main(sys.argv[2:])
