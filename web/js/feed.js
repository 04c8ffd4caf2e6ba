// The agent's API: plain calls, and the stream of states, which connects again by itself.
const KEY = "partita-token";
let token = null;
try {
  token = sessionStorage.getItem(KEY);
} catch {
  /* no storage: the token lives as long as the page */
}

export const hasToken = () => Boolean(token);
export function setToken(value) {
  token = value || null;
  try {
    if (token) sessionStorage.setItem(KEY, token);
    else sessionStorage.removeItem(KEY);
  } catch {
    /* as above */
  }
}
const headers = (more) => (token ? { ...more, Authorization: `Bearer ${token}` } : { ...more });

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function refusal(response) {
  let message = "";
  try {
    const body = await response.json();
    const error = body.error ?? body;
    message = typeof error === "string" ? error : (error.message ?? error.sentence ?? "");
  } catch {
    /* no JSON */
  }
  if (!message)
    message =
      response.status === 403
        ? "your role does not allow this"
        : `the agent answered ${response.status}`;
  return new Refused(response.status, message);
}

export async function get(path) {
  const response = await fetch(path, {
    headers: headers({ Accept: "application/json" }),
    cache: "no-store",
  });
  if (!response.ok) throw await refusal(response);
  return response.json();
}

export async function post(path, body) {
  const response = await fetch(path, {
    method: "POST",
    headers: headers({ "Content-Type": "application/json", Accept: "application/json" }),
    body: JSON.stringify(body ?? {}),
  });
  if (!response.ok) throw await refusal(response);
  return response.json().catch(() => ({}));
}

// Splits what arrives into events. `take` gets (name, data).
export function eventParser(take) {
  let rest = "";
  return (piece) => {
    rest += piece;
    if (!piece.includes("\n") && !piece.includes("\r")) return;
    rest = rest.replace(/\r\n?/g, "\n");
    let begin = 0;
    for (let end = rest.indexOf("\n\n", begin); end >= 0; end = rest.indexOf("\n\n", begin)) {
      const block = rest.slice(begin, end);
      begin = end + 2;
      let name = "message";
      const data = [];
      for (const line of block.split("\n")) {
        if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
        else if (line.startsWith("event:")) name = line.slice(6).trim();
      }
      if (data.length) take(name, data.join("\n"));
    }
    rest = rest.slice(begin);
  };
}

const LEAST_WAIT = 500,
  MOST_WAIT = 15000,
  SILENCE = 45000;

// Follows /v1/events for ever. on.state(text), on.changes(text) behind one, on.link("live" | "lost" | "token", wait in ms).
export function follow(on) {
  let wait = LEAST_WAIT,
    abort = null,
    wake = null,
    asked = false;

  async function once() {
    abort = new AbortController();
    const controller = abort;
    let timer = setTimeout(() => controller.abort(), SILENCE);
    try {
      const response = await fetch("/v1/events?changes=true", {
        headers: headers({ Accept: "text/event-stream" }),
        cache: "no-store",
        signal: controller.signal,
      });
      if (response.status === 401) return "token";
      if (!response.ok || !response.body) return "lost";
      const reader = response.body.getReader(),
        decoder = new TextDecoder();
      const parse = eventParser((name, data) => {
        if (name === "changes") return on.changes(data);
        if (name !== "state" && name !== "message") return;
        wait = LEAST_WAIT;
        on.link("live", 0);
        on.state(data);
      });
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return "lost";
        clearTimeout(timer);
        timer = setTimeout(() => controller.abort(), SILENCE);
        parse(decoder.decode(value, { stream: true }));
      }
    } catch {
      return "lost";
    } finally {
      clearTimeout(timer);
    }
  }

  (async () => {
    for (;;) {
      const how = await once();
      const sleep = how === "token" ? null : asked ? 0 : wait * (0.75 + Math.random() / 2);
      asked = false;
      on.link(how, sleep ?? 0);
      await new Promise((resolve) => {
        const timer = sleep === null ? null : setTimeout(resolve, sleep);
        wake = () => (clearTimeout(timer), resolve());
      });
      wake = null;
      wait = Math.min(MOST_WAIT, wait * 2);
    }
  })();

  // At once: somebody pressed the button, signed in, or the machine is back on the network.
  const now = () => {
    wait = LEAST_WAIT;
    if (wake) wake();
  };
  addEventListener("online", now);
  document.addEventListener("visibilitychange", () => document.hidden || now());
  return {
    now,
    again() {
      asked = true;
      if (wake) now();
      else if (abort) abort.abort();
    },
  };
}
