// What the state of a large node leaves out: its slices, and what is in a change. Read when it is another, kept till then.
import { get } from "./feed.js";

const AGAIN_MS = 2000,
  MOST_CHANGES = 4;

// changed(): something that was missing is there.
export function makeParts(changed) {
  let node = null,
    version = null,
    asked = 0,
    asking = false;
  const changes = new Map(); // number -> AgentChange, or null while it is asked for

  async function askNode(wanted) {
    if (asking || Date.now() - asked < (node ? 0 : AGAIN_MS)) return;
    asking = true;
    asked = Date.now();
    try {
      [node, version] = [await get("/v1/node"), wanted];
    } catch {
      setTimeout(changed, AGAIN_MS);
    }
    asking = false;
    changed();
  }
  async function askChange(number) {
    changes.set(number, null);
    if (changes.size > MOST_CHANGES) changes.delete(changes.keys().next().value);
    try {
      changes.set(number, await get(`/v1/changes/${number}`));
    } catch {
      setTimeout(() => (changes.delete(number), changed()), AGAIN_MS);
      return;
    }
    changed();
  }
  return {
    // Another agent, or the same one begun anew: nothing is known of it.
    forget() {
      version = null;
      changes.clear();
    },
    // The slices, as far as they are known; the state's own where it has them.
    node(state) {
      if (!state.left_out?.includes("state")) return state.state;
      if (version !== (state.node_version ?? 0)) askNode(state.node_version ?? 0);
      return node;
    },
    // A change with what is in it, as far as that is known. Only asked for where it is wanted.
    change(brief, wanted) {
      if (!brief || brief.change || brief.steps === undefined) return brief;
      const known = changes.get(brief.number);
      if (known === undefined && wanted) askChange(brief.number);
      return known ? { ...known, ...brief } : brief;
    },
  };
}

// The state with what has changed in it (docs/api.md): a merge patch, in which a list takes its items by number.
export function merged(target, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  if (Array.isArray(target)) {
    for (const [key, value] of Object.entries(patch))
      if (key !== "length") target[key] = merged(target[key], value);
    if ("length" in patch) target.length = patch.length;
    return target;
  }
  const object = target !== null && typeof target === "object" ? target : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete object[key];
    else object[key] = merged(object[key], value);
  }
  return object;
}
