// Validates Kubernetes objects with the classes of the npm package kubernetes-models. Standard
// input: a JSON list of texts, each of YAML documents. Standard output: for each text a list of
// {object, faults}.
import { readFileSync } from "node:fs";
import * as apps from "kubernetes-models/apps/v1";
import * as rbac from "kubernetes-models/rbac.authorization.k8s.io/v1";
import * as resource from "kubernetes-models/resource.k8s.io/v1";
import { ConfigMap } from "kubernetes-models/v1/ConfigMap";
import { Namespace } from "kubernetes-models/v1/Namespace";
import { ServiceAccount } from "kubernetes-models/v1/ServiceAccount";
import { parseAllDocuments } from "yaml";

const kinds = {
  v1: { ConfigMap, Namespace, ServiceAccount },
  "apps/v1": apps,
  "rbac.authorization.k8s.io/v1": rbac,
  "resource.k8s.io/v1": resource,
};

// The value, and into `seen` of each object in it which members were asked for.
function watched(value, path, seen) {
  if (value === null || typeof value !== "object") return value;
  const asked = new Set();
  seen.push({ value, path, asked });
  const members = {};
  for (const key of Object.keys(value)) members[key] = watched(value[key], `${path}/${key}`, seen);
  return new Proxy(value, {
    get(target, key) {
      asked.add(key);
      return Object.hasOwn(members, key) ? members[key] : target[key];
    },
  });
}

function faults(object) {
  const Model = kinds[object?.apiVersion]?.[object?.kind];
  if (!Model?.is) return [`no kind '${object?.kind}' in '${object?.apiVersion}'`];
  const model = new Model(object);
  const seen = [];
  try {
    model.validate.call(watched(model, "", seen));
  } catch (error) {
    return [error.message];
  }
  // The package lets unknown fields pass: those that its validators do not ask for in an object of
  // which they ask for others. An object that they do not look into may hold anything.
  const looked = seen.filter(({ asked }) => asked.size > 0);
  return looked.flatMap(({ value, path, asked }) => {
    const unknown = Object.keys(value).filter((key) => !asked.has(key));
    return unknown.map((key) => `${path}/${key} is unknown`);
  });
}

function check(text) {
  const documents = parseAllDocuments(text).filter(
    ({ contents, errors }) => contents !== null || errors.length > 0,
  );
  return documents.map((document) => {
    if (document.errors.length > 0)
      return { object: null, faults: document.errors.map((error) => error.message) };
    const object = document.toJS();
    return { object, faults: faults(object) };
  });
}

process.stdout.write(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(check)));
