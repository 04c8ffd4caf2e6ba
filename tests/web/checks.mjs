// The page in Debian's Chromium against a made-up agent. What it asserts is what people and screen readers meet:
// names, states, focus, contrast, time; never how a function was called.
// usage: node checks.mjs TOOLS CHROMIUM; UPDATE=1 rewrites the structures in expected/, ONLY=REGEX runs some, SLOWER=5
// does it in a browser that is five times slower.
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { startBrowser } from "./browser.mjs";
import { fleet, fleetOf, startAgent } from "./fake_agent.mjs";

const [tools, chromium] = process.argv.slice(2);
const here = new URL(".", import.meta.url).pathname,
  root = join(here, "../../web");
const axe = readFileSync(createRequire(`${tools}/`).resolve("axe-core/axe.min.js"), "utf8");
const browser = await startBrowser(tools, chromium);
const tests = [];
const test = (name, run) => tests.push({ name, run });

async function slowed(page) {
  if (!process.env.SLOWER) return;
  const session = await browser.context.newCDPSession(page);
  await session.send("Emulation.setCPUThrottlingRate", { rate: Number(process.env.SLOWER) });
}

// A page on an agent; whatever goes wrong in it is in `faults`.
async function open(options = {}, wait = ".cell", view = "") {
  const agent = await startAgent({ root, ...options });
  const page = await browser.context.newPage();
  const faults = [],
    elsewhere = [];
  page.setDefaultTimeout(60000); // nothing below waits for a time: this only ends what hangs
  page.on("pageerror", (error) => faults.push(error.message));
  page.on(
    "console",
    (line) =>
      line.type() === "error" &&
      !/Failed to load resource|ERR_/.test(line.text()) &&
      faults.push(line.text()),
  );
  page.on(
    "request",
    (request) => request.url().startsWith(agent.url) || elsewhere.push(request.url()),
  );
  await page.addInitScript(() =>
    addEventListener("securitypolicyviolation", (event) =>
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`),
    ),
  );
  await slowed(page);
  await page.goto(agent.url + view);
  if (wait) await page.waitForSelector(wait);
  return {
    agent,
    page,
    faults,
    async close() {
      await page.close();
      await agent.stop();
      assert.deepEqual(faults, []);
      assert.deepEqual(elsewhere, [], "asked another host");
    },
  };
}
const words = (page, selector) => page.locator(selector).innerText();
const until = (page, selector, pattern) =>
  page.waitForFunction(
    ([one, source]) => new RegExp(source).test(document.querySelector(one)?.textContent ?? ""),
    [selector, pattern.source],
  );
// Waits until the page has drawn so many more states than it had, or than `since`.
const drawn = (page) =>
  page.evaluate(() => performance.getEntriesByName("partita-update").length);
async function draws(page, more = 1, since = null) {
  const wanted = (since ?? (await drawn(page))) + more;
  await page.waitForFunction(
    (one) => performance.getEntriesByName("partita-update").length >= one,
    wanted,
    { polling: 15 },
  );
}

// What axe-core finds, with the rules of WCAG 2.2. Not by eval: the page's policy forbids it; the browser's own console
// may.
async function findings(page) {
  const session = await browser.context.newCDPSession(page);
  await session.send("Runtime.evaluate", { expression: axe });
  const { result, exceptionDetails } = await session.send("Runtime.evaluate", {
    awaitPromise: true,
    returnByValue: true,
    expression:
      "axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}).then(r => r.violations.map(v => v.id + ': ' + v.nodes.length + ' ' + v.nodes.slice(0, 3).map(n => n.html.slice(0, 120) + ' ' + (n.any[0]?.message ?? n.all[0]?.message ?? '')).join(' | ')))",
  });
  assert.equal(exceptionDetails, undefined);
  return result.value;
}

// ---- structure
const masked = (tree) =>
  tree
    .replace(/\d{4}-\d\d-\d\d /g, "DAY ")
    .replace(/\b\d\d-\d\d(?= TIME| \d\d:)/g, "DAY")
    .replace(/\d\d:\d\d(:\d\d)?/g, "TIME");
for (const view of ["now", "change", "batch"]) {
  test(`the structure of ${view} is the expected one`, async () => {
    const it = await open({}, "#main[aria-busy=false]", `#${view}`);
    it.agent.propose();
    await it.page.waitForSelector("#badge:not([hidden])");
    if (view === "batch")
      await it.page.waitForSelector(".energy tbody tr:nth-child(6) td:last-child:has-text('kWh')");
    const tree = `${masked(await it.page.locator("body").ariaSnapshot())}\n`,
      file = join(here, "expected", `${view}.yaml`);
    if (process.env.UPDATE || !existsSync(file)) writeFileSync(file, tree);
    assert.equal(tree, readFileSync(file, "utf8"));
    await it.close();
  });
}

for (const scheme of ["light", "dark"]) {
  test(`everybody can read it, ${scheme}: names, roles, contrast by axe`, async () => {
    const it = await open({ services: 12 });
    await it.page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
    it.agent.state.notices = ["change 7 failed: the driver is busy"];
    it.agent.propose();
    for (const view of ["now", "change", "batch", "history"]) {
      await it.page.goto(`${it.agent.url}#${view}`);
      await it.page.waitForSelector(`#view-${view}:visible`);
      if (view === "history") await it.page.waitForSelector(".events li");
      if (view === "history") await it.page.waitForSelector("#view-history .gpus .cell");
      assert.deepEqual(await findings(it.page), [], view);
    }
    await it.close();
  });
}

// ---- large nodes
const LARGE = { gpus: 64, services: 1000, sevenths: true, large: true };
const MOST_ELEMENTS = 6000,
  MOST_HEAP = 100e6,
  MOST_PX = 3000;
for (const [width, height] of [
  [1440, 900],
  [390, 844],
])
  test(`64 GPUs, 1,000 services, ${width} px: what is in view is there, found and read by everybody`, async () => {
    const agent = await startAgent({ root, ...LARGE }),
      page = await browser.context.newPage();
    page.setDefaultTimeout(60000);
    await page.setViewportSize({ width, height });
    const session = await browser.context.newCDPSession(page);
    await session.send("Performance.enable", { timeDomain: "threadTicks" });
    await slowed(page);
    await page.goto(agent.url);
    await page.waitForSelector(".services tbody tr");
    await page.waitForSelector(".gpus .cell"); // read from /v1/node
    const ready = await page.evaluate(() => performance.now());
    const own = (await session.send("Performance.getMetrics")).metrics.find(
      (one) => one.name === "TaskDuration",
    ).value;
    const measure = async () => {
      await session.send("HeapProfiler.collectGarbage");
      const { usedSize } = await session.send("Runtime.getHeapUsage");
      const [elements, tall, wide] = await page.evaluate(() => [
        document.querySelectorAll("*").length,
        document.documentElement.scrollHeight,
        document.documentElement.scrollWidth,
      ]);
      assert.ok(elements <= MOST_ELEMENTS, `${elements} elements`);
      assert.ok(tall <= MOST_PX, `${tall} px`);
      assert.ok(wide <= width, `${wide} px wide`);
      assert.ok(usedSize <= MOST_HEAP, `heap of ${usedSize} bytes`);
      return `${elements} elements, ${tall} px, heap ${(usedSize / 1e6).toFixed(1)} MB`;
    };
    console.log(
      `    ready after ${(ready / 1000).toFixed(2)} s, ${own.toFixed(2)} s of them its own; ${await measure()}`,
    );
    // Time of its main thread: what others do on the machine is not the page's.
    assert.ok(own <= 1.5 * Number(process.env.SLOWER ?? 1), `${own} s until it was ready`);
    assert.deepEqual(await findings(page), []);
    // Every service is reached by scrolling, and nothing else is made for it.
    const table = page.locator("#view-now .rows");
    assert.equal(await page.getAttribute("table.services", "aria-rowcount"), "1001");
    await table.evaluate((one) => one.scrollTo(0, one.scrollHeight));
    await page.getByRole("button", { name: "service-1000", exact: true }).waitFor();
    const last = page.locator(".services tbody tr").last();
    assert.equal(await last.getAttribute("aria-rowindex"), "1001");
    assert.ok(await last.isVisible());
    const box = await last.boundingBox(),
      frame = await table.boundingBox();
    assert.ok(box.y + box.height <= frame.y + frame.height + 1.5, "its end is in view");
    // States go on coming, and what is seen is the newest.
    agent.tick();
    const rate = agent.state.services[999].rate_rps;
    await page.waitForFunction(
      (one) => document.querySelector(".services tbody tr:last-child b").textContent === one,
      `${new Intl.NumberFormat("en", { maximumFractionDigits: 0 }).format(rate)} /s`,
    );
    for (let i = 0; i < 20; ++i) agent.tick();
    console.log(`    behind 21 updates: ${await measure()}`);
    // Names, models and verdicts find services.
    const found = (count) => page.waitForSelector(`table.services[aria-rowcount="${count + 1}"]`);
    await page.fill("#find", "service-99");
    await found(11);
    await page.fill("#find", "down service-9");
    await found(100);
    assert.match(
      await words(page, ".services tbody tr >> nth=0"),
      /down.*nothing is planned for service-900: not enough GPUs; [\d.]+ req\/s/s,
    );
    await page.fill("#find", "no such");
    assert.match(await words(page, "#view-now [role=status]"), /None of 1,000 services/);
    await page.fill("#find", "");
    await page.getByRole("button", { name: "degraded 1" }).click();
    assert.match(await words(page, ".services tbody"), /degraded.*1 of 2 workers is ready/s);
    await found(1);
    await page.getByRole("button", { name: /^all/ }).click();
    // Keys go through all GPUs, drawn or not.
    await page.locator(".gpus .cell").first().focus();
    const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label"));
    await page.keyboard.press("End");
    assert.match(await focused(), /on GPU 63/);
    await page.keyboard.press("ArrowUp");
    assert.match(await focused(), /on GPU 62/);
    await page.keyboard.press("Home");
    assert.match(await focused(), /on GPU 0/);
    // A change of that size, its parts read when they are looked at.
    agent.propose();
    await page.waitForSelector("#badge:not([hidden])");
    await page.goto(`${agent.url}#change`);
    await page.waitForSelector(".movelist li");
    if (width < 1000) assert.deepEqual(await findings(page), [], "change");
    console.log(`    its change: ${await measure()}`);
    await page.close();
    await agent.stop();
  });

test("all kept is said only where every verdict is that it serves", async () => {
  const state = fleet();
  state.services.forEach((one) => Object.assign(one, { at_risk: false, verdict: "serves" }));
  const it = await open({ state });
  const tile = () => words(it.page, ".tiles > div >> nth=0");
  assert.match(await tile(), /all kept/);
  for (const [verdict, word] of [
    ["degraded", "degraded"],
    ["at_risk", "at risk"],
    ["down", "down"],
    ["unknown", "unknown"],
    ["a word of tomorrow", "unknown"],
  ]) {
    const before = await drawn(it.page);
    const since = new Date().toISOString();
    Object.assign(it.agent.state.services[1], { verdict, since, why: "so it is" });
    it.agent.push();
    await draws(it.page, 1, before);
    assert.match(await tile(), new RegExp(`▲ 1 ${word}`));
    const row = await words(it.page, ".services tbody tr >> nth=1");
    assert.match(row, new RegExp(`${word} since \\d\\d:\\d\\d:\\d\\d: so it is`));
  }
  await it.close();
});

test("a GPU that rests is not slowed down", async () => {
  const it = await open();
  assert.equal(await it.page.locator(".gpu >> nth=2 >> .hot").count(), 1);
  assert.equal(await it.page.locator(".hot").count(), 1);
  await it.close();
});

test("a node that cannot be read is shown as it was, with when that was and why", async () => {
  const it = await open();
  assert.ok(await it.page.locator("#age").isHidden());
  it.agent.state.state_fault = "the driver does not answer";
  it.agent.state.state_as_of = new Date(it.agent.state.time_ms - 75000).toISOString();
  it.agent.push();
  await until(it.page, "#age", /as they were at .*, 1 min \d+ s ago: the driver does not answer/);
  assert.ok(await it.page.locator(".gpus.old").isVisible());
  await it.close();
});

test("a state of which nothing newer comes is shown as old, and as not known", async () => {
  const state = fleet();
  state.services.forEach((one) => Object.assign(one, { at_risk: false, verdict: "serves" }));
  const agent = await startAgent({ root, state }),
    other = await startBrowser(tools, chromium), // the clock is that of all pages of a browser
    page = await other.context.newPage();
  page.setDefaultTimeout(60000);
  await page.clock.install();
  await page.goto(agent.url);
  await page.clock.runFor(1000);
  await page.waitForSelector(".cell");
  assert.match(await words(page, ".tiles"), /all kept/);
  assert.ok(await page.locator("#age").isHidden());
  await page.clock.runFor(50000); // no news for so long
  await until(page, "#age", /the state is of .*, 5\d s ago/);
  await page.clock.runFor(1000);
  assert.match(await words(page, ".tiles"), /▲ 6 unknown/);
  assert.doesNotMatch(await words(page, "body"), /all kept|as planned|✓ serves/);
  await other.close();
  await agent.stop();
});

test("colours of services are told apart without colour: pattern, name, label", async () => {
  const it = await open({ gpus: 4, services: 12 });
  const looks = await it.page
    .locator(".legend .swatch")
    .evaluateAll((all) => all.map((one) => one.className));
  assert.equal(new Set(looks).size, 12);
  for (const cell of await it.page.locator(".strip .cell").all())
    assert.match(await cell.getAttribute("aria-label"), /on GPU \d/);
  await it.close();
});

// ---- what an operator does
test("a change is approved by a click while traffic flows, and is seen to its end", async () => {
  // Each step is held until the page has shown it, while other states come.
  const it = await open({
    hold: async (step) => {
      it.agent.tick();
      await it.page.waitForFunction(
        (one) =>
          document.querySelector("[role=progressbar]").getAttribute("aria-valuenow") === `${one}`,
        step,
      );
      it.agent.tick();
    },
  });
  it.agent.propose();
  await it.page.click(".banner a");
  await it.page.waitForSelector("#approve:not([disabled])");
  assert.match(await words(it.page, "#view-change .cause"), /rose from 410 to 780/);
  assert.equal(await it.page.locator(".movelist li").count(), 3);
  assert.match(await words(it.page, "#view-change .columns table"), /bert-base\s+67 %\s+▲ 3\.1 s/);
  const before = it.agent.state.version,
    seen = [];
  await it.page.exposeFunction("saw", (now) => seen.push(now));
  await it.page.evaluate(() =>
    new MutationObserver(() =>
      saw(Number(document.querySelector("[role=progressbar]").getAttribute("aria-valuenow"))),
    ).observe(document.querySelector("[role=progressbar]"), { attributes: true }),
  );
  await it.page.click("#approve");
  await until(it.page, "#view-change .chip", /^done$/);
  assert.deepEqual(
    [...new Set(seen)].filter((one) => one > 0),
    Array.from({ length: 12 }, (_, i) => i + 1),
    "every step is shown, in its order",
  );
  assert.equal(seen.at(-1), 12);
  assert.ok(it.agent.state.version - before > 20, "traffic flowed");
  assert.equal(it.agent.calls.filter((one) => one === "POST /v1/changes/12/approve").length, 1);
  await it.page.keyboard.press("1");
  await it.page.waitForSelector(".gpu >> nth=0 >> .cell >> nth=2");
  const cells = await it.page
    .locator(".gpu >> nth=0 >> .cell")
    .evaluateAll((all) => all.map((one) => one.getAttribute("aria-label")));
  assert.deepEqual(
    cells.map((one) => one.replace(/, batch.*/, "")),
    [
      "resnet50, 4g.40gb at 0 on GPU 0",
      "bert-base, 2g.20gb at 4 on GPU 0",
      "llama-7b, 1g.10gb at 6 on GPU 0",
    ],
  );
  assert.ok(await it.page.locator(".banner").isHidden());
  await it.close();
});

test("by keys alone: slices, details, views, a change rejected with a reason", async () => {
  const it = await open();
  const focused = () =>
    it.page.evaluate(
      () =>
        document.activeElement.getAttribute("aria-label") ??
        document.activeElement.textContent.trim(),
    );
  await it.page.keyboard.press("Tab");
  assert.equal(await focused(), "Skip to the node");
  await it.page.keyboard.press("Enter");
  await it.page.keyboard.press("Tab");
  assert.match(await focused(), /^resnet50, 4g\.40gb at 0 on GPU 0/);
  await it.page.keyboard.press("ArrowRight");
  await it.page.keyboard.press("ArrowRight");
  assert.match(await focused(), /^whisper, 2g\.20gb at 0 on GPU 1/);
  await it.page.keyboard.press("ArrowDown");
  assert.match(await focused(), /on GPU 2/);
  await it.page.keyboard.press("End");
  assert.match(await focused(), /on GPU 7/);
  await it.page.keyboard.press("Enter");
  assert.match(await words(it.page, "#detail"), /7g\.80gb at 0 on GPU 7/);
  await it.page.keyboard.press("Escape");
  assert.match(await focused(), /on GPU 7/, "focus comes back");
  await it.page.keyboard.press("Tab");
  assert.equal(await focused(), "Find a service", "the slices are one stop");
  await it.page.keyboard.type("llama");
  assert.equal(await it.page.locator(".services tbody tr").count(), 1);
  await it.page.locator("#find").blur();
  it.agent.propose();
  await it.page.waitForSelector("#badge:not([hidden])");
  await it.page.keyboard.press("2");
  await it.page.waitForSelector("#reject:visible");
  await it.page.keyboard.press("r");
  await it.page.waitForFunction(() => document.activeElement?.id === "why-text");
  await it.page.keyboard.type("not before the release");
  await it.page.keyboard.press("Enter");
  await until(it.page, "#view-change .chip", /^rejected$/);
  assert.deepEqual(JSON.parse(it.agent.body), { why: "not before the release" });
  assert.match(await words(it.page, "#said"), /Change 12|change 12/, "it is said aloud");
  await it.close();
});

test("a GPU is taken out with a reason, and another one given back", async () => {
  const it = await open();
  await it.page.click(".gpu >> nth=3 >> .cell >> nth=0");
  await it.page.fill("#out-why", "fan is loud");
  await it.page.keyboard.press("Enter");
  await until(it.page, ".gpu:nth-child(4) .outwhy", /Out: fan is loud/);
  await it.page.click(".gpu:nth-child(7) .outwhy");
  await it.page.getByRole("button", { name: "Give GPU 6 back" }).click();
  await it.page.waitForSelector(".gpu:nth-child(7):not(.out)");
  await it.close();
});

test("history: the slider goes through the events, each with its plan", async () => {
  const it = await open({}, ".events li", "#history");
  await it.page.waitForSelector("#view-history .gpus .cell");
  const last = await words(it.page, ".when");
  await it.page.focus("#scrub");
  await it.page.keyboard.press("ArrowLeft");
  await it.page.waitForFunction((was) => document.querySelector(".when").textContent !== was, last);
  assert.equal(
    await it.page.getAttribute("#scrub", "aria-valuetext"),
    await words(it.page, ".when"),
  );
  await it.page.keyboard.press("Home");
  await until(it.page, ".when", /started/);
  assert.match(
    await words(it.page, "#view-history .with-events"),
    /No plan is kept for this moment/,
  );
  await it.page.keyboard.press("End");
  await until(it.page, "#view-history .with-events", /The plan in force: change \d+, 8 GPUs/);
  await it.close();
});

// ---- the fleet
const rowsOf = (page, table) =>
  page.locator(`#view-fleet table[aria-label="${table}"] tbody tr`).allInnerTexts();
test("a node of no fleet has no such view", async () => {
  const it = await open({}, ".cell");
  await it.page.waitForFunction(() => performance.getEntriesByName("partita-update").length > 0);
  assert.ok(await it.page.locator("[data-view=fleet]").isHidden());
  await it.page.keyboard.press("5");
  await until(it.page, "#view-fleet", /one of no fleet/);
  await it.close();
});

test("the fleet: nodes, services, who waits for whom; what is not heard is unknown", async () => {
  const it = await open({ fleet: fleetOf() }, "[data-view=fleet]:visible");
  await it.page.keyboard.press("5");
  await it.page.waitForSelector('#view-fleet [aria-label="Nodes"] tbody tr:nth-child(5)');
  const nodes = await rowsOf(it.page, "Nodes");
  assert.match(nodes[1], /^node-18.*✕ lost/s);
  assert.match(nodes[2], /7 of 8, NVLink 0-3, 4 5, 6/);
  assert.doesNotMatch(nodes[1], /NVLink/);
  assert.match(nodes[3], /42, 41.*▶ waits for node-17/s);
  const services = await rowsOf(it.page, "Services");
  assert.match(services[1], /bert-base.*node-18 50 %, node-20 50 %.*✓ serves/s);
  assert.match(services[2], /350 \/s.*◐ degraded/s);
  const facts = await words(it.page, "#view-fleet");
  for (const one of ["prod", "node-17 leads", "revision 42", "survives the loss of a node", "partita approve 6f0c --fleet", "node-20 carries bert-base 100 req/s", "3 ready, 1 lost, 1 waits", "5 serves, 1 degraded", "node-18 is lost; bert-base goes to node-20"])
    assert.ok(facts.includes(one), `${one} in ${facts}`);
  await it.page.keyboard.press("/");
  await it.page.keyboard.type("lost");
  await it.page.waitForFunction(() => document.querySelectorAll('#view-fleet [aria-label="Nodes"] tbody tr').length === 1);
  await it.page.fill("#find-fleet", "");
  assert.deepEqual(await findings(it.page), []);
  // The agent does not hear of the others any more.
  const old = fleetOf();
  it.agent.fleet = {
    ...old,
    fault: "its store: no answer",
    as_of_ms: Date.now() - 5000,
    nodes: old.nodes.map((one) => ({ ...one, state: "unknown" })),
    services: old.services.map((one) => ({ ...one, verdict: "unknown" })),
  };
  await until(it.page, "#view-fleet .age", /what is now is not known: its store: no answer/);
  assert.ok((await rowsOf(it.page, "Nodes")).every((one) => one.includes("? unknown")));
  assert.ok((await rowsOf(it.page, "Services")).every((one) => one.includes("? unknown")));
  it.agent.fleet = null;
  await until(it.page, "#view-fleet .age", /the agent does not tell of its fleet/);
  await it.close();
});

test("power of the fleet: the tree, dead feeds, budgets, caps and draws of nodes", async () => {
  const it = await open({ fleet: fleetOf({ power: true }) }, "[data-view=fleet]:visible", "#fleet");
  await it.page.waitForSelector('#view-fleet [aria-label="Budgets"] tbody tr:nth-child(5)');
  const points = await rowsOf(it.page, "Points of power");
  // Each behind what it hangs on, whatever the order in the document.
  assert.deepEqual(
    points.map((row) => row.split("\t")[0].trim()),
    ["A", "r1a", "pdu-3", "B", "r1b"],
  );
  assert.match(points[0], /20\.0 kW/);
  assert.match(points[0], /▲ live\s+without it the rest would be too much/);
  assert.match(points[1], /✓ live/);
  assert.match(points[3], /✕ dead/);
  assert.match(points[2], /89 %/);
  const budgets = await rowsOf(it.page, "Budgets");
  assert.match(budgets[0], /node-17.*nothing.*✓ holds/s);
  assert.match(budgets[1], /node-18.*not known.*\? not there/s);
  assert.match(budgets[2], /node-19.*pdu-3.*✕ above its cap/s);
  assert.match(budgets[3], /node-20.*▶ not yet/s);
  assert.ok((await words(it.page, '[aria-label="Power of the fleet"]')).includes("divided by value, revision 7; dead: B, r1b"));
  assert.deepEqual(await findings(it.page), []);
  it.agent.fleet = { ...it.agent.fleet, fault: "its store: no answer", as_of_ms: Date.now() - 5000 };
  await until(it.page, '[aria-label="Points of power"] tbody', /unknown/);
  assert.ok((await rowsOf(it.page, "Budgets")).every((one) => one.includes("? unknown")));
  it.agent.fleet = fleetOf();
  await it.page.waitForSelector('[aria-label="Power of the fleet"]', { state: "hidden" });
  await it.close();
});

test("2,000 nodes and 5,000 services: those in view are elements, all are found", async () => {
  const it = await open({ fleet: fleetOf({ nodes: 2000, services: 5000 }) }, "[data-view=fleet]:visible", "#fleet");
  await it.page.waitForSelector('#view-fleet [aria-label="Services"] tbody tr:nth-child(5)');
  assert.ok((await it.page.locator("#view-fleet tbody tr").count()) < 120);
  assert.equal(await it.page.getAttribute('table[aria-label="Nodes"]', "aria-rowcount"), "2001");
  await it.page.fill("#find-fleet", "node-2016");
  await it.page.waitForFunction(() => document.querySelectorAll('#view-fleet [aria-label="Nodes"] tbody tr').length === 1);
  assert.match((await rowsOf(it.page, "Nodes"))[0], /^node-2016/);
  await it.close();
});

test("a service over time, with its numbers as a table", async () => {
  const it = await open();
  await it.page.click(".services button >> nth=0");
  await it.page.waitForSelector(".sheet .chart .line");
  await it.page.locator(".sheet summary").first().click();
  assert.ok((await it.page.locator(".sheet tbody >> nth=0 >> tr").count()) > 20);
  await it.page.keyboard.press("Escape");
  assert.ok(await it.page.locator(".sheet").isHidden());
  await it.close();
});

test("a language model: all that is promised, at the percentile that is promised", async () => {
  const it = await open();
  const one = it.agent.state.services[0];
  Object.assign(one, {
    slo_ms: 0,
    percentile: 95,
    attainment: 0.97,
    tokens: { ttft_ms: 900, tpot_ms: 40, in: 800, out: 100 },
    token_traffic: { in_per_s: 9, out_per_s: 5, mean_in: 800, mean_out: 100,
      ttft_p50_ms: 300, ttft_p99_ms: 1200, tpot_p50_ms: 20, tpot_p99_ms: 30 },
  });
  const bar = () => it.page.locator(".services tbody tr >> nth=0 >> .bar >> nth=1").getAttribute("class");
  it.agent.push();
  await until(it.page, ".services tbody tr", /TTFT 900 ms, TPOT 40.0 ms for 95 % of the requests/);
  assert.equal(await bar(), "bar"); // 3 % of late ones are allowed
  one.token_traffic.tpot_p50_ms = 41;
  it.agent.push();
  await it.page.waitForSelector(".services tbody tr:nth-child(1) .bar.late");
  await it.page.click(".services button >> nth=0");
  await it.page.waitForSelector(".sheet .chart .line");
  const said = await words(it.page, ".sheet");
  assert.match(said, /TTFT 900 ms, TPOT 40.0 ms for 95 % of the requests/);
  assert.match(said, /TTFT, 99th percentile, ms/);
  assert.match(said, /TPOT, 99th percentile, ms/);
  assert.doesNotMatch(said, /SLO 0 ms|Latency, 99th/);
  await it.close();
});

test("the batch over time: every task with its times, its end and its trouble", async () => {
  const it = await open({}, ".lanes .task", "#batch");
  const { tasks, gpus } = it.agent.state.batch;
  const shown = tasks.filter((one) => one.gpu_uuid && one.name !== "yesterday");
  const labels = await it.page
    .locator(".lanes .task")
    .evaluateAll((all) => all.map((one) => one.getAttribute("aria-label").split(",")[0]));
  assert.deepEqual(labels.sort(), shown.map((one) => one.name).sort());
  // Places on the axis are the times of the state, from the first begin to the last end.
  const from = Math.min(...shown.map((one) => one.begin_ms)),
    to = Math.max(...shown.map((one) => one.end_ms));
  for (const task of shown) {
    const node = it.page.locator(`.task[aria-label^="${task.name},"]`);
    assert.match(await node.getAttribute("class"), new RegExp(`is-${task.state}`));
    const [begin, end] = await node.evaluate((one) =>
      ["--from", "--to"].map((name) => Number(one.style.getPropertyValue(name))),
    );
    assert.ok(Math.abs(begin - (task.begin_ms - from) / (to - from)) < 1e-6, task.name);
    assert.ok(Math.abs(end - (task.end_ms - from) / (to - from)) < 1e-6, task.name);
  }
  assert.match(await words(it.page, "#view-batch"), /No place yet: publish/);
  assert.match(await words(it.page, "#view-batch"), /tokenise: failed, its command ended with/);
  assert.match(await words(it.page, "#view-batch"), /sweep: cancelled, ops cancelled the batch/);
  assert.match(await words(it.page, "#view-batch .facts >> nth=0"), /1 failed.*1 cancelled/);
  assert.equal(gpus.length, 3);
  // Who takes the watts: the services' own, and what is left of the boards' is nobody's.
  const rows = await it.page
    .locator(".energy tbody tr")
    .evaluateAll((all) => all.map((one) => one.textContent));
  for (const one of it.agent.state.services.filter((service) => service.watts))
    assert.ok(
      rows.some((row) => row.includes(one.name) && row.includes(`${Math.round(one.watts)} W`)),
      `${one.name} ${one.watts} in ${rows}`,
    );
  assert.ok(
    rows.some((row) => row.includes("batches") && row.includes("321 W")),
    `batches in ${rows}`,
  );
  await it.close();
});

// ---- the line to the agent
test("it comes back after the agent has been started anew", async () => {
  const it = await open({ tickMs: 100 });
  await it.agent.stop();
  await until(it.page, "#link-text", /no answer, again in/);
  assert.ok(await it.page.locator("#retry").isVisible());
  const slices = await it.page.locator(".cell").count();
  await it.page.waitForEvent("requestfailed", (one) => new URL(one.url()).pathname === "/v1/events");
  assert.equal(await it.page.locator(".cell").count(), slices, "the last state stays to be seen");
  const state = fleet({ gpus: 3 });
  state.node = "node-17b";
  const again = await startAgent({ root, state, port: it.agent.port });
  await it.page.click("#retry");
  await until(it.page, "#link-text", /^live$/);
  await until(it.page, "#node", /node-17b/);
  assert.equal(await it.page.locator("#view-now .gpu").count(), 3);
  await again.stop();
  await until(it.page, "#link-text", /no answer/);
  const third = await startAgent({ root, state, port: it.agent.port });
  await until(it.page, "#link-text", /^live$/); // by itself
  await third.stop();
  await it.close();
});

test("it asks for a token, says no to a wrong one and what a role may not", async () => {
  const it = await open({ token: "right", role: "viewer" }, "#token[open]");
  await it.page.fill("#token-text", "wrong");
  await it.page.keyboard.press("Enter");
  await until(it.page, "#alarm", /does not know this token/);
  await it.page.waitForSelector("#token[open]");
  await it.page.fill("#token-text", "right");
  await it.page.click("#token button");
  await until(it.page, "#link-text", /^live$/);
  it.agent.propose();
  await it.page.goto(`${it.agent.url}#change`);
  await it.page.click("#approve");
  await until(it.page, "#alarm", /did not take it: approving needs the role operator/);
  assert.ok(await it.page.locator("#approve").isEnabled());
  assert.equal(
    await it.page.evaluate(() => localStorage.length + document.cookie.length),
    0,
    "the token is in this tab only",
  );
  await it.page.click("#forget");
  await it.page.waitForSelector("#token[open]");
  await it.close();
});

// ---- time and steadiness
test("1,000 instances: at most 16 ms of script per update, nothing made anew", async () => {
  const it = await open({ gpus: 143, services: 40, sevenths: true });
  await it.page.setViewportSize({ width: 1000, height: 700 });
  assert.match(await words(it.page, ".tiles > div >> nth=4"), /1,001/);
  // Those in view, once the page has followed its window.
  await it.page.waitForFunction(() => document.querySelectorAll(".cell").length <= 400);
  const session = await browser.context.newCDPSession(it.page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" }); // the thread's own time, whoever else runs
  const script = async () =>
    (await session.send("Performance.getMetrics")).metrics.find(
      (one) => one.name === "ScriptDuration",
    ).value * 1000;
  await it.page.evaluate(() => {
    window.made = 0;
    new MutationObserver((all) => {
      for (const one of all) made += one.addedNodes.length;
    }).observe(document.querySelector(".gpus"), { childList: true, subtree: true });
  });
  // The median of 24 updates: what a collection of garbage or another thread's cache misses add to some is not the
  // page's. Other work on the machine only adds: the best of three rounds counts.
  let median = Infinity,
    p95 = Infinity;
  for (let round = 0; round < 3 && median > 16; ++round) {
    const times = [];
    for (let i = 0; i < 24; ++i) {
      const updates = await drawn(it.page);
      const before = await script();
      it.agent.tick();
      await draws(it.page, 1, updates);
      times.push((await script()) - before);
    }
    times.sort((a, b) => a - b);
    if (times[12] < median) [median, p95] = [times[12], times[22]];
  }
  console.log(
    `    script per update, 1,001 instances, all busy shares changing: median ${median.toFixed(1)} ms, p95 ${p95.toFixed(1)} ms`,
  );
  // The limit holds for a machine that parses that state in 2 ms, as the one of docs/results/page.md; one that takes
  // five times as long is given five times 16 ms.
  const whole = JSON.stringify(it.agent.state);
  await it.page.evaluate((text) => (window.whole = text), whole);
  const before = await script();
  await it.page.evaluate(
    () =>
      new Promise((resolve) =>
        setTimeout(() => {
          for (let i = 0; i < 20; ++i) JSON.parse(window.whole);
          resolve();
        }),
      ),
  );
  const parse = ((await script()) - before) / 20; // the thread's own time, as above
  console.log(`    parsing it alone: ${parse.toFixed(1)} ms`);
  const limit = 16 * Math.max(1, parse / 2);
  assert.ok(median <= limit, `median ${median} ms, p95 ${p95} ms of ${limit}`);
  assert.equal(await it.page.evaluate(() => made), 0, "elements are kept");
  await it.close();
});

test("nothing jumps: updates, a proposal, a GPU that goes out", async () => {
  const it = await open({ tickMs: 50 });
  await draws(it.page, 5);
  await it.page.evaluate(() => {
    window.shift = 0;
    new PerformanceObserver((list) => {
      for (const one of list.getEntries()) shift += one.value;
    }).observe({ type: "layout-shift" });
  });
  await draws(it.page, 10);
  it.agent.propose();
  it.agent.state.gpus[1].out = true;
  it.agent.state.gpus[1].why = "XID 48";
  it.agent.state.notices = ["GPU 1 was taken out"];
  await until(it.page, ".gpu >> nth=1".replace(" >> nth=1", ".out"), /XID/);
  await draws(it.page, 10);
  const shift = await it.page.evaluate(() => window.shift);
  assert.ok(shift < 0.005, `layout shift ${shift}`);
  await it.close();
});

// ---- odd and hostile input
test("names are text, however they look", async () => {
  const state = fleet({ gpus: 2, services: 2 }),
    evil = "<img src=x onerror=alert(1)>\u202e";
  state.services[0].name = state.assignment.segments[0].service = evil;
  state.doing = state.node = state.gpus[0].why = evil;
  state.gpus[0].out = true;
  state.notices = [evil, "x".repeat(5000)];
  const many = fleetOf({ nodes: 2, services: 2 });
  many.fleet = many.nodes[0].node = many.services[1].service = many.nodes[1].trouble = evil;
  many.proposed = [evil.repeat(100)];
  const it = await open({ state, fleet: many });
  assert.equal(await it.page.locator("img").count(), 0);
  assert.match(await words(it.page, "#doing"), /<img src=x/);
  assert.ok(
    await it.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
    "no page as wide as a name",
  );
  await it.page.keyboard.press("5");
  await until(it.page, '#view-fleet [aria-label="Nodes"] tbody', /<img src=x/);
  assert.equal(await it.page.locator("img").count(), 0);
  assert.ok(await it.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await it.close();
});

test("a state that lacks things is drawn as far as it goes", async () => {
  const it = await open();
  const whole = structuredClone(it.agent.state);
  whole.current = null;
  for (const view of ["now", "change", "batch", "history"]) {
    await it.page.goto(`${it.agent.url}#${view}`);
    await it.page.waitForSelector(`[data-view=${view}][aria-current=page]`);
    const show = async () => {
      const before = await drawn(it.page);
      it.agent.push();
      await draws(it.page, 1, before);
    };
    for (const key of Object.keys(whole)) {
      Object.assign(it.agent.state, structuredClone(whole));
      if (key !== "version") delete it.agent.state[key];
      await show();
    }
    for (const state of [
      { current: { number: 3, state: "applying" } },
      {
        state: { gpus: [{ index: 0, lost: true }] },
        gpus: [
          { index: 0, sample: null },
          { index: 5, out: true },
        ],
      },
      { services: [{ name: "bare" }] },
      { plan: null, last: null, batch: { tasks: [{ name: "t" }] } },
    ]) {
      Object.assign(it.agent.state, structuredClone(whole), state);
      await show();
    }
  }
  await it.close();
});

test("light and dark: as the system, or as chosen and remembered", async () => {
  const it = await open();
  const ground = () => it.page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const shaded = (shade) =>
    it.page.waitForFunction((one) => document.documentElement.dataset.shade === one, shade);
  await it.page.emulateMedia({ colorScheme: "light" });
  await shaded("light");
  const light = await ground();
  await it.page.emulateMedia({ colorScheme: "dark" });
  await shaded("dark");
  const dark = await ground();
  assert.notEqual(light, dark);
  await it.page.keyboard.press("t");
  await shaded("light");
  assert.equal(await ground(), light);
  await it.page.reload();
  await shaded("light");
  assert.equal(await ground(), light);
  await it.page.keyboard.press("t");
  await it.page.keyboard.press("t");
  await shaded("dark");
  assert.equal(await ground(), dark);
  await it.page.evaluate(() => localStorage.clear());
  await it.close();
});

let failed = 0;
const only = process.env.ONLY ? new RegExp(process.env.ONLY) : /./;
for (const { name, run } of tests.filter((one) => only.test(one.name))) {
  const begin = Date.now();
  try {
    await run();
    console.log(`ok   ${name} (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
  } catch (error) {
    ++failed;
    console.log(
      `FAIL ${name} (${((Date.now() - begin) / 1000).toFixed(1)} s)\n${String(
        error.message ?? error,
      )
        .split("\n")
        .slice(0, 40)
        .join("\n")}`,
    );
    for (const page of browser.context.pages()) await page.close();
  }
}
await browser.close();
process.exit(failed ? 1 : 0);
