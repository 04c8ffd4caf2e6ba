"""Objects of Kubernetes 1.34 and later, as strictly as its API server reads them (Strict):
which fields there are, of what type, which are demanded; names,
and labels that have to agree. By hand, from the
published OpenAPI of apps/v1, v1, policy/v1,
rbac.authorization.k8s.io/v1 and resource.k8s.io/v1; of each kind the
fields that this project writes."""

import re

LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
KEY = rf"({SUBDOMAIN}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"


class Map(dict):
    """Keys and values of any number."""


class Any:
    """Whatever the other side says: opaque parameters."""


META = {"name": SUBDOMAIN, "namespace?": LABEL, "labels?": Map({KEY: VALUE}),
        "annotations?": Map({KEY: str})}
LABELS = {"labels": Map({KEY: VALUE})}
CEL = [{"cel": {"expression": str}}]
OPAQUE = {"driver": SUBDOMAIN, "parameters": Any}
DEVICES = {"requests": [{"name": LABEL, "exactly": {"deviceClassName": SUBDOMAIN,
                                                    "selectors?": CEL, "count?": int}}],
           "config?": [{"requests?": [LABEL], "opaque": OPAQUE}]}
ENV = [{"name": r"[-._a-zA-Z][-._a-zA-Z0-9]*", "value?": str,
        "valueFrom?": {"fieldRef": {"fieldPath": str}}}]
CONTAINER = {"name": LABEL, "image": str, "imagePullPolicy?": "Always|Never|IfNotPresent",
             "command?": [str],
             "args?": [str], "env?": ENV,
             "ports?": [{"name": r"[a-z0-9-]{1,15}", "containerPort": int}],
             "readinessProbe?": {"httpGet": {"path": "/.*", "port": Any}},
             "resources?": {"claims?": [{"name": LABEL}], "requests?": Map({KEY: str}),
                            "limits?": Map({KEY: str})},
             "securityContext?": {"privileged?": bool, "runAsNonRoot?": bool},
             "volumeMounts?": [{"name": LABEL, "mountPath": "/.*", "readOnly?": bool}]}
APART = [{"labelSelector": {"matchExpressions": [{"key": KEY, "operator": "In",
                                                  "values": [VALUE]}]}, "topologyKey": KEY}]
POD = {"affinity?": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": APART}},
       "hostIPC?": bool, "hostPID?": bool, "serviceAccountName?": SUBDOMAIN,
       "nodeSelector?": Map({KEY: VALUE}),
       "priorityClassName?": SUBDOMAIN, "containers": [CONTAINER],
       "tolerations?": [{"key?": KEY, "operator?": "Exists|Equal", "effect?": str}],
       "resourceClaims?": [{"name": LABEL, "resourceClaimTemplateName": SUBDOMAIN}],
       "volumes?": [{"name": LABEL, "hostPath": {"path": "/.*", "type?": str}}]}
SELECTOR = {"matchLabels": Map({KEY: VALUE})}
RULE = {"apiGroups": [str], "resources": [str],
        "verbs": ["get|list|watch|create|update|patch|delete"]}


def binding(kind):
    return {"roleRef": {"apiGroup": str, "kind": kind, "name": SUBDOMAIN},
            "subjects": [{"kind": "ServiceAccount", "name": SUBDOMAIN, "namespace": LABEL}]}


KINDS = {
    ("apps/v1", "Deployment"): {"spec": {
        "replicas": int, "strategy?": {"type": "RollingUpdate|Recreate",
                                       "rollingUpdate?": {"maxSurge?": int,
                                                          "maxUnavailable?": int}},
        "selector": SELECTOR, "template": {"metadata": LABELS, "spec": POD}}},
    ("apps/v1", "DaemonSet"): {"spec": {"selector": SELECTOR, "template": {"metadata": LABELS,
                                                                           "spec": POD}}},
    ("v1", "Service"): {"spec": {"selector": Map({KEY: VALUE}),
                                 "ports": [{"name": LABEL, "port": int, "targetPort": Any}]}},
    ("v1", "Namespace"): {}, ("v1", "ServiceAccount"): {},
    ("policy/v1", "PodDisruptionBudget"): {"spec": {"maxUnavailable": int, "selector": SELECTOR}},
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): {"rules": [RULE]},
    ("rbac.authorization.k8s.io/v1", "Role"): {"rules": [RULE]},
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): binding("ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): binding("Role"),
    ("resource.k8s.io/v1", "DeviceClass"): {"spec": {"selectors?": CEL,
                                                     "config?": [{"opaque": OPAQUE}]}},
    ("resource.k8s.io/v1", "ResourceClaimTemplate"): {"spec": {"metadata?": META,
                                                               "spec": {"devices": DEVICES}}},
}


def faults(value, schema, path):
    """What is wrong with a value, a sentence each."""
    if schema is Any:
        return []
    if isinstance(schema, str):
        good = isinstance(value, str) and re.fullmatch(schema, value)
        return [] if good else [f"{path}: {value!r} is no {schema}"]
    if isinstance(schema, type):
        good = isinstance(value, schema) and not (schema is int and isinstance(value, bool))
        return [] if good else [f"{path}: {value!r} is no {schema.__name__}"]
    if isinstance(schema, list):
        if not isinstance(value, list):
            return [f"{path}: is no list"]
        return [one for at, item in enumerate(value) for one in faults(item, schema[0],
                                                                       f"{path}[{at}]")]
    if not isinstance(value, dict):
        return [f"{path}: is no object"]
    if isinstance(schema, Map):
        (keys, values), = schema.items()
        return [one for key, item in value.items()
                for one in faults(key, keys, path) + faults(item, values, f"{path}.{key}")]
    known = {name.rstrip("?"): (name, of) for name, of in schema.items()}
    out = [f"{path}: no field {key}" for key in value if key not in known]
    out += [f"{path}: {key} is wanted" for key, (name, _) in known.items()
            if key == name and key not in value]
    return out + [one for key, item in value.items() if key in known
                  for one in faults(item, known[key][1], f"{path}.{key}")]


def object_faults(document):
    kind = (document.get("apiVersion"), document.get("kind"))
    if kind not in KINDS:
        return [f"no kind {kind}"]
    name = f"{kind[1]} {document.get('metadata', {}).get('name')}"
    out = faults(document, {"apiVersion": str, "kind": str, "metadata": META, **KINDS[kind]}, name)
    spec = document.get("spec", {})
    if not out and "template" in spec and kind[0] == "apps/v1":
        labels = spec["template"]["metadata"]["labels"].items()
        if not spec["selector"]["matchLabels"].items() <= labels:
            out.append(f"{name}: the selector does not match the template's labels")
        pod = spec["template"]["spec"]
        claims = {one["name"] for one in pod.get("resourceClaims", [])}
        volumes = {one["name"] for one in pod.get("volumes", [])}
        for container in pod["containers"]:
            for use in container.get("resources", {}).get("claims", []):
                if use["name"] not in claims:
                    out.append(f"{name}: no claim {use['name']}")
            for use in container.get("volumeMounts", []):
                if use["name"] not in volumes:
                    out.append(f"{name}: no volume {use['name']}")
    return out


def reference_faults(documents):
    """Of objects that are applied together: what is named is there."""
    out, names = [], {}
    for one in documents:
        key = one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]
        if key in names:
            out.append(f"twice: {key}")
        names[key] = one
    pods = [(one["metadata"].get("namespace", ""), one["spec"]["template"]) for one in documents
            if "template" in one.get("spec", {})]
    for space, pod in pods:
        for claim in pod["spec"].get("resourceClaims", []):
            if ("ResourceClaimTemplate", space, claim["resourceClaimTemplateName"]) not in names:
                out.append(f"no template {claim['resourceClaimTemplateName']}")
        account = pod["spec"].get("serviceAccountName")
        if account and ("ServiceAccount", space, account) not in names:
            out.append(f"no account {account}")
    for one in documents:
        spec, space = one.get("spec", {}), one["metadata"].get("namespace", "")
        if one["kind"] == "ResourceClaimTemplate":
            for request in spec["spec"]["devices"]["requests"]:
                if ("DeviceClass", "", request["exactly"]["deviceClassName"]) not in names:
                    out.append(f"no class {request['exactly']['deviceClassName']}")
        if one["kind"] in ("Service", "PodDisruptionBudget"):
            chosen = spec["selector"].get("matchLabels", spec["selector"])
            if not any(of == space and chosen.items() <= pod["metadata"]["labels"].items() for of,
                       pod in pods):
                out.append(f"{one['kind']} {one['metadata']['name']} selects no pod")
    return out
