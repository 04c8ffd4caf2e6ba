// Writes a model of random weights as a GGUF file: llama's architecture, a vocabulary in which common
// words are one token each and everything else is bytes. It says nothing of worth; it takes the time
// that such a model takes.
//
// usage: node make_model.mjs FILE [--layers 8] [--width 512] [--context 4096] [--seed 1]
import {closeSync, openSync, renameSync, writeSync} from "node:fs";
import {parseArgs} from "node:util";

const WORDS = ("the of and to in is you that it he was for on are as with his they at be this have " +
    "from or one had by word but not what all").split(" ");
const UINT32 = 4, INT32 = 5, FLOAT32 = 6, STRING = 8, ARRAY = 9;  // types of GGUF's values
const F32 = 0, ALIGNMENT = 32, SPACE = "\u2581";

// Pieces as SentencePiece merges them: a word grows from its left, so all its beginnings are pieces.
function vocabulary() {
  const pieces = [["<unk>", 2], ["<s>", 3], ["</s>", 3]];
  for (let byte = 0; byte < 256; byte++)
    pieces.push([`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`, 6]);
  const beginnings = new Set([SPACE]);
  for (const word of WORDS)
    for (let end = 1; end <= word.length; end++) beginnings.add(SPACE + word.slice(0, end));
  for (const letter of "abcdefghijklmnopqrstuvwxyz") beginnings.add(letter);
  for (const piece of beginnings) pieces.push([piece, 1]);
  return pieces;
}

// Chunks of bytes, little-endian.
class Bytes {
  parts = [];
  size = 0;
  push(buffer) { this.parts.push(buffer); this.size += buffer.length; }
  number(value, bytes, method) {
    const buffer = Buffer.alloc(bytes);
    buffer[method](value);
    this.push(buffer);
  }
  u32(value) { this.number(value, 4, "writeUInt32LE"); }
  u64(value) { this.number(BigInt(value), 8, "writeBigUInt64LE"); }
  text(value) {
    const bytes = Buffer.from(value, "utf8");
    this.u64(bytes.length);
    this.push(bytes);
  }
  plain(type, value) {
    if (type === STRING) this.text(value);
    else if (type === FLOAT32) this.number(value, 4, "writeFloatLE");
    else this.u32(value);
  }
  pair(key, type, value) {
    this.text(key);
    this.u32(Array.isArray(value) ? ARRAY : type);
    if (!Array.isArray(value)) return this.plain(type, value);
    this.u32(type);
    this.u64(value.length);
    for (const one of value) this.plain(type, one);
  }
}

function described(layers, width, context, pieces) {
  const heads = Math.max(2, width / 64);
  return [
    ["general.architecture", STRING, "llama"],
    ["general.name", STRING, `random ${layers}x${width}`],
    ["llama.context_length", UINT32, context],
    ["llama.embedding_length", UINT32, width],
    ["llama.block_count", UINT32, layers],
    ["llama.feed_forward_length", UINT32, width * 11 / 4],
    ["llama.attention.head_count", UINT32, heads],
    ["llama.attention.head_count_kv", UINT32, heads / 2],
    ["llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5],
    ["llama.rope.dimension_count", UINT32, width / heads],
    ["llama.vocab_size", UINT32, pieces.length],
    ["tokenizer.ggml.model", STRING, "llama"],
    ["tokenizer.ggml.tokens", STRING, pieces.map(([piece]) => piece)],
    ["tokenizer.ggml.scores", FLOAT32, pieces.map(([piece]) => piece.length)],
    ["tokenizer.ggml.token_type", INT32, pieces.map(([, type]) => type)],
    ["tokenizer.ggml.unknown_token_id", UINT32, 0],
    ["tokenizer.ggml.bos_token_id", UINT32, 1],
    ["tokenizer.ggml.eos_token_id", UINT32, 2],
  ];
}

function tensors(layers, width, words) {
  const inner = width * 11 / 4, list = [["token_embd", [width, words]], ["output", [width, words]],
                                        ["output_norm", [width]]];
  for (let i = 0; i < layers; i++) {
    for (const [name, shape] of [["attn_norm", [width]], ["ffn_norm", [width]],
                                 ["attn_q", [width, width]], ["attn_k", [width, width / 2]],
                                 ["attn_v", [width, width / 2]], ["attn_output", [width, width]],
                                 ["ffn_gate", [width, inner]], ["ffn_up", [width, inner]],
                                 ["ffn_down", [inner, width]]])
      list.push([`blk.${i}.${name}`, shape]);
  }
  return list.map(([name, shape]) => ({name: name + ".weight", shape,
                                       count: shape.reduce((a, b) => a * b)}));
}

// Uniform, of variance 1/inputs; norms are 1. xorshift32.
function weights({shape, count}, state) {
  const values = new Float32Array(count);
  if (shape.length === 1) return values.fill(1);
  const scale = Math.sqrt(3 / shape[0]) / 2 ** 31;
  let x = state.x;
  for (let i = 0; i < count; i++) {
    x ^= x << 13; x ^= x >>> 17; x ^= x << 5;
    values[i] = x * scale;
  }
  state.x = x;
  return values;
}

const {values, positionals: [file]} = parseArgs({allowPositionals: true, options: {
  layers: {type: "string", default: "8"}, width: {type: "string", default: "512"},
  context: {type: "string", default: "4096"}, seed: {type: "string", default: "1"}}});
const layers = Number(values.layers), width = Number(values.width), seed = Number(values.seed);
if (!file || !(layers >= 1) || width % 128 !== 0 || !(width > 0) || !(seed >= 1)) {
  console.error("usage: make_model.mjs FILE [--layers N] [--width a multiple of 128] [--seed N]");
  process.exit(2);
}
const pieces = vocabulary(), pairs = described(layers, width, Number(values.context), pieces);
const list = tensors(layers, width, pieces.length), head = new Bytes();
head.push(Buffer.from("GGUF"));
head.u32(3);
head.u64(list.length);
head.u64(pairs.length);
for (const pair of pairs) head.pair(...pair);
let offset = 0;
for (const {name, shape, count} of list) {
  head.text(name);
  head.u32(shape.length);
  for (const size of shape) head.u64(size);
  head.u32(F32);
  head.u64(offset);
  offset += Math.ceil(count * 4 / ALIGNMENT) * ALIGNMENT;
}
head.push(Buffer.alloc((ALIGNMENT - head.size % ALIGNMENT) % ALIGNMENT));
const out = openSync(file + ".part", "w"), state = {x: seed};
for (const part of head.parts) writeSync(out, part);
for (const tensor of list) {
  const bytes = Buffer.from(weights(tensor, state).buffer);
  writeSync(out, bytes);
  writeSync(out, Buffer.alloc((ALIGNMENT - bytes.length % ALIGNMENT) % ALIGNMENT));
}
closeSync(out);
renameSync(file + ".part", file);
