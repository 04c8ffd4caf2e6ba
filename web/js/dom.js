// Elements that are made once and then changed only where a value differs from the last one.
const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set([
  "svg",
  "path",
  "line",
  "rect",
  "g",
  "text",
  "circle",
  "title",
  "polygon",
]);

// el("p", {class: "a", onclick: f}, "text", child): attributes; functions are listeners.
export function el(tag, given, ...children) {
  const drawn = SVG_TAGS.has(tag) && tag !== "title";
  const node = drawn ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(given ?? {})) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false)
      node.setAttribute(name, value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}

export const id = (name) => document.getElementById(name);

export function text(node, value) {
  if (node.saidText === value) return;
  node.saidText = value;
  const only = node.firstChild;
  if (only && only.nodeType === 3 && !only.nextSibling) only.data = value;
  else node.textContent = value;
}

export function attr(node, name, value) {
  const known = (node.saidAttributes ??= {});
  if (known[name] === value) return;
  known[name] = value;
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}

export function style(node, name, value) {
  const known = (node.saidStyle ??= {});
  if (known[name] === value) return;
  known[name] = value;
  node.style.setProperty(name, value);
}

export const show = (node, shown) => attr(node, "hidden", !shown);

// One child per item, in order; make(item) gives {node, update(item)}, kept as long as its key is.
export function keyed(parent, items, keyOf, make) {
  const before = parent.rowsByKey ?? new Map();
  const now = new Map();
  for (const item of items) {
    let key = keyOf(item);
    while (now.has(key)) key += "'";
    now.set(key, item);
  }
  for (const [key, row] of before) if (!now.has(key)) row.node.remove();
  const rows = new Map();
  let cursor = parent.firstChild;
  for (const [key, item] of now) {
    const row = before.get(key) ?? make(item);
    rows.set(key, row);
    if (row.node === cursor) cursor = cursor.nextSibling;
    else parent.insertBefore(row.node, cursor);
    row.update(item);
  }
  parent.rowsByKey = rows;
  return rows;
}

// ---- numbers and times for people
const formats = new Map();
const numbers = (digits) => {
  let format = formats.get(digits);
  if (!format) {
    format = new Intl.NumberFormat("en", {
      minimumFractionDigits: digits,
      maximumFractionDigits: digits,
    });
    formats.set(digits, format);
  }
  return format;
};
export const known = (value) => typeof value === "number" && Number.isFinite(value);
export function num(value, digits = null) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  return numbers(
    digits ?? (size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2),
  ).format(value);
}
export const percent = (share, digits = 0) =>
  known(share) ? `${num(share * 100, digits)} %` : "–";
// Never rounded up to 100 %.
export function attained(share) {
  if (!known(share)) return "–";
  return share >= 1 ? "100 %" : `${num(Math.floor(share * 10000) / 100, 2)} %`;
}
export const watts = (value) =>
  value >= 10000 ? `${num(value / 1000, 1)} kW` : `${num(value, 0)} W`;
export function joules(value) {
  return value >= 3.6e6
    ? `${num(value / 3.6e6, 2)} kWh`
    : value >= 3600
      ? `${num(value / 3600, 1)} Wh`
      : `${num(value, 0)} J`;
}
export function seconds(value) {
  if (!known(value)) return "–";
  if (value < 60) return `${num(value, value < 10 ? 1 : 0)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${num(Math.floor(value % 60), 0)} s`;
  return `${Math.floor(value / 3600)} h ${Math.floor((value % 3600) / 60)} min`;
}
export const plural = (count, one, many = `${one}s`) =>
  `${num(count, 0)} ${count === 1 ? one : many}`;
const two = (value) => String(value).padStart(2, "0");
export function clock(ms, withDay = false) {
  if (!ms) return "–";
  const at = new Date(ms);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return withDay
    ? `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`
    : time;
}
