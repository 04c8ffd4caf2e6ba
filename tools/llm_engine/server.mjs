// A small server of OpenAI's API for one model on CPUs: llama.cpp as the npm package node-llama-cpp
// carries it (tools/get_llm_engine fetches it), batching continuously as vLLM does. A step gives every
// sequence that decodes one token and fills what is left of --step-tokens with prompts, in order of
// arrival, while there are --sequences. No preemption: a request is refused that cannot fit --context.
//
// usage: node server.mjs --model FILE.gguf --port N [--sequences 16] [--units 2u@0] [--name NAME] ...
//   --units: a number of cores and the first one, as {profile}@{start} of `partita workers`; its threads
//   run there. Where there are fewer, they are counted round.
import {execFileSync} from "node:child_process";
import {createServer} from "node:http";
import {createRequire} from "node:module";
import {basename, dirname, join} from "node:path";
import {fileURLToPath} from "node:url";
import {parseArgs} from "node:util";

const HERE = dirname(fileURLToPath(import.meta.url)), BODY_LIMIT = 8 << 20, SLOW_BYTES = 1 << 20;
const BLOCK = 16;  // tokens of a prompt that are worth finding again
const {values: flags} = parseArgs({options: {
  model: {type: "string"}, port: {type: "string", default: "0"}, name: {type: "string"},
  host: {type: "string", default: "127.0.0.1"}, units: {type: "string"},
  sequences: {type: "string", default: "16"}, context: {type: "string", default: "2048"},
  "step-tokens": {type: "string", default: "256"},
  addon: {type: "string", default: join(HERE, "../../build/llm_engine")}}});
const number = (name) => {
  const value = Number(flags[name]);
  if (!Number.isInteger(value) || value < 0) throw new Error(`--${name} must be a whole number`);
  return value;
};
const SEQUENCES = number("sequences"), CONTEXT = number("context");
const BUDGET = Math.max(number("step-tokens"), SEQUENCES);
const NAME = flags.name ?? basename(flags.model ?? "", ".gguf");

// The cores of --units; null: all, and no thread is moved.
function cores() {
  const found = /^(\d+)[a-z]*@(\d+)$/.exec(flags.units ?? "");
  if (!found) return null;
  const text = execFileSync("taskset", ["-cp", String(process.pid)], {encoding: "utf8"});
  const usable = text.trim().split(": ").pop().split(",").flatMap((range) => {
    const [first, last = first] = range.split("-").map(Number);
    return Array.from({length: last - first + 1}, (_, i) => first + i);
  });
  return Array.from({length: Math.min(Number(found[1]), usable.length)},
                    (_, i) => usable[(Number(found[2]) + i) % usable.length]);
}

async function loaded(threads) {
  const llama = createRequire(import.meta.url)(join(flags.addon, "llama-addon.node"));
  llama.markLoaded();
  llama.setLogger((level, text) => process.stderr.write(text));
  llama.setLoggerLogLevel(2);
  llama.loadBackends(flags.addon);
  await llama.init();
  const model = new llama.AddonModel(flags.model, {addonExports: llama, gpuLayers: 0, useMmap: true});
  if (!await model.init()) throw new Error(`${flags.model} is no model`);
  const context = new llama.AddonContext(model, {
    contextSize: CONTEXT * SEQUENCES, batchSize: BUDGET, sequences: SEQUENCES, threads,
    flashAttention: false});
  if (!await context.init()) throw new Error("no room for the cache");
  const sampler = new llama.AddonSampler(model);
  sampler.applyConfig({temperature: 1, seed: 1});
  return {llama, model, context, sampler};
}

// ---- batching

const waiting = [], running = [];
const slots = Array.from({length: SEQUENCES}, (_, id) => ({id, held: []}));  // of cached tokens
let stepping = false;

const shared = (a, b) => {
  let n = 0;
  while (n < a.length && n < b.length && a[n] === b[n]) n++;
  return n;
};

// Gives the first that waits the free slot that holds most blocks of its prompt's beginning, the
// first of those: llama.cpp computes sequences together whose numbers follow one on the other, and
// others one by one.
function admit() {
  const request = waiting.shift();
  const blocks = (slot) => Math.floor(shared(slot.held, request.prompt) / BLOCK);
  let best = 0;
  slots.forEach((slot, i) => { if (blocks(slot) > blocks(slots[best])) best = i; });
  request.slot = slots.splice(best, 1)[0];
  const most = shared(request.slot.held, request.prompt);
  request.cached = request.done = Math.min(most, request.prompt.length - 1);
  if (request.slot.held.length > request.done)
    engine.context.removeTokenCellsFromSequence(request.slot.id, request.done, -1);
  request.slot.held.length = request.done;
  running.push(request);
}

function leave(request) {
  running.splice(running.indexOf(request), 1);
  slots.push(request.slot);
  slots.sort((a, b) => a.id - b.id);
}

// Who computes what: [request, tokens], by the slots' numbers.
function chosen() {
  const work = running.filter((r) => r.fresh !== null).map((r) => [r, [r.fresh]]);
  let left = BUDGET - work.length;
  for (const r of running)
    if (r.fresh === null && left > 0) left -= take(r, left, work);
  while (left > 0 && waiting.length > 0 && slots.length > 0) {
    admit();
    left -= take(running.at(-1), left, work);
  }
  return work.sort(([a], [b]) => a.slot.id - b.slot.id);
}
function take(request, left, work) {
  const tokens = request.prompt.slice(request.done, request.done + left);
  work.push([request, tokens]);
  return tokens.length;
}

async function step() {
  const work = chosen();
  engine.context.initBatch(work.reduce((sum, [, tokens]) => sum + tokens.length, 0));
  const ends = [];
  for (const [request, tokens] of work) {
    const slot = request.slot, last = request.fresh !== null ||
        request.done + tokens.length === request.prompt.length;
    const index = engine.context.addToBatch(slot.id, slot.held.length, Uint32Array.from(tokens),
        Uint32Array.from(last ? [tokens.length - 1] : []));
    slot.held.push(...tokens);
    if (request.fresh === null) request.done += tokens.length;
    if (last) ends.push([request, index[0]]);
  }
  await engine.context.decodeBatch();
  for (const [request, index] of ends)
    request.fresh = await engine.context.sampleToken(index, engine.sampler);
  for (const [request] of ends) told(request);
}

// A token is there: said, and perhaps the last one.
function told(request) {
  request.made++;
  const stop = !request.ignoreEos && engine.model.isEogToken(request.fresh);
  if (!stop) request.say(engine.model.detokenize(Uint32Array.of(request.fresh), false));
  if (!stop && request.made < request.most) return;
  leave(request);
  request.end(stop ? "stop" : "length");
}

async function steps() {
  if (stepping) return;
  stepping = true;
  while (running.length + waiting.length > 0) {
    for (const gone of [...running].filter((r) => r.gone)) leave(gone);
    for (let i = waiting.length - 1; i >= 0; i--) if (waiting[i].gone) waiting.splice(i, 1);
    if (running.length + waiting.length === 0) break;
    await step();
  }
  stepping = false;
}

// ---- HTTP

const answer = (response, status, body) => {
  response.writeHead(status, {"Content-Type": "application/json"});
  response.end(JSON.stringify(body));
};
const refuse = (response, status, message) =>
  answer(response, status, {error: {message, type: "invalid_request_error", param: null, code: null}});

const prompt_of = (ask, chat) => {
  if (!chat) return typeof ask.prompt === "string" ? ask.prompt : null;
  if (!Array.isArray(ask.messages)) return null;
  const part = (c) => typeof c === "string" ? c : (c ?? []).map((p) => p.text ?? "").join(" ");
  return ask.messages.map((m) => part(m.content)).join("\n");
};

function begin(ask, chat, response) {
  const text = prompt_of(ask, chat), most = ask.max_completion_tokens ?? ask.max_tokens ?? 64;
  if (text === null || !Number.isInteger(most) || most < 1)
    return refuse(response, 400, "a prompt or messages, and max_tokens of at least 1");
  const prompt = [engine.model.tokenBos(), ...engine.model.tokenize(text, false)];
  if (prompt.length + most > CONTEXT)
    return refuse(response, 400, `${prompt.length} tokens and ${most} more; the limit is ${CONTEXT}`);
  const request = {prompt, most, done: 0, made: 0, cached: 0, fresh: null, gone: false,
                   ignoreEos: ask.ignore_eos === true};
  const talk = ask.stream ? stream(request, ask, chat, response) : whole(request, chat, response);
  Object.assign(request, talk);
  response.on("close", () => { request.gone = true; });
  waiting.push(request);
  steps().catch((error) => { console.error(error); process.exit(1); });
}

let count = 0;
const named = (chat, streamed) => ({
  id: `${chat ? "chatcmpl" : "cmpl"}-${++count}`, created: Math.floor(Date.now() / 1000), model: NAME,
  object: chat ? (streamed ? "chat.completion.chunk" : "chat.completion") : "text_completion"});
const usage_of = (r) => ({
  prompt_tokens: r.prompt.length, completion_tokens: r.made, total_tokens: r.prompt.length + r.made,
  prompt_tokens_details: {cached_tokens: r.cached}});

function stream(request, ask, chat, response) {
  const head = named(chat, true);
  const send = (text, finish_reason) => {
    const choice = chat ? {index: 0, delta: text === null ? {} : {content: text}, finish_reason}
                        : {index: 0, text: text ?? "", finish_reason};
    response.write(`data: ${JSON.stringify({...head, choices: [choice]})}\n\n`);
    if (response.writableLength > SLOW_BYTES) response.destroy();  // whoever reads nothing
  };
  return {
    say: (text) => {
      if (!response.headersSent) response.writeHead(200, {"Content-Type": "text/event-stream"});
      send(text, null);
    },
    end: (reason) => {
      send(null, reason);
      if (ask.stream_options?.include_usage)
        response.write(`data: ${JSON.stringify({...head, choices: [], usage: usage_of(request)})}\n\n`);
      response.end("data: [DONE]\n\n");
    }};
}

function whole(request, chat, response) {
  const texts = [];
  return {
    say: (text) => texts.push(text),
    end: (finish_reason) => {
      const text = texts.join(""), choice = chat
        ? {index: 0, message: {role: "assistant", content: text}, finish_reason}
        : {index: 0, text, finish_reason};
      answer(response, 200, {...named(chat, false), choices: [choice], usage: usage_of(request)});
    }};
}

function take_body(request, response, chat) {
  const parts = [];
  let size = 0;
  request.on("data", (part) => {
    size += part.length;
    if (size <= BODY_LIMIT) parts.push(part);
  });
  request.on("end", () => {
    if (size > BODY_LIMIT) return refuse(response, 413, "too long");
    let ask;
    try { ask = JSON.parse(Buffer.concat(parts).toString("utf8")); } catch { ask = null; }
    if (ask === null || typeof ask !== "object") return refuse(response, 400, "no JSON object");
    begin(ask, chat, response);
  });
}

const metrics = () =>
  `vllm:num_requests_running{model_name="${NAME}"} ${running.length}\n` +
  `vllm:num_requests_waiting{model_name="${NAME}"} ${waiting.length}\n`;

function route(request, response) {
  if (request.url === "/health") return response.end();
  if (request.url === "/metrics") return response.end(metrics());
  if (request.url === "/v1/models")
    return answer(response, 200, {object: "list", data: [{id: NAME, object: "model", owned_by: "random"}]});
  const chat = request.url === "/v1/chat/completions";
  if (request.method !== "POST" || !(chat || request.url === "/v1/completions"))
    return refuse(response, 404, "not here");
  take_body(request, response, chat);
}

const own = cores();
if (own) execFileSync("taskset", ["-acp", own.join(","), String(process.pid)], {stdio: "ignore"});
const engine = await loaded(own ? own.length : 1);
const server = createServer(route).listen(number("port"), flags.host, () =>
  console.log(`listening at http://${flags.host}:${server.address().port}`));
process.on("SIGTERM", () => process.exit(0));
