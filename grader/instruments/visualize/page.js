"use strict";
// Pictures of recorded accesses to memory. The data are a list of runs (page.py); an event is
// [kind, space, block, warp, line, bytes, requests, moved, part, offsets], as in
// grader/executors/trace.py. Everything that is shown of a submission is set as text.

const RUNS = JSON.parse(document.getElementById("data").textContent);
const LOAD = 0, STORE = 1, ATOMIC = 2, WARP_SYNC = 3, BARRIER = 4;
const GLOBAL = 1, SHARED = 2;
const SECTOR = 32, BANKS = 32, WARP = 32;
const CELLS = 64;  // of a map, along each side
const KINDS = ["load", "store", "atomic"];

const byId = (id) => document.getElementById(id);
const number = (value) => value.toLocaleString("en");
const percent = (part, whole) => (whole ? Math.round((1000 * part) / whole) / 10 : 0) + "%";
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

// ---- an event's lanes, sectors and banks ---------------------------------------------------------

const kindOf = (event) => event[0], spaceOf = (event) => event[1], blockOf = (event) => event[2];
const warpOf = (event) => event[3], lineOf = (event) => event[4], bytesOf = (event) => event[5];
const movedOf = (event) => event[7], partOf = (event) => event[8];

// The byte address of each lane; -1 for one that takes no part.
function lanesOf(event) {
  const lanes = [], offsets = event[9];
  for (let i = 0; i < offsets.length; i += 5) {
    const [first, count, step, times, stride] = offsets.slice(i, i + 5);
    for (let t = 0; t < times; t++)
      for (let n = 0; n < count; n++) lanes.push(first < 0 ? -1 : first + t * stride + n * step);
  }
  return lanes;
}

// The lanes of each request, 32 at a time; requests in which no lane takes part are left out.
function requestsOf(event) {
  const lanes = lanesOf(event), requests = [];
  for (let i = 0; i < lanes.length; i += WARP) {
    const each = lanes.slice(i, i + WARP);
    if (each.some((address) => address >= 0)) requests.push(each);
  }
  return requests;
}

// The sectors that a request touches, in order: {number, owner: the lane of each byte or -1}.
function sectorsOf(lanes, bytes) {
  const found = new Map();
  lanes.forEach((address, lane) => {
    for (let byte = address; address >= 0 && byte < address + bytes; byte++) {
      const sector = Math.floor(byte / SECTOR);
      if (!found.has(sector)) found.set(sector, new Array(SECTOR).fill(-1));
      const owner = found.get(sector);
      if (owner[byte % SECTOR] < 0) owner[byte % SECTOR] = lane;
    }
  });
  return [...found].sort((a, b) => a[0] - b[0]).map(([number, owner]) => ({ number, owner }));
}

// The groups of lanes that shared memory serves together; of each the words of every bank. As many
// wavefronts as the busiest bank has words.
function wavefrontsOf(lanes, bytes) {
  const together = bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8, groups = [];
  for (let from = 0; from < WARP; from += together) {
    const banks = Array.from({ length: BANKS }, () => new Map());
    let any = false;
    lanes.slice(from, from + together).forEach((address, place) => {
      if (address < 0) return;
      any = true;
      for (let word = address >> 2; word <= (address + bytes - 1) >> 2; word++) {
        const held = banks[word % BANKS];
        if (!held.has(word)) held.set(word, []);
        held.get(word).push(from + place);
      }
    });
    if (any) groups.push({ from, banks, busiest: Math.max(...banks.map((each) => each.size)) });
  }
  return groups;
}

// ---- memory with names ---------------------------------------------------------------------------

const size = (place) => place.shape.reduce((product, length) => product * length, 1);
const isOutput = (place) => Boolean(place && place.is_output);

function placeOf(run, space, address) {
  const name = space === SHARED ? "shared" : "global";
  return run.places.find(
    (each) => each.space === name && each.start <= address && address < each.start + each.bytes);
}

// The element at an address, by its place in row-major order; -1 between padded rows.
function elementAt(place, address) {
  let rest = Math.floor((address - place.start) / place.itemsize);
  const index = place.shape.map(() => 0);
  const axes = place.shape.map((_, axis) => axis).filter((axis) => place.shape[axis] > 1);
  axes.sort((a, b) => place.strides[b] - place.strides[a]);
  for (const axis of axes) {
    index[axis] = Math.floor(rest / place.strides[axis]);
    rest -= index[axis] * place.strides[axis];
    if (index[axis] >= place.shape[axis]) return -1;
  }
  return rest ? -1 : index.reduce((flat, at, axis) => flat * place.shape[axis] + at, 0);
}

function indexOf(place, flat) {
  const index = [];
  for (const length of [...place.shape].reverse()) {
    index.unshift(flat % length);
    flat = Math.floor(flat / length);
  }
  return index;
}

function addressOf(place, flat) {
  const index = indexOf(place, flat);
  return place.start + place.itemsize * index.reduce((sum, at, a) => sum + at * place.strides[a], 0);
}

const hex = (address) => "0x" + address.toString(16);

// "input[3, 5] at 0x2b5d..."; "byte 132 of tile".
function named(run, space, address) {
  const place = placeOf(run, space, address);
  if (!place) return `outside every tensor, at ${hex(address)}`;
  const flat = place.shape ? elementAt(place, address) : -1;
  if (flat >= 0) return `${place.name}[${indexOf(place, flat).join(", ")}] at ${hex(address)}`;
  return `byte ${number(address - place.start)} of ${place.name}` +
    (space === GLOBAL ? `, at ${hex(address)}` : "");
}

function coordinates(linear, extent) {
  const [x, y] = extent;
  return [linear % x, Math.floor(linear / x) % y, Math.floor(linear / x / y)];
}

const inTriton = () => run().language === "triton";
const blockWord = () => (inTriton() ? "program" : "block");
const blockName = (block) => `${blockWord()} (${coordinates(block, launch().grid).join(", ")})`;

function whoName(event, lane) {
  if (inTriton()) return blockName(blockOf(event));
  const thread = coordinates(warpOf(event) * WARP + lane, launch().block);
  return `thread (${thread.join(", ")}) of ${blockName(blockOf(event))}, warp ${warpOf(event)}`;
}

// ---- where we are --------------------------------------------------------------------------------

const VIEWS = {
  output: { title: "Who writes", steps: (e) => kindOf(e) === STORE || kindOf(e) === ATOMIC
    ? spaceOf(e) === GLOBAL : false, lacks: "stores nothing to global memory" },
  sectors: { title: "Sectors", steps: (e) => spaceOf(e) === GLOBAL,
    lacks: "has no access to global memory" },
  banks: { title: "Banks", steps: (e) => spaceOf(e) === SHARED,
    lacks: "has no access to shared memory" },
  l2: { title: "Order and L2", steps: (e) => spaceOf(e) === GLOBAL && kindOf(e) === LOAD,
    lacks: "loads nothing from global memory" },
  barriers: { title: "Barriers", steps: () => true, lacks: "does nothing that is recorded" },
};
const state = { run: 0, view: "output", launch: 0, block: 0, access: 0, request: 0,
  colour: "block", share: 2 };

const run = () => RUNS[state.run];
const launch = () => run().launches[state.launch];

// What is computed of a launch once: its blocks in order, and the events of each.
const kept = new Map();
function once(name, of, compute) {
  if (!kept.has(of)) kept.set(of, {});
  const values = kept.get(of);
  if (!(name in values)) values[name] = compute();
  return values[name];
}

function eventsByBlock() {
  return once("blocks", launch(), () => {
    const blocks = new Map();
    for (const event of launch().events) {
      if (!blocks.has(blockOf(event))) blocks.set(blockOf(event), []);
      blocks.get(blockOf(event)).push(event);
    }
    return [...blocks.values()];
  });
}

const eventsOfBlock = () => eventsByBlock()[state.block];
const stepsOfBlock = () => eventsOfBlock().filter(VIEWS[state.view].steps);
const current = () => stepsOfBlock()[state.access];
const clamp = (value, count) => Math.max(0, Math.min(value, count - 1));

function settle() {
  state.run = clamp(state.run, RUNS.length);
  if (!(state.view in VIEWS)) state.view = "output";
  state.launch = clamp(state.launch, run().launches.length);
  state.block = clamp(state.block, eventsByBlock().length);
  state.access = clamp(state.access, stepsOfBlock().length);
  const event = current();
  state.request = clamp(state.request, event ? requestsOf(event).length : 1);
}

function go(changes) {
  const before = current();
  if ("view" in changes) {
    // Stay at this access, or else at the first in the new picture.
    state.view = changes.view;
    state.access = Math.max(0, stepsOfBlock().indexOf(before));
    state.request = 0;
  } else {
    const order = ["run", "launch", "block", "access", "request"];
    const from = order.findIndex((name) => name in changes);
    for (const name of from < 0 ? [] : order.slice(from + 1)) state[name] = 0;
    Object.assign(state, changes);
  }
  show();
}

function goTo(event) {
  const place = eventsByBlock().findIndex((events) => blockOf(events[0]) === blockOf(event));
  state.block = place;
  const fits = VIEWS[state.view].steps(event);
  if (!fits) state.view = spaceOf(event) === SHARED ? "banks" : "sectors";
  state.access = Math.max(0, stepsOfBlock().indexOf(event));
  state.request = 0;
  show();
}

// An access beyond the block's last is the next block's first.
function stepAccess(by) {
  const last = stepsOfBlock().length - 1, next = state.access + by;
  if (next >= 0 && next <= last) return go({ access: next });
  const block = state.block + by;
  if (block < 0 || block >= eventsByBlock().length) return;
  go({ block });
  if (by < 0) go({ access: stepsOfBlock().length - 1 });
}

// ---- drawing -------------------------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";
let cells = [], cursor = -1, cursorMark = null;

function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

class Drawing {
  constructor() {
    this.width = Math.max(280, byId("picture").clientWidth);
    this.height = 0;
    this.parts = [];
    cells = [];
  }

  // A cell: where it is, its look, the text in it, what is said of it, and where a click goes.
  cell(x, y, w, h, look, tip, text, to) {
    const shape = element("rect", { x, y, width: w, height: h, rx: Math.min(2, w / 4),
      class: look.class, "data-cell": cells.length });
    if ("hue" in look) shape.style.setProperty("--h", look.hue);
    this.parts.push(shape);
    if (text !== undefined && text !== "") this.label(x + w / 2, y + h / 2, text, "in", Math.min(11, h * .62));
    cells.push({ x, y, w, h, tip, to });
    this.height = Math.max(this.height, y + h + 2);
  }

  label(x, y, text, look, size = 11) {
    const made = element("text", { x, y, class: look || "" }, text);
    made.style.fontSize = size + "px";
    this.parts.push(made);
    this.height = Math.max(this.height, y + 4);
  }

  box(x, y, w, h, look) {
    this.parts.push(element("rect", { x, y, width: w, height: h, class: look }));
    this.height = Math.max(this.height, y + h + 2);
  }

  done() {
    const { width, height } = this;
    const drawn = element("svg", { width, height, viewBox: `0 0 ${width} ${height}`,
      "aria-hidden": "true" });
    drawn.append(...this.parts);
    cursorMark = element("rect", { class: "cursor", width: 0, height: 0 });
    drawn.append(cursorMark);
    byId("picture").replaceChildren(drawn);
    cursor = -1;
  }
}

const hueOf = (n) => Math.round((n * 137.508 + 205) % 360);

function tell(place, isAt) {
  const cell = cells[place];
  cursor = isAt ? place : cursor;
  byId("told").textContent = cell ? cell.tip() : "";
  if (cell && cursorMark)
    for (const [key, value] of [["x", cell.x], ["y", cell.y], ["width", cell.w], ["height", cell.h]])
      cursorMark.setAttribute(key, value);
}

function say(text, ...more) {
  byId("caption").replaceChildren(text, ...more);
}

function strong(text, look) {
  const made = document.createElement("strong");
  made.className = look || "";
  made.textContent = text;
  return made;
}

function legend(...entries) {
  byId("legend").replaceChildren(...entries.map(([colour, text]) => {
    const item = document.createElement("li"), mark = document.createElement("i");
    mark.style.setProperty("--of", colour);
    item.append(mark, text);
    return item;
  }));
}

function choices(label, options, chosen, choose) {
  byId("choices").replaceChildren(label, ...options.map(([value, text]) => {
    const made = button(text, () => choose(value));
    made.setAttribute("aria-pressed", String(value === chosen));
    return made;
  }));
}

function button(text, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.addEventListener("click", act);
  return made;
}

// A tensor as a matrix of cells: each covers `high` rows and `wide` columns of elements.
function mapOf(place) {
  const count = size(place), flat = place.shape.length < 2 || count === place.shape.at(-1);
  const per = flat ? Math.max(1, Math.ceil(count / (CELLS * CELLS))) : 0;
  const cols = flat ? Math.min(count, CELLS * per) : place.shape.at(-1);
  const rows = Math.ceil(count / cols);
  const high = Math.ceil(rows / CELLS), wide = flat ? per : Math.ceil(cols / CELLS);
  return { place, count, cols, rows, high, wide, down: Math.ceil(rows / high),
    across: Math.ceil(cols / wide) };
}

// The elements of a cell, by row-major place.
function* elementsOf(map, row, col) {
  for (let r = row * map.high; r < Math.min((row + 1) * map.high, map.rows); r++)
    for (let c = col * map.wide; c < Math.min((col + 1) * map.wide, map.cols); c++)
      if (r * map.cols + c < map.count) yield r * map.cols + c;
}

function elementName(map, row, col) {
  const all = [...elementsOf(map, row, col)];
  const [first, last] = [all[0], all[all.length - 1]].map((flat) => indexOf(map.place, flat));
  const span = first.map((at, axis) => (at === last[axis] ? at : `${at}:${last[axis] + 1}`));
  return `${map.place.name}[${span.join(", ")}]`;
}

// The pixels of a map's cell that let it fit.
function unitOf(map, width, height) {
  return Math.max(3, Math.min(26, Math.floor(Math.min(width / map.across, height / map.down))));
}

// Draws a map with its title on top: look(row, col) of each cell. Where cells have a `group`, each
// group that is a rectangle gets its number; the group `around` gets a frame.
function drawMap(drawing, map, [left, upper], unit, look, tip, to, around) {
  const top = upper + 20, groups = new Map();
  const covers = map.high * map.wide;
  const per = covers > 1 ? `; a cell is ${map.high} x ${map.wide} elements` : "";
  drawing.label(left, top - 6, `${map.place.name}: ${map.place.shape.join(" x ")}${per}`, "soft", 12);
  const gap = unit > 6 ? 1 : unit > 4 ? .5 : 0;
  for (let row = 0; row < map.down; row++) {
    for (let col = 0; col < map.across; col++) {
      if (row * map.high * map.cols + col * map.wide >= map.count) continue;
      const seen = look(row, col);
      if ("group" in seen) {
        const group = groups.get(seen.group) || { low: [row, col], high: [row, col], count: 0 };
        group.low = [Math.min(group.low[0], row), Math.min(group.low[1], col)];
        group.high = [Math.max(group.high[0], row), Math.max(group.high[1], col)];
        group.count += 1;
        groups.set(seen.group, group);
      }
      drawing.cell(left + col * unit, top + row * unit, unit - gap, unit - gap, seen,
        () => tip(row, col), "", to && (() => to(row, col)));
    }
  }
  for (const [name, { low, high, count }] of groups) {
    const down = high[0] - low[0] + 1, across = high[1] - low[1] + 1;
    if (count !== down * across) continue;
    const x = left + low[1] * unit, y = top + low[0] * unit;
    if (name === around) drawing.box(x - 1, y - 1, across * unit + 1, down * unit + 1, "around");
    const digits = String(name).length, room = Math.min(down * unit, across * unit / Math.max(1, digits * .62));
    if (room >= 9) drawing.label(x + across * unit / 2, y + down * unit / 2, name, "number", Math.min(16, room * .8));
  }
}

// ---- 1: who writes -------------------------------------------------------------------------------

// Of each element of an output: the event that wrote it last, and its lane; and how many did.
function writersOf(place) {
  return once("writers " + place.name, launch(), () => {
    const count = size(place), event = new Int32Array(count).fill(-1);
    const lane = new Int32Array(count), times = new Uint8Array(count);
    launch().events.forEach((each, n) => {
      if (spaceOf(each) !== GLOBAL || kindOf(each) === LOAD) return;
      lanesOf(each).forEach((address, l) => {
        if (address < place.start || address >= place.start + place.bytes) return;
        for (let byte = 0; byte < bytesOf(each); byte += place.itemsize) {
          const flat = elementAt(place, address + byte);
          if (flat < 0) continue;
          event[flat] = n;
          lane[flat] = l;
          times[flat] = Math.min(times[flat] + 1, 255);
        }
      });
    });
    return { event, lane, times };
  });
}

function drawOutput() {
  const drawing = new Drawing(), by = inTriton() ? "block" : state.colour;
  const outputs = run().places.filter(isOutput);
  const events = launch().events, now = events.indexOf(current());
  for (const place of outputs) {
    const map = mapOf(place), wrote = writersOf(place);
    const first = (row, col) => {
      for (const flat of elementsOf(map, row, col)) if (wrote.event[flat] >= 0) return flat;
      return -1;
    };
    const look = (row, col) => {
      const flat = first(row, col);
      if (flat < 0) return { class: "empty" };
      const event = events[wrote.event[flat]], lane = wrote.lane[flat] % WARP;
      const shown = { block: blockOf(event), warp: warpOf(event), thread: lane }[by];
      const hue = by === "thread" ? Math.round(lane * 11.25) : hueOf(shown);
      return { class: "hue" + (wrote.event[flat] === now ? " now" : ""), hue,
        ...(by === "block" ? { group: shown } : {}) };
    };
    const tip = (row, col) => {
      const flat = first(row, col);
      const where = `${elementName(map, row, col)} at ${hex(addressOf(place, [...elementsOf(map, row, col)][0]))}`;
      if (flat < 0) return `${where}: nobody writes it`;
      const again = wrote.times[flat] > 1 ? `, ${wrote.times[flat]} times` : "";
      const event = events[wrote.event[flat]];
      return `${where}: ${whoName(event, wrote.lane[flat] % WARP)} writes it${again}, line ${lineOf(event)}`;
    };
    const to = (row, col) => {
      const flat = first(row, col);
      if (flat >= 0) goTo(events[wrote.event[flat]]);
    };
    const unit = unitOf(map, drawing.width, 560 / outputs.length);
    drawMap(drawing, map, [0, drawing.height], unit, look, tip, to, blockOf(eventsOfBlock()[0]));
  }
  if (!inTriton())
    choices("Colour by ", [["block", "block"], ["warp", "warp"], ["thread", "thread (lane)"]], by,
      (colour) => go({ colour }));
  const event = current();
  say(event ? `Each element has the colour of who writes it. Outlined: what ${inTriton()
    ? blockName(blockOf(event)) : `warp ${warpOf(event)} of ${blockName(blockOf(event))}`} stores in this access.`
    : `Each element has the colour of who writes it. ${capital(blockName(blockOf(eventsOfBlock()[0])))} stores nothing.`);
  const one = by === "block" ? blockOf(eventsOfBlock()[0]) : 0;
  const whose = { block: `${blockWord()} ${one}, and so on by number`, warp: "warp 0 of each block, and so on",
    thread: "lane 0 of each warp, and so on" }[by];
  legend([`hsl(${by === "thread" ? 0 : hueOf(one)} var(--s) var(--l))`, whose], ["var(--empty)", "nobody writes it"]);
  drawing.done();
}

// ---- 2: sectors ----------------------------------------------------------------------------------

function drawSectors() {
  const event = current(), requests = requestsOf(event), lanes = requests[state.request];
  const bytes = bytesOf(event), sectors = sectorsOf(lanes, bytes);
  const used = sectors.reduce((sum, each) => sum + each.owner.filter((lane) => lane >= 0).length, 0);
  const moved = sectors.length * SECTOR;
  const drawing = new Drawing();
  const unitBytes = Math.min(bytes, 4), units = SECTOR / unitBytes;
  const columns = Math.max(1, Math.min(sectors.length, 4, Math.floor(drawing.width / (unitBytes < 4 ? 270 : 165))));
  const width = Math.min(Math.floor((drawing.width - (columns - 1) * 14) / columns), 26 * units);
  const unit = width / units, height = Math.min(24, Math.max(14, unit));
  const down = Math.ceil(sectors.length / columns);
  sectors.forEach((sector, n) => {
    const x = Math.floor(n / down) * (width + 14), y = (n % down) * (height + 19) + 14;
    const first = sector.number * SECTOR;
    const place = placeOf(run(), GLOBAL, first) || placeOf(run(), GLOBAL, first + SECTOR - 1);
    const flat = place && place.shape ? elementAt(place, Math.max(first, place.start)) : -1;
    const title = flat >= 0 ? `${place.name}[${indexOf(place, flat).join(", ")}]` : hex(first);
    drawing.label(x, y - 3, title, "soft", 10.5);
    for (let k = 0; k < units; k++) {
      const address = first + k * unitBytes, lane = sector.owner[k * unitBytes];
      const tip = () => `${named(run(), GLOBAL, address)}: ` + (lane < 0
        ? "moved, and used by no lane" : `used by ${inTriton() ? `element ${lane} of the request` : `lane ${lane}, ${whoName(event, lane)}`}`);
      drawing.cell(x + k * unit, y, unit - 1, height,
        lane < 0 ? { class: "waste" } : { class: "hue", hue: hueOf(Math.floor(lane / 8) + 1) }, tip,
        lane < 0 || unit < 14 ? "" : lane);
    }
  });
  drawing.done();
  const picture = byId("picture");
  Object.assign(picture.dataset, { sectors: sectors.length, used, wasted: moved - used });
  const who = inTriton() ? `${plural(lanes.filter((a) => a >= 0).length, "element")} of ${blockName(blockOf(event))}`
    : `${plural(lanes.filter((a) => a >= 0).length, "lane")} of warp ${warpOf(event)}`;
  say(`${who} ${KINDS[kindOf(event)]} ${number(used)} bytes; ${plural(sectors.length, "sector")} of 32 bytes move ${number(moved)}: `,
    strong(`${percent(used, moved)} used`, used === moved ? "good" : "bad"),
    used === moved ? "." : `, ${number(moved - used)} bytes wasted.`);
  if (requests.length > 1) {
    const back = button("‹", () => go({ request: state.request - 1 }));
    const on = button("›", () => go({ request: state.request + 1 }));
    back.disabled = state.request === 0;
    on.disabled = state.request === requests.length - 1;
    back.setAttribute("aria-label", "previous request");
    on.setAttribute("aria-label", "next request");
    byId("choices").replaceChildren("Request of 32 elements ", back, `${number(state.request + 1)} of ${number(requests.length)}`, on);
  }
  legend([`hsl(${hueOf(1)} var(--s) var(--l))`, inTriton() ? "used, with the element's number in the request" : "used, with the lane that uses it"],
    ["var(--paper)", "dashed: moved for nothing"]);
}

// ---- 3: banks ------------------------------------------------------------------------------------

function drawBanks() {
  const event = current(), lanes = requestsOf(event)[0];
  const groups = wavefrontsOf(lanes, bytesOf(event));
  const wavefronts = groups.reduce((sum, each) => sum + each.busiest, 0);
  const conflicts = wavefronts - groups.length;
  const drawing = new Drawing(), left = drawing.width < 500 ? 18 : 30;
  const unit = Math.min(26, (drawing.width - left) / BANKS), height = Math.min(20, Math.max(11, unit));
  for (const group of groups) {
    const top = drawing.height + (groups.length > 1 ? 36 : 20);
    if (groups.length > 1) {
      const last = group.from + WARP / (bytesOf(event) > 8 ? 4 : 2) - 1;
      drawing.label(left, top - 20, `Lanes ${group.from} to ${last}`, "soft", 11);
    }
    for (const bank of [0, 8, 16, 24, 31]) drawing.label(left + bank * unit + unit * .2, top - 5, bank, "soft", Math.min(11, unit + 1));
    for (let row = 0; row < group.busiest; row++) {
      drawing.label(0, top + row * height + height * .75, row + 1, "soft", Math.min(11, height * .7));
      group.banks.forEach((held, bank) => {
        const [word, users] = [...held][row] || [];
        const tip = () => (word === undefined ? `Bank ${bank} is idle in wavefront ${row + 1}`
          : `Bank ${bank}, wavefront ${row + 1}: ${named(run(), SHARED, word * 4)}, for ${plural(users.length, "lane")}: ${users.join(", ")}`);
        drawing.cell(left + bank * unit, top + row * height, unit - 1, height - 1,
          word === undefined ? { class: "empty" } : { class: "hue", hue: hueOf(Math.floor(users[0] / 8) + 1) },
          tip, word === undefined || unit < 15 ? "" : users.length > 1 ? users[0] + "+" : users[0]);
      });
    }
  }
  drawing.done();
  Object.assign(byId("picture").dataset, { wavefronts, conflicts });
  const busiest = Math.max(...groups.map((each) => each.busiest));
  say(`Warp ${warpOf(event)} ${KINDS[kindOf(event)]}s ${bytesOf(event)} bytes for each of ${plural(lanes.filter((a) => a >= 0).length, "lane")}, in ${plural(wavefronts, "wavefront")}: `,
    strong(conflicts ? `${plural(conflicts, "bank conflict")}, ${busiest} words in one bank` : "no bank conflict",
      conflicts ? "bad" : "good"), ".");
  legend([`hsl(${hueOf(1)} var(--s) var(--l))`, "a word, with the lane that wants it (+: and others)"], ["var(--empty)", "the bank is idle"]);
}

// ---- 4: the order of blocks, and L2 --------------------------------------------------------------

// The sectors that an event loads.
function loadedBy(event) {
  return once("loads", event, () => {
    const found = new Set();
    for (const address of lanesOf(event))
      for (let s = Math.floor(address / SECTOR); address >= 0 && s <= Math.floor((address + bytesOf(event) - 1) / SECTOR); s++) found.add(s);
    return [...found];
  });
}

function loadsOf(events) {
  return events.filter(VIEWS.l2.steps);
}

// A least-recently-used cache of sectors, after all blocks before `until`; and what that one finds.
function cached(capacity, until) {
  const lru = new Map(), seen = new Map();
  let hits = 0, loads = 0, here = 0, hereHits = 0;
  const all = eventsByBlock();
  all.forEach((events, place) => {
    if (place > until) return;
    for (const event of loadsOf(events)) {
      for (const sector of loadedBy(event)) {
        const hit = lru.delete(sector);
        lru.set(sector, true);
        if (lru.size > capacity) lru.delete(lru.keys().next().value);
        loads += 1;
        hits += hit;
        if (place !== until) continue;
        here += 1;
        hereHits += hit;
        if (seen.get(sector) !== "miss") seen.set(sector, hit ? "hit" : "miss");
      }
    }
  });
  return { lru, seen, hits, loads, here, hereHits };
}

function drawL2() {
  const all = once("all loads", launch(), () => {
    const found = new Set();
    for (const events of eventsByBlock())
      for (const event of loadsOf(events)) for (const sector of loadedBy(event)) found.add(sector);
    return found;
  });
  const capacity = Math.max(1, Math.ceil(all.size / state.share));
  const now = cached(capacity, state.block);
  const whole = once("l2 " + capacity, launch(), () => cached(capacity, eventsByBlock().length - 1));
  const drawing = new Drawing(), events = launch().events, count = eventsByBlock().length;
  const order = once("order", launch(), () => new Map(eventsByBlock().map((each, n) => [blockOf(each[0]), n])));
  const inputs = run().places.filter((each) => each.shape && !each.is_output);
  // Maps stand side by side where they fit.
  let left = 0, top = 0;
  const add = (map, look, tip) => {
    const unit = unitOf(map, Math.min(drawing.width, 400), 330), width = unit * map.across;
    if (left && left + width > drawing.width) [left, top] = [0, drawing.height + 4];
    drawMap(drawing, map, [left, top], unit, look, tip, undefined, state.block);
    left += Math.max(width, 170) + 24;
  };
  for (const place of run().places.filter(isOutput).slice(0, 1)) {
    const map = mapOf(place), wrote = writersOf(place);
    const turn = (row, col) => {
      for (const flat of elementsOf(map, row, col))
        if (wrote.event[flat] >= 0) return order.get(blockOf(events[wrote.event[flat]]));
      return -1;
    };
    const look = (row, col) => {
      const at = turn(row, col);
      if (at < 0 || at > state.block) return { class: "empty" };
      return { class: "hue", hue: Math.round(220 - 190 * at / Math.max(1, count - 1)), group: at };
    };
    add(map, look, (row, col) => `${elementName(map, row, col)}: `
      + (turn(row, col) < 0 ? "nobody writes it" : `written by number ${turn(row, col) + 1} of ${count} in the order`));
  }
  for (const place of inputs) {
    const map = mapOf(place), step = Math.max(1, Math.floor(SECTOR / place.itemsize));
    const sectorsIn = (row, col) => {
      const found = new Set();
      let n = 0;
      for (const flat of elementsOf(map, row, col)) if (n++ % (map.wide > step ? step : 1) === 0) found.add(Math.floor(addressOf(place, flat) / SECTOR));
      return [...found];
    };
    const held = (row, col) => {
      const found = sectorsIn(row, col), seen = found.map((sector) => now.seen.get(sector));
      if (seen.includes("miss")) return "miss";
      if (seen.includes("hit")) return "hit";
      return found.some((sector) => now.lru.has(sector)) ? "resident" : "empty";
    };
    const words = { miss: "loaded now from memory", hit: "loaded now, and found in L2", resident: "in L2 from before", empty: "not in L2" };
    add(map, (row, col) => ({ class: held(row, col) }),
      (row, col) => `${elementName(map, row, col)} at ${hex(addressOf(place, [...elementsOf(map, row, col)][0]))}: ${words[held(row, col)]}`);
  }
  drawing.done();
  Object.assign(byId("picture").dataset, { loads: now.here, hits: now.hereHits });
  const kib = capacity * SECTOR / 1024;
  say(`${capital(blockName(blockOf(eventsOfBlock()[0])))} is number ${state.block + 1} of ${count}: it finds `,
    strong(percent(now.hereHits, now.here)), ` of ${plural(now.here, "sector")} in L2; all together find `,
    strong(percent(whole.hits, whole.loads)), ` of ${number(whole.loads)}.`);
  choices("L2 holds of all that is loaded ", [[8, "1/8"], [4, "1/4"], [2, "1/2"], [1, "all"]], state.share, (share) => go({ share }));
  byId("choices").append(` (${number(Math.round(kib * 10) / 10)} KiB)`);
  legend(["hsl(220 var(--s) var(--l))", "first"], ["hsl(30 var(--s) var(--l))", `last ${blockWord()} in the order`],
    ["var(--bad)", "loaded from memory"], ["var(--good)", "found in L2"], ["var(--resident)", "in L2"],
    ["transparent", `a model: one ${blockWord()} after another, and what was used longest ago goes first; stores don't count`]);
}

// ---- 5: barriers ---------------------------------------------------------------------------------

function lookOf(event) {
  if (kindOf(event) === BARRIER) return "barrier";
  if (kindOf(event) === WARP_SYNC) return "sync";
  return (spaceOf(event) === SHARED ? "shared-" : "") + (kindOf(event) === LOAD ? "load" : "store");
}

function eventWords(event) {
  const line = `line ${lineOf(event)}`;
  if (kindOf(event) === BARRIER) return `Warp ${warpOf(event)} waits at the barrier of ${line}`;
  if (kindOf(event) === WARP_SYNC) return `Warp ${warpOf(event)}: its lanes wait for each other, ${line}`;
  const what = spaceOf(event) === SHARED ? `${plural(movedOf(event), "wavefront")}, ${plural(partOf(event), "conflict")}`
    : `${plural(movedOf(event), "sector")}, ${percent(partOf(event), movedOf(event) * SECTOR)} used`;
  const who = inTriton() ? blockName(blockOf(event)) : `Warp ${warpOf(event)}`;
  return `${who} ${KINDS[kindOf(event)]}s ${spaceOf(event) === SHARED ? "shared" : "global"} memory, ${line}: ${what}`;
}

// The events of each warp, cut at its barriers; the barrier is a piece's last.
function phasesByWarp() {
  const warps = new Map();
  for (const event of eventsOfBlock()) {
    if (!warps.has(warpOf(event))) warps.set(warpOf(event), [[]]);
    const phases = warps.get(warpOf(event));
    phases.at(-1).push(event);
    if (kindOf(event) === BARRIER) phases.push([]);
  }
  return new Map([...warps].sort((a, b) => a[0] - b[0]));
}

function drawBarriers() {
  const warps = phasesByWarp(), drawing = new Drawing(), left = inTriton() ? 0 : 56;
  const most = Math.max(...[...warps.values()].map((phases) => phases.length));
  const lengths = Array.from({ length: most }, (_, n) => Math.max(...[...warps.values()].map((phases) =>
    (phases[n] || []).filter((event) => kindOf(event) !== BARRIER).length)));
  const total = lengths.reduce((sum, each) => sum + each, 0);
  const room = drawing.width - left - most * 9;
  const unit = Math.max(.5, Math.min(26, room / Math.max(total, 1))), height = warps.size > 16 ? 15 : 22;
  let row = 0;
  const top = 18, now = current();
  for (const [warp, phases] of warps) {
    const y = top + row++ * height;
    if (!inTriton()) drawing.label(0, y + height * .65, `warp ${warp}`, "soft", 11);
    let x = left;
    lengths.forEach((length, n) => {
      const events = phases[n] || [];
      events.forEach((event, k) => {
        const isBarrier = kindOf(event) === BARRIER;
        const at = isBarrier ? x + length * unit + 2 : x + k * unit;
        const wide = isBarrier ? 4 : Math.max(.5, unit > 4 ? unit - 1 : unit);
        drawing.cell(at, y, wide, height - (isBarrier ? 0 : 4), { class: lookOf(event) + (event === now ? " now" : "") },
          () => eventWords(event), "", () => goTo(event));
      });
      x += length * unit + 9;
    });
  }
  let x = left;
  lengths.forEach((length, n) => {
    x += length * unit + 9;
    const barrier = [...warps.values()].map((phases) => (phases[n] || []).at(-1)).find((event) => event && kindOf(event) === BARRIER);
    if (barrier) drawing.label(Math.min(x - 5, drawing.width - 34), 11, `:${lineOf(barrier)}`, "soft", 11);
  });
  drawing.done();
  const barriers = eventsOfBlock().filter((event) => kindOf(event) === BARRIER);
  Object.assign(byId("picture").dataset, { barriers: barriers.length, warps: warps.size });
  const sync = eventsOfBlock().filter((event) => kindOf(event) === WARP_SYNC).length;
  say(inTriton() ? "What the program does, in order. Triton's compiler puts barriers in where programs' threads exchange values: the source has none."
    : `Each row is a warp, from its start to its end: what lies between two barriers may happen in any order among warps. `
      + `The block has ${plural(Math.round(barriers.length / warps.size), "barrier")}` + (sync ? ` and ${plural(sync, "operation")} of single warps.` : "."));
  legend(["var(--load)", "load"], ["var(--store)", "store or atomic"],
    ...(inTriton() ? [] : [["var(--shared)", "load from shared memory"], ["var(--shared-store)", "store to it"],
      ["var(--sync)", "warp's own (shuffle, __syncwarp)"], ["var(--ink)", "barrier, with its line above"]]));
}

// ---- around the picture --------------------------------------------------------------------------

const DRAW = { output: drawOutput, sectors: drawSectors, banks: drawBanks, l2: drawL2, barriers: drawBarriers };

function describeAccess() {
  const event = current(), box = byId("access"), list = document.createElement("dl");
  const heading = document.createElement("h2");
  heading.textContent = "This access";
  box.replaceChildren();
  if (!event) return;
  const add = (name, text) => {
    const term = document.createElement("dt"), said = document.createElement("dd");
    term.textContent = name;
    said.textContent = text;
    list.append(term, said);
  };
  add("who", inTriton() ? blockName(blockOf(event)) : `warp ${warpOf(event)} of ${blockName(blockOf(event))}`);
  const taking = lanesOf(event).filter((address) => address >= 0);
  if (spaceOf(event)) {
    add("what", `${KINDS[kindOf(event)]} ${bytesOf(event)} bytes for ${plural(taking.length, inTriton() ? "element" : "lane")}`);
    add("first", named(run(), spaceOf(event), taking[0]));
    if (taking.length > 1) add("last", named(run(), spaceOf(event), taking[taking.length - 1]));
    if (spaceOf(event) === GLOBAL) add("counted", `${plural(movedOf(event), "sector")}, ${percent(partOf(event), SECTOR * movedOf(event))} used`);
    else add("counted", `${plural(movedOf(event), "wavefront")}, ${plural(partOf(event), "conflict")}`);
  } else {
    add("what", kindOf(event) === BARRIER ? "a barrier of the block" : "an operation of the warp");
  }
  box.append(heading, list);
  const code = run().code[lineOf(event)];
  if (code) {
    const shown = document.createElement("pre");
    shown.textContent = `${run().at[lineOf(event)]}\n${code}`;
    box.append(shown);
  }
}

// [line, kind, space, requests, moved, part, first event] of each line, as the counters have them.
function sumsOf(events) {
  const sums = new Map();
  for (const event of events.filter(spaceOf)) {
    const key = [lineOf(event), kindOf(event), spaceOf(event)].join();
    if (!sums.has(key)) sums.set(key, [lineOf(event), kindOf(event), spaceOf(event), 0, 0, 0, event]);
    const row = sums.get(key);
    for (let n = 0; n < 3; n++) row[3 + n] += event[6 + n];
  }
  return [...sums.values()].sort((a, b) => a[0] - b[0] || a[2] - b[2] || a[1] - b[1]);
}

function describeSums() {
  const table = byId("sums"), head = document.createElement("thead"), body = document.createElement("tbody");
  const row = (names, cell) => {
    const made = document.createElement("tr");
    made.append(...names.map((each) => {
      const one = document.createElement(cell);
      one.append(each);
      return one;
    }));
    return made;
  };
  head.append(row(["line", "requests", "moved", "of it"], "th"));
  const event = current();
  for (const [line, kind, space, requests, moved, part, first] of sumsOf(launch().events)) {
    const name = button(`${line}: ${KINDS[kind]}${space === SHARED ? " shared" : ""}`, () => goTo(first));
    const said = document.createElement("span");
    const isGood = space === SHARED ? part === 0 : part === moved * SECTOR;
    said.className = isGood ? "good" : space === SHARED || part < moved * SECTOR * .6 ? "bad" : "";
    said.textContent = space === SHARED ? plural(part, "conflict") : `${percent(part, moved * SECTOR)} used`;
    const made = row([name, number(requests), plural(moved, space === SHARED ? "wavefront" : "sector"), said], "td");
    Object.assign(made.dataset, { line, kind: KINDS[kind], space: space === SHARED ? "shared" : "global", requests, moved, part });
    if (event && lineOf(event) === line && kindOf(event) === kind && spaceOf(event) === space) made.className = "now";
    body.append(made);
  }
  table.replaceChildren(head, body);
}

function stepper(name, place, count, text, step) {
  const made = document.createElement("div"), said = document.createElement("span");
  made.className = "step";
  const back = button("‹", () => step(-1)), on = button("›", () => step(1));
  back.setAttribute("aria-label", `previous ${name}`);
  on.setAttribute("aria-label", `next ${name}`);
  back.disabled = place <= 0 && name !== "access";
  on.disabled = place >= count - 1 && name !== "access";
  said.textContent = text;
  made.append(back, said, on);
  return made;
}

const stepLaunch = (by) => go({ launch: clamp(state.launch + by, run().launches.length) });
const stepBlock = (by) => go({ block: clamp(state.block + by, eventsByBlock().length) });

function describeSteps() {
  const launches = run().launches.length, blocks = eventsByBlock().length, accesses = stepsOfBlock().length;
  const word = blockWord(), steps = [];
  if (launches > 1) steps.push(stepper("launch", state.launch, launches, `launch ${state.launch + 1} of ${launches}`, stepLaunch));
  steps.push(stepper(word, state.block, blocks, `${word} ${number(state.block + 1)} of ${number(blocks)}`, stepBlock));
  if (state.view !== "l2")
    steps.push(stepper("access", state.access, accesses, accesses ? `access ${number(state.access + 1)} of ${number(accesses)}` : "no access", stepAccess));
  // Keep the focus where it was: the buttons are made anew.
  const focused = document.activeElement && document.activeElement.getAttribute("aria-label");
  byId("steps").replaceChildren(...steps);
  if (focused) [...document.querySelectorAll("#steps button, #choices button")].find((each) => each.getAttribute("aria-label") === focused)?.focus();
}

function show() {
  settle();
  const one = launch();
  byId("kernel").textContent = one.kernel;
  const extent = (index) => index.join(" x ").replace(/( x 1)+$/, "");
  byId("case").textContent = `${run().task} for ${run().case}; ` + (inTriton() ? `${extent(one.grid)} programs`
    : `${extent(one.grid)} blocks of ${extent(one.block)} threads`);
  byId("wrong").textContent = run().wrong;
  byId("wrong").hidden = !run().wrong;
  byId("run").value = String(state.run);
  [...byId("views").children].forEach((each, n) =>
    each.setAttribute("aria-pressed", String(Object.keys(VIEWS)[n] === state.view)));
  byId("choices").replaceChildren();
  byId("legend").replaceChildren();
  byId("told").textContent = "";
  byId("picture").removeAttribute("data-sectors");
  for (const name of Object.keys(byId("picture").dataset)) delete byId("picture").dataset[name];
  if (stepsOfBlock().length || state.view === "output") {
    DRAW[state.view]();
  } else {
    new Drawing().done();
    say(`${capital(blockName(blockOf(eventsOfBlock()[0])))} ${VIEWS[state.view].lacks}.`);
  }
  describeSteps();
  describeAccess();
  describeSums();
  const { view, launch: l, block, access } = state;
  history.replaceState(null, "", `#run=${run().task}&view=${view}&launch=${l}&block=${block}&access=${access}`);
}

function readHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  const named = RUNS.findIndex((each) => each.task === given.get("run"));
  if (named >= 0) state.run = named;
  if (given.has("view")) state.view = given.get("view");
  for (const name of ["launch", "block", "access"]) state[name] = Number.parseInt(given.get(name) || "0", 10) || 0;
  state.request = 0;
}

// The next cell from the cursor: along the list, or the nearest one above or below.
function moved(key) {
  if (key === "ArrowLeft" || key === "ArrowRight") return clamp(cursor + (key === "ArrowRight" ? 1 : -1), cells.length);
  const from = cells[Math.max(cursor, 0)], down = key === "ArrowDown" ? 1 : -1;
  let best = Math.max(cursor, 0), least = Infinity;
  cells.forEach((each, n) => {
    const below = (each.y - from.y) * down;
    if (below <= 0) return;
    const distance = below * 1000 + Math.abs(each.x - from.x);
    if (distance < least) [best, least] = [n, distance];
  });
  return best;
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
  const { key } = event;
  if (event.target === byId("picture") && cells.length) {
    if (key.startsWith("Arrow")) tell(moved(key), true);
    else if (key === "Enter" && cells[cursor] && cells[cursor].to) cells[cursor].to();
    else if (key === "Escape") byId("picture").blur();
    else return;
    return event.preventDefault();
  }
  const views = Object.keys(VIEWS);
  if (key === "ArrowRight") stepAccess(1);
  else if (key === "ArrowLeft") stepAccess(-1);
  else if (key === "ArrowDown") stepBlock(1);
  else if (key === "ArrowUp") stepBlock(-1);
  else if (key === "]") stepLaunch(1);
  else if (key === "[") stepLaunch(-1);
  else if (views[Number(key) - 1]) go({ view: views[Number(key) - 1] });
  else return;
  event.preventDefault();
}

function start() {
  byId("run").replaceChildren(...RUNS.map((each, n) => new Option(each.task, n)));
  byId("run").parentElement.hidden = RUNS.length === 1;
  byId("run").addEventListener("change", (event) => go({ run: Number(event.target.value) }));
  byId("views").replaceChildren(...Object.entries(VIEWS).map(([view, { title }], n) => button(`${n + 1} ${title}`, () => go({ view }))));
  const picture = byId("picture"), cellOf = (event) => {
    const shape = event.target.closest("[data-cell]");
    return shape ? Number(shape.dataset.cell) : -1;
  };
  picture.addEventListener("pointermove", (event) => tell(cellOf(event)));
  picture.addEventListener("click", (event) => {
    const cell = cells[cellOf(event)];
    if (cell && cell.to && event.pointerType !== "touch") cell.to();
    else tell(cellOf(event), true);
  });
  picture.addEventListener("focus", () => picture.matches(":focus-visible") && tell(Math.max(cursor, 0), true));
  document.addEventListener("keydown", onKey);
  addEventListener("hashchange", () => { readHash(); show(); });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) show();
    width = innerWidth;
  });
  readHash();
  show();
}

start();
