// The page in front of a real `partita agent` on a simulated machine. A gateway is played: it counts requests as they
// would arrive, on the workers that the assignment asks for. What the page shows is compared with `partita status`.
// usage: node agent_checks.mjs TOOLS CHROMIUM PARTITA FOLDER (machine, services, profiles in FOLDER)
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { startBrowser } from "./browser.mjs";

const [tools, chromium, partita, folder] = process.argv.slice(2);
const TOKEN = "a-token-for-this-test";
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const file = (name) => join(folder, name);

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const port = await freePort(),
  url = `http://127.0.0.1:${port}/`;
writeFileSync(
  file("tokens"),
  `ops:operator:${createHash("sha256").update(TOKEN).digest("hex")}\n`,
  { mode: 0o600 },
);
writeFileSync(
  file("agent.yaml"),
  `node: {driver: sim, machine: machine.yaml, state_dir: state}
services: services.yaml
profiles: profiles.csv
policy: {mode: approve, look_s: 0.3}
server: {socket: "${folder}/api.sock", listen: "127.0.0.1:${port}", tokens_file: tokens}
`,
);

// ---- the agent
let agent = null,
  log = "";
async function startAgent() {
  agent = spawn(partita, ["agent", "--settings", "agent.yaml"], {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
  });
  for (const stream of [agent.stdout, agent.stderr]) stream.on("data", (piece) => (log += piece));
  for (let i = 0; i < 600; ++i) {
    if (agent.exitCode !== null) break;
    const there = await fetch(`${url}v1/health`).then(
      (answer) => answer.ok,
      () => false,
    );
    if (there) return;
    await sleep(200);
  }
  throw new Error(`the agent does not answer:\n${log}`);
}
async function killAgent() {
  const ended = new Promise((resolve) => agent.once("exit", resolve));
  agent.kill("SIGKILL");
  await ended;
}

// ---- the gateway: of each service half of what its file says, all in time, so that no change is wanted but those below
const identity = `${readFileSync("/proc/self/stat", "utf8").split(") ")[1].split(" ")[19]}@${readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()}`;
const RATES = { chat: 60, search: 15 };
const arrived = new Map(),
  begun = Date.now();
function gateway() {
  let assignment;
  try {
    assignment = JSON.parse(readFileSync(file("state/assignment.json"), "utf8"));
  } catch {
    return;
  }
  const names = [...new Set(assignment.segments.map((one) => one.service))].sort();
  for (const name of names)
    arrived.set(name, Math.round(((Date.now() - begun) / 1000) * (RATES[name] ?? 10)));
  const workers = assignment.segments.flatMap((one) =>
    Array.from({ length: one.processes }, (_, index) => ({
      device: one.device,
      index,
      service: one.service,
      pid: process.pid,
      state: "ready",
      last_beat_s: 0.1,
    })),
  );
  workers.sort((a, b) => (a.device < b.device ? -1 : a.device > b.device ? 1 : a.index - b.index));
  const services = names.map((name) => ({
    name,
    capacity_rps: assignment.segments
      .filter((one) => one.service === name)
      .reduce((sum, one) => sum + one.throughput_rps, 0),
    rate_rps: RATES[name] ?? 10,
    requests: {
      arrived: arrived.get(name),
      in_slo: arrived.get(name),
      missed: 0,
      shed: 0,
      p99_ms: 42,
    },
  }));
  const text = JSON.stringify({
    api_version: "partita/v1",
    kind: "GatewayState",
    revision: assignment.revision,
    pid: process.pid,
    identity,
    written_s: Number(process.hrtime.bigint()) / 1e9,
    services,
    workers,
  });
  writeFileSync(file("state/gateway.json.test"), text);
  renameSync(file("state/gateway.json.test"), file("state/gateway.json"));
}
const playing = setInterval(gateway, 250);

// "chat 3g.40gb at 4 on GPU 0", sorted: as the node says, and as the page says.
const onNode = () =>
  JSON.parse(
    execFileSync(
      partita,
      [
        "status",
        "--driver",
        "sim",
        "--machine",
        "machine.yaml",
        "--state-dir",
        "state",
        "--format",
        "json",
      ],
      { cwd: folder, encoding: "utf8" },
    ),
  )
    .gpus.flatMap((gpu) =>
      gpu.instances.map(
        (one) => `${one.service}, ${one.profile} at ${one.start} on GPU ${gpu.index}`,
      ),
    )
    .sort();
const onPage = async (page) =>
  (
    await page
      .locator(".strip .cell")
      .evaluateAll((all) =>
        all.filter((one) => one.closest("#view-now")).map((one) => one.getAttribute("aria-label")),
      )
  )
    .map((one) => one.replace(/, batch.*/, ""))
    .sort();
async function agree(page) {
  for (let i = 0; i < 240; ++i) {
    if (JSON.stringify(await onPage(page)) === JSON.stringify(onNode())) break;
    await sleep(250);
  }
  assert.deepEqual(await onPage(page), onNode());
}
const until = (page, selector, pattern) =>
  page.waitForFunction(
    ([one, source]) => new RegExp(source).test(document.querySelector(one)?.textContent ?? ""),
    [selector, pattern.source],
  );

async function approve(page) {
  await page.keyboard.press("2");
  await page.waitForSelector("#approve:visible:not([disabled])");
  const number = (await page.locator("#view-change h2").innerText()).replace(/\D/g, "");
  assert.ok((await page.locator("#view-change .movelist li").count()) > 0);
  await page.click("#approve");
  // It is shown to its end, unless another one is proposed meanwhile; what came of it the agent says.
  await page.waitForFunction(
    (one) =>
      document.querySelector("#view-change h2").textContent !== `Change ${one}` ||
      /^(done|failed)$/.test(document.querySelector("#view-change .chip").textContent),
    number,
  );
  for (let i = 0; ; ++i) {
    const change = await fetch(`${url}v1/changes/${number}`, {
      headers: { Authorization: `Bearer ${TOKEN}` },
    }).then((answer) => answer.json());
    if (change.state === "succeeded") break;
    assert.ok(/approved|applying/.test(change.state) && i < 240, `${change.state} ${change.error}`);
    await sleep(250);
  }
  await page.keyboard.press("1");
  return number;
}

let code = 0;
const browser = await startBrowser(tools, chromium);
try {
  await startAgent();
  const page = await browser.context.newPage(),
    faults = [];
  page.setDefaultTimeout(45000);
  page.on("pageerror", (error) => faults.push(error.message));
  await page.addInitScript(() =>
    addEventListener("securitypolicyviolation", (event) => {
      throw new Error(`policy: ${event.violatedDirective}`);
    }),
  );
  const answer = await page.goto(url);
  assert.match(answer.headers()["content-security-policy"], /^default-src 'none';/);
  await page.waitForSelector("#token[open]");
  await page.fill("#token-text", TOKEN);
  await page.keyboard.press("Enter");
  await until(page, "#link-text", /^live$/);
  console.log("ok   the agent's own page, signed in");

  await page.waitForSelector("#badge:not([hidden])");
  await approve(page);
  await agree(page);
  assert.ok(onNode().length > 1);
  console.log(
    "ok   the first plan is approved by a click; the page shows what the node has:",
    onNode().join("; "),
  );

  await until(page, ".services tbody tr:first-child b", /^[3-9]\d|^1\d\d/); // 60 a second, measured by the agent
  const before = onNode();
  const put = await fetch(`${url}v1/services`, {
    method: "PUT",
    headers: { Authorization: `Bearer ${TOKEN}`, "Content-Type": "application/yaml" },
    body: readFileSync(file("services.yaml"), "utf8").replace("rate_rps: 30", "rate_rps: 300"),
  });
  assert.equal(put.status, 202, await put.text());
  // Another change may have been proposed before, for the rates that were measured.
  let number = "";
  for (let i = 0; i < 5 && JSON.stringify(onNode()) === JSON.stringify(before); ++i) {
    await page.waitForSelector("#badge:not([hidden])");
    number = await approve(page);
  }
  await agree(page);
  assert.notDeepEqual(onNode(), before);
  console.log(
    `ok   change ${number} is approved by a click while requests arrive: ${onNode().length} slices`,
  );

  await killAgent();
  await until(page, "#link-text", /no answer/);
  await startAgent();
  await until(page, "#link-text", /^live$/);
  await agree(page);
  console.log("ok   it comes back after kill -9 and a new start, and shows the same");

  await page.keyboard.press("4");
  await page.waitForFunction(
    (one) =>
      [...document.querySelectorAll(".events b")].some((line) =>
        line.textContent.startsWith(`approved ${one}`),
      ),
    number,
  );
  await page
    .locator(".events button", { hasText: `applied ${number} succeeded` })
    .first()
    .click();
  await until(page, "#view-history .with-events", /The plan in force: change \d+/);
  console.log("ok   the history has who approved, and the plan that came of it");
  assert.deepEqual(faults, []);
} catch (error) {
  code = 1;
  console.log(
    `FAIL ${error.stack?.split("\n").slice(0, 30).join("\n")}\n---- the agent said\n${log.slice(-3000)}`,
  );
}
clearInterval(playing);
await browser.close();
if (agent && agent.exitCode === null) await killAgent();
process.exit(code);
