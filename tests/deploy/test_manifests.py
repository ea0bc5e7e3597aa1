"""The compose file and the Kubernetes manifests: their schemas, and what is relied on."""

import re
from pathlib import Path

import dask
import entry_point
import jsonpatch
import pytest
import yaml
from distributed.cli import dask_scheduler, dask_worker

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
OVERLAYS = ("base", "shared-files", "tls")


def _parse(main, arguments):
    """Let a command parse arguments: it refuses what it does not know."""
    with main.make_context("x", [], resilient_parsing=True) as context:
        return main.make_parser(context).parse_args(list(arguments))[0]


def _check_command(words):
    """That the commands that containers run exist, with these options."""
    program, arguments = " ".join(words[:2]), words[2:]
    if program == "dask scheduler":
        assert _parse(dask_scheduler.main, arguments)
    elif program == "dask worker":
        options = _parse(dask_worker.main, arguments)
        assert (options["nthreads"], options["n_workers"]) == ("1", "1")
    else:
        words = ["sweep", "run", *words[1:]] if words[0] == "coordinator" else words
        assert words[:2] == ["sweep", "run"]
        entry_point.answer(*words[1:])


# --- compose ---------------------------------------------------------------------------------


def _compose(name="compose.yaml"):
    text = (DEPLOY / "compose" / name).read_text()
    defaults = dict(re.findall(r"^(\w+)=(.*)$", _example(), flags=re.MULTILINE))
    return yaml.safe_load(re.sub(r"\$\{(\w+)(:[-?][^}]*)?\}", lambda m: defaults[m[1]], text))


def _example():
    return (DEPLOY / "compose/example.env").read_text()


@pytest.mark.parametrize("name", ["compose.yaml", "compose.tls.yaml"])
def test_compose_commands_are_known(name):
    services, entrypoints = _compose(name)["services"], _compose()["services"]
    for role in ("scheduler", "workers", "coordinator"):
        start = entrypoints[role]["entrypoint"]
        _check_command([*start, *services[role]["command"]])


def test_compose_restarts_what_should_come_back():
    services = _compose()["services"]
    assert {services[name]["restart"] for name in ("scheduler", "workers", "objects")} == {
        "unless-stopped"
    }
    assert services["coordinator"]["restart"] == "on-failure"
    assert services["coordinator"]["entrypoint"] == ["coordinator"]  # decides what a failure is
    for script in ("coordinator", "wait-for-workers"):
        assert (DEPLOY / "container" / script).stat().st_mode & 0o111


def test_what_is_waited_for_answers():
    """The route that `wait-for-workers` and the operator ask is one that the schedulers have."""
    name, route = "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES", "distributed.http.scheduler.api"
    compose = _compose()["services"]["scheduler"]["environment"][name]
    (scheduler,) = _pods(_documents("base"))["scheduler"]["containers"]
    for text in (compose, {entry["name"]: entry["value"] for entry in scheduler["env"]}[name]):
        assert {route, "distributed.http.health"} <= set(dask.config.interpret_value(text))


def test_compose_refers_to_what_it_has():
    compose = _compose()
    services = compose["services"]
    for service in services.values():
        assert re.search(r":\d+(\.\d+)+$", service["image"]), "not pinned"
        assert set(service.get("depends_on", ())) <= set(services)
        named = [volume.split(":")[0] for volume in service.get("volumes", ())]
        assert {name for name in named if name[0] != "."} <= set(compose["volumes"])
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


# --- Kubernetes ------------------------------------------------------------------------------


def _documents(overlay):
    """The objects of an overlay by kind, as `kubectl kustomize` prints them."""
    folder = KUBERNETES / overlay
    config = yaml.safe_load((folder / "kustomization.yaml").read_text())
    found = _documents("base") if "../base" in config["resources"] else {}
    for name in config["resources"]:
        if not name.startswith(".."):
            every = yaml.safe_load_all((folder / name).read_text())
            found |= {document["kind"]: document for document in every}
    for patch in config.get("patches", ()):
        kind = patch["target"]["kind"]
        assert found[kind]["metadata"]["name"] == patch["target"]["name"]
        found[kind] = jsonpatch.apply_patch(found[kind], yaml.safe_load(patch["patch"]))
    return found


def _pods(documents):
    """The pods that the objects of an overlay describe, by role."""
    cluster = documents["DaskCluster"]["spec"]
    return {
        "scheduler": cluster["scheduler"]["spec"],
        "worker": cluster["worker"]["spec"],
        "coordinator": documents["Job"]["spec"]["template"]["spec"],
    }


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kubernetes_containers(overlay):
    for role, pod in _pods(_documents(overlay)).items():
        (container,) = pod["containers"]
        assert container["name"] == role
        _check_command(container["command"] + container["args"])
        assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
        assert container["resources"]["requests"] and container["resources"]["limits"]


def test_kubernetes_starts_again_what_was_interrupted():
    job = _documents("base")["Job"]["spec"]
    (first,) = job["template"]["spec"]["initContainers"]
    assert first["command"][0] == "wait-for-workers"  # a scheduler without workers is bad input
    fail, ignore = job["podFailurePolicy"]["rules"]
    assert fail["action"] == "FailJob" and fail["onExitCodes"]["values"] == [1, 2, 3]
    assert ignore["onPodConditions"][0]["type"] == "DisruptionTarget"
    assert job["template"]["spec"]["restartPolicy"] == "Never" and job["backoffLimit"] > 0
    (container,) = job["template"]["spec"]["containers"]
    assert container["command"] == ["coordinator"]  # which tries an internal error twice more
    assert {"name": "GEOSWEEP_KEEP_CODE", "value": "yes"} in container["env"]


def test_kubernetes_names_agree():
    documents = _documents("base")
    name = documents["DaskCluster"]["metadata"]["name"]
    assert documents["DaskAutoscaler"]["spec"]["cluster"] == name
    service = documents["DaskCluster"]["spec"]["scheduler"]["service"]
    assert service["selector"]["dask.org/cluster-name"] == name
    # The operator names the service after the cluster.
    arguments = documents["Job"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert f"--scheduler=tcp://{name}-scheduler:{service['ports'][0]['port']}" in arguments


def test_encrypted_workers_ask_for_encryption():
    pods = _pods(_documents("tls"))
    worker = pods["worker"]["containers"][0]
    address = {"name": "DASK_SCHEDULER_ADDRESS", "value": "tls://geosweep-scheduler:8786"}
    assert address in worker["env"]
    assert "--protocol=tls" in pods["scheduler"]["containers"][0]["args"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kubernetes_schema(overlay):
    validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    documents = _documents(overlay)
    cluster = documents.pop("DaskCluster")["spec"]
    documents.pop("DaskAutoscaler")
    checked = list(documents.values())
    for pod in (cluster["scheduler"]["spec"], cluster["worker"]["spec"]):
        checked.append({"apiVersion": "v1", "kind": "Pod", "spec": pod})
    service = cluster["scheduler"]["service"]
    checked.append({"apiVersion": "v1", "kind": "Service", "spec": service})
    for document in checked:
        document.setdefault("metadata", {"name": "x"})
        validate.validate(document, validate.latest_version(), strict=True)


def test_operators_schema():
    operator = pytest.importorskip("dask_kubernetes", reason="pip install 'geosweep[kubernetes]'")
    jsonschema = pytest.importorskip("jsonschema")
    folder = Path(operator.__file__).parent / "operator/customresources"
    definitions = yaml.safe_load((folder / "templates.yaml").read_text())["definitions"]
    text = (folder / "daskautoscaler.yaml").read_text()
    (version,) = yaml.safe_load(text)["spec"]["versions"]
    autoscaler = version["schema"]["openAPIV3Schema"]
    documents = _documents("base")
    jsonschema.validate(documents["DaskAutoscaler"], autoscaler)
    jsonschema.validate(documents["DaskCluster"], _local(definitions, "DaskCluster"))


def _local(definitions, name):
    """A schema of the operator with its references put in; those to Kubernetes' own left open."""

    def put_in(node):
        if isinstance(node, list):
            return [put_in(item) for item in node]
        if not isinstance(node, dict):
            return node
        name = node.get("$ref", "").rpartition("/")[2]
        if name:
            return put_in(definitions.get(name, {"type": "object"}))
        return {key: put_in(value) for key, value in node.items()}

    return put_in(definitions[f"dask.k8s.api.v1.{name}"])
