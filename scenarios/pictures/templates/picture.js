(() => {
  "use strict";
  const one = (selector) => document.querySelector(selector);
  const root = document.documentElement;
  const data = JSON.parse(one("#data").textContent);
  // The indexes of the fields of an event.
  const [SEQ, TIME, LANE, FROM, KIND, GROUP, SIGN, MATTERS, WORDS, ACTOR, DETAILS, STRONG, COUNT] =
    Array.from({ length: 13 }, (_, place) => place);
  const ROW = 24;
  const MARGIN = 3;
  const MOST_ARROWS = 8;
  const MOST_TIES = 6;
  const MOST_PRINTED = 400;
  const SHORT = { world: "outside", log: "logs", groups: "group coord.", transactions: "transaction coord.", disk: "disk" };
  const FIXED = ["world", "log", "groups", "transactions", "clients"];

  const make = (name, className, text) => {
    const element = document.createElement(name);
    if (className) { element.className = className; }
    if (text !== undefined) { element.textContent = text; }
    return element;
  };
  const escaped = (text) => text.replace(/[&<>"]/g, (each) => `&#${each.charCodeAt(0)};`);
  const number = (count) => count.toLocaleString("en");
  const word = (place) => data.words[place];

  // The last row that begins at or before an event; rows are in order of `place`.
  const last = (rows, sequence, place = 0) => {
    let low = 0;
    let high = rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rows[middle][place] <= sequence) { low = middle + 1; } else { high = middle; }
    }
    return low - 1;
  };

  // Constant data.
  const events = data.events;
  const bySequence = new Map(events.map((event) => [event[SEQ], event]));
  const incoming = new Map();
  const outgoing = new Map();
  const add = (map, key, value) => {
    if (!map.has(key)) { map.set(key, []); }
    map.get(key).push(value);
  };
  data.arrows.forEach((arrow) => {
    add(incoming, arrow[1], arrow);
    add(outgoing, arrow[0], arrow);
  });
  const spans = data.lanes.map(() => []);
  data.spans.forEach((span) => spans[span[0]].push(span));
  spans.forEach((each) => each.sort((a, b) => a[1] - b[1]));
  const place = (lane) => (FIXED.includes(data.lanes[lane][1]) ? "brokers" : data.lanes[lane][3]);

  // 0: closed, 1: all data is on the disk, 2: a crash would lose data.
  const style = (lane, sequence) => {
    const span = spans[lane][last(spans[lane], sequence, 1)];
    if (!span || sequence >= span[2]) { return 0; }
    return span[3] ? 2 : 1;
  };

  // The state of the view.
  let few = events.some((event) => event[MATTERS]);
  let rows = [];
  let rowOf = new Map();
  let lanes = [];
  let at = 0;
  let step = 20;
  let left = 0;
  let width = 0;
  const hiddenGroups = new Set();
  const hiddenPlaces = new Set();
  const view = one("#view");
  const svg = one("#lanes");
  const list = one("#rows");
  const slider = one("#slider");
  const map = one("#map");
  const pool = [];
  let printing = false;

  const x = (lane) => {
    const column = lanes.indexOf(lane);
    return column < 0 ? -1 : (column + 0.5) * step + 4;
  };
  const y = (row) => (row + 0.5) * ROW;

  // Filters.
  const isShown = (event) => event[SEQ] === data.found || ((!few || event[MATTERS]) &&
    !hiddenGroups.has(event[GROUP]) && !hiddenPlaces.has(place(event[LANE])));

  const refilter = () => {
    const kept = rows.length ? rows[at][SEQ] : data.found;
    rows = events.filter(isShown);
    // Paper cannot scroll, so it shows the last events, which contain the violation.
    if (printing) { rows = rows.slice(-MOST_PRINTED); }
    rowOf = new Map(rows.map((event, row) => [event[SEQ], row]));
    const used = new Set();
    rows.forEach((event) => {
      used.add(event[LANE]);
      if (event[FROM] >= 0) { used.add(event[FROM]); }
    });
    lanes = [...used].filter((lane) => !hiddenPlaces.has(place(lane))).sort((a, b) => a - b);
    one("#tall").style.height = `${(rows.length + 1) * ROW}px`;
    slider.max = String(Math.max(rows.length - 1, 0));
    layOut();
    drawMap();
    go(kept === null || kept === undefined ? rows.length - 1 : Math.max(last(rows, kept), 0), true);
  };

  const layOut = () => {
    const narrow = window.innerWidth <= 620;
    left = narrow ? 4 : 72;
    const room = view.clientWidth * (narrow ? 0.5 : 0.48) - 8;
    step = Math.max(9, Math.min(26, room / Math.max(lanes.length, 1)));
    width = lanes.length * step + 8;
    svg.style.left = `${left}px`;
    svg.setAttribute("width", String(width));
    drawHead();
    // The timeline fills the space below the verdict, if there is enough.
    const above = view.getBoundingClientRect().top + window.scrollY;
    const height = window.innerWidth <= 980 ? window.innerHeight * 0.6 : window.innerHeight - above - 16;
    view.style.height = `${Math.max(height, 300)}px`;
  };

  const drawHead = () => {
    const longest = Math.max(0, ...lanes.map((lane) => title(lane).length));
    const height = Math.min(150, 26 + longest * 4.7);
    const labels = lanes.map((lane) => {
      const kind = data.lanes[lane][1];
      const middle = left + x(lane);
      return `<text class="${kind}" transform="translate(${middle + 3},${height - 6}) ` +
        `rotate(-52)">${escaped(title(lane))}</text>`;
    });
    one("#head").innerHTML =
      `<svg width="${view.clientWidth}" height="${height}">${labels.join("")}</svg>`;
  };
  const title = (lane) => {
    const [, kind, name, instance] = data.lanes[lane];
    const hasHost = lanes.some((other) => data.lanes[other][0] === instance);
    const full = SHORT[kind] || name;
    const short = full.length > 26 ? `${full.slice(0, 25)}…` : full;
    return hasHost || !instance || kind === "instance" ? short : `${short}, ${instance}`;
  };

  // The visible lanes.
  const drawBands = (top, bottom) => {
    let found = "";
    let odd = false;
    lanes.forEach((lane, column) => {
      const before = column && place(lanes[column - 1]);
      if (!column || place(lane) !== before) { odd = !odd; }
      if (odd) {
        found += `<rect class="band" x="${column * step + 4}" y="${top}" width="${step}" height="${bottom - top}"/>`;
      }
    });
    return found;
  };

  const drawLives = (first, end) => lanes.map((lane) => {
    const kind = data.lanes[lane][1];
    const middle = x(lane);
    const line = (name, from, to) =>
      `<line class="${name}" x1="${middle}" x2="${middle}" y1="${from}" y2="${to}"/>`;
    if (FIXED.includes(kind) || kind === "disk") { return line("life", y(first - 1), y(end)); }
    const name = (found) => (kind !== "store" ? "life" : found === 2 ? "volatile" : "durable");
    let text = "";
    let began = first;
    let present = style(lane, rows[first][SEQ]);
    for (let row = first + 1; row <= end; row += 1) {
      const found = row < end ? style(lane, rows[row][SEQ]) : -1;
      if (found !== present) {
        const start = began === first && first > 0 ? y(first - 1) : y(began);
        if (present) { text += line(name(present), start, y(row)); }
        began = row;
        present = found;
      }
    }
    return text;
  }).join("");

  // A crash ends the lanes with data in memory only.
  const drawTorn = (event, row) => {
    if (word(event[KIND]) !== "instance.crashed") { return ""; }
    const instance = data.lanes[event[LANE]][3];
    return lanes.filter((lane) => data.lanes[lane][1] === "store" &&
      data.lanes[lane][3] === instance && style(lane, event[SEQ] - 1) === 2).map((lane) => {
      const [a, b] = [x(lane), y(row)];
      return `<path class="torn" d="M${a - 5} ${b - 5}l10 10m0 -10l-10 10"/>`;
    }).join("");
  };

  const drawWay = (event, row) => {
    const [from, to] = [x(event[FROM]), x(event[LANE])];
    if (event[FROM] < 0 || from < 0 || to < 0) { return ""; }
    const side = from < to ? -1 : 1;
    const tip = to + side * 9;
    return `<path class="way" d="M${from} ${y(row)}H${tip}"/>` +
      `<path class="tip" d="M${tip} ${y(row)}l${side * 5} -3.5v7z"/>`;
  };

  const drawArrow = (arrow, hot) => {
    const [source, target] = [rowOf.get(arrow[0]), rowOf.get(arrow[1])];
    if (source === undefined || target === undefined) { return ""; }
    const [a, b] = [x(rows[source][LANE]), x(rows[target][LANE])];
    if (a < 0 || b < 0) { return ""; }
    const [c, d] = [y(source), y(target)];
    const bend = Math.min(60, (d - c) / 2);
    const side = a === b ? step * 0.7 : 0;
    // A horizontal line to the same lane shows this arrow already.
    if (!hot && target - source === 1 && rows[source][LANE] === rows[target][FROM]) { return ""; }
    const mark = hot ? " hot" : "";
    const end = d - 10;
    return `<path class="arrow${mark}" d="M${a} ${c + 8}C${a + side} ${c + bend} ${b + side} ${end - bend} ${b} ${end - 4}"/>` +
      `<path class="tip${mark}" d="M${b} ${end + 1}l-3.5 -6h7z"/>`;
  };

  const drawArrows = (first, end) => {
    const drawn = new Set();
    let text = "";
    for (let row = first; row < end; row += 1) {
      const sequence = rows[row][SEQ];
      const some = [...(incoming.get(sequence) || []).slice(-MOST_ARROWS),
        ...(outgoing.get(sequence) || []).slice(0, MOST_ARROWS)];
      some.forEach((arrow) => {
        if (!drawn.has(arrow)) {
          drawn.add(arrow);
          text += drawArrow(arrow, false);
        }
      });
    }
    const sequence = rows[at][SEQ];
    [...(incoming.get(sequence) || []), ...(outgoing.get(sequence) || [])]
      .slice(0, 40).forEach((arrow) => { text += drawArrow(arrow, true); });
    return text;
  };

  const drawSign = (event, row) => {
    const middle = x(event[LANE]);
    if (middle < 0) { return ""; }
    const strong = event[STRONG] ? " strong" : "";
    const size = Math.max(5, Math.min(9, step * 0.42));
    const sign = escaped(event[SIGN]);
    const shape = event[SIGN] === "X"
      ? "<path d=\"M0 -12L12 0L0 12L-12 0z\"/>" : `<circle r="${size}"/>`;
    const text = size > 6 || event[SIGN] === "X" ? `<text y="4">${event[SIGN] === "X" ? "✗" : sign}</text>` : "";
    return `<g class="sign${strong} g-${word(event[GROUP])}${event[SIGN] === "X" ? " X" : ""}" ` +
      `transform="translate(${middle},${y(row)})">${shape}${text}</g>`;
  };

  const draw = () => {
    if (!rows.length) {
      svg.replaceChildren();
      pool.forEach((element) => { element.hidden = true; });
      return;
    }
    const top = printing ? 0 : view.scrollTop;
    const seen = printing ? rows.length * ROW : view.clientHeight;
    const first = Math.max(Math.floor(top / ROW) - MARGIN, 0);
    const end = Math.min(Math.ceil((top + seen) / ROW) + MARGIN, rows.length);
    let signs = "";
    let ways = "";
    for (let row = first; row < end; row += 1) {
      ways += drawWay(rows[row], row);
      if (row > 0 && rows[row][TIME] - rows[row - 1][TIME] >= data.gap) {
        ways += `<line class="pause" x1="0" x2="${width}" y1="${row * ROW}" y2="${row * ROW}"/>`;
      }
      signs += drawTorn(rows[row], row) + drawSign(rows[row], row);
    }
    svg.setAttribute("height", String(rows.length * ROW));
    svg.innerHTML = drawBands(first * ROW, end * ROW) + ways + drawLives(first, end) +
      drawArrows(first, end) + signs;
    drawRows(first, end);
  };

  const newRow = () => {
    const element = make("div", "row");
    element.setAttribute("role", "option");
    element.append(make("span", "time"), make("span", "gap"), make("span", "told"));
    element.addEventListener("click", () => go(Number(element.dataset.row), false));
    list.append(element);
    pool.push(element);
    return element;
  };

  const drawRows = (first, end) => {
    for (let row = first; row < end; row += 1) {
      const element = pool[row - first] || newRow();
      const event = rows[row];
      const [time, gap, told] = element.children;
      element.hidden = false;
      element.id = `row-${row}`;
      element.dataset.row = String(row);
      element.style.top = `${row * ROW}px`;
      element.className = `row${row === at ? " at" : ""}${event[SEQ] === data.found ? " found" : ""}`;
      element.setAttribute("aria-selected", String(row === at));
      element.title = `#${event[SEQ]} ${word(event[KIND])} by ${word(event[ACTOR])}`;
      const wait = row > 0 ? event[TIME] - rows[row - 1][TIME] : 0;
      element.classList.toggle("late", wait >= data.gap);
      element.dataset.wait = wait >= data.gap ? `${number(wait)} ms later` : "";
      const same = row > 0 && row > first && rows[row - 1][TIME] === event[TIME];
      time.textContent = same ? "" : number(event[TIME]);
      gap.style.width = `${width}px`;
      told.className = few || event[MATTERS] ? "told" : "told light";
      const before = few && event[COUNT] ? ` (and ${event[COUNT]} before it)` : "";
      told.textContent = `${event[SEQ] === data.found ? "Found here: " : ""}${event[WORDS]}${before}`;
    }
    pool.slice(end - first).forEach((element) => { element.hidden = true; });
    view.setAttribute("aria-activedescendant", `row-${at}`);
  };

  // The map of the whole run.
  let base = null;
  const colour = (name) => {
    const probe = make("i");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
  const drawMap = () => {
    const scale = window.devicePixelRatio || 1;
    map.width = Math.max(map.clientWidth * scale, 1);
    map.height = 34 * scale;
    base = document.createElement("canvas");
    base.width = map.width;
    base.height = map.height;
    const pen = base.getContext("2d");
    const colours = { faults: "--bad", transactions: "--good", group: "--group",
      restoring: "--restore", waiting: "--wait", stores: "--accent" };
    const resolved = new Map(data.words.map((name, place) => [place, colours[name] || "--strong"]));
    const known = new Map();
    const size = Math.min(Math.max(map.width / Math.max(rows.length, 1) * 0.6, 1), 8 * scale);
    rows.forEach((event, row) => {
      const name = event[SEQ] === data.found ? "--bad" : resolved.get(event[GROUP]);
      if (!known.has(name)) { known.set(name, colour(name)); }
      pen.fillStyle = known.get(name);
      const tall = event[SEQ] === data.found ? 1 : event[STRONG] ? 0.8 : event[MATTERS] ? 0.5 : 0.25;
      const wide = event[SEQ] === data.found ? Math.max(size, 3 * scale) : size;
      const middle = rows.length > 1 ? row / (rows.length - 1) * (map.width - 16 * scale) + 8 * scale : 8 * scale;
      pen.fillRect(middle - wide / 2, map.height * (1 - tall), wide, map.height * tall);
    });
  };
  const drawCursor = () => {
    const pen = map.getContext("2d");
    const scale = window.devicePixelRatio || 1;
    pen.clearRect(0, 0, map.width, map.height);
    if (base) { pen.drawImage(base, 0, 0); }
    const middle = rows.length > 1 ? at / (rows.length - 1) * (map.width - 16 * scale) + 8 * scale : 8 * scale;
    pen.fillStyle = getComputedStyle(document.body).color;
    pen.fillRect(middle - scale / 2, 0, scale, map.height);
  };

  // The panel of the selected moment.
  const momentOf = (lane, sequence) => {
    const found = data.moments[lane] || [];
    return found[last(found, sequence)];
  };
  const level = (levels, partition, sequence) => {
    const found = levels[partition] || [];
    const moment = found[last(found, sequence)];
    return moment ? moment[1] : 0;
  };
  const partition = (lane) => data.lanes[lane][0].split("/").slice(2).join("/");
  const count = (size, what) => `${number(size)} ${what}${size === 1 ? "" : "s"}`;

  const lost = (event) => {
    if (word(event[KIND]) !== "instance.crashed") { return []; }
    const instance = data.lanes[event[LANE]][3];
    return data.lanes.map((_, lane) => lane).filter((lane) => data.lanes[lane][1] === "store" &&
      data.lanes[lane][3] === instance && style(lane, event[SEQ] - 1) === 2).map((lane) => {
      const found = momentOf(lane, event[SEQ] - 1);
      const size = found[3] + found[4];
      return `Lost from ${data.lanes[lane][2]} (${partition(lane)}): ` +
        `${size ? count(size, "row") : "the offset"} that no flush had brought to the disk.`;
    });
  };

  const ties = (event) => {
    const box = make("div", "ties");
    const tie = (arrow, other, way) => {
      const found = bySequence.get(other);
      if (!found) { return; }
      const button = make("button", "", `${way} #${other} ${word(arrow[2])}: ${found[WORDS]}`);
      button.type = "button";
      button.addEventListener("click", () => reach(other));
      box.append(button);
    };
    (incoming.get(event[SEQ]) || []).slice(-MOST_TIES).forEach((arrow) => tie(arrow, arrow[0], "←"));
    (outgoing.get(event[SEQ]) || []).slice(0, MOST_TIES).forEach((arrow) => tie(arrow, arrow[1], "→"));
    return box;
  };

  const drawEvent = (event) => {
    const box = one("#event");
    const details = make("dl");
    [["kind", word(event[KIND])], ["by", word(event[ACTOR])], ...event[DETAILS]].forEach(([name, value]) =>
      details.append(make("dt", "", name), make("dd", "", value)));
    box.replaceChildren(
      make("h2", "", `Event #${event[SEQ]} at ${number(event[TIME])} ms`),
      make("p", "what", event[WORDS]),
      ...lost(event).map((text) => make("p", "lost", text)),
      details,
      ties(event),
    );
  };

  const drawStore = (lane, found, event) => {
    const end = level(data.ends, partition(lane), event[SEQ]);
    const [, isOpen, onDisk, inMemory, staged, diskOffset, offset] = found;
    const all = Math.max(end, offset + 1, diskOffset + 1, 1);
    const box = make("div", `store${isOpen ? "" : " shut"}`);
    const head = make("p");
    head.append(make("b", "", `${data.lanes[lane][2].replace(/^store /, "")} `),
      make("span", "state", `${data.lanes[lane][0].split("/").slice(0, 2).join(" ")}${isOpen ? "" : ", closed"}`));
    const bar = make("div", "bar");
    const part = (name, share) => {
      const piece = make("i", name);
      piece.style.width = `${Math.max(share, 0) / all * 100}%`;
      bar.append(piece);
    };
    const size = inMemory + staged;
    part("disk", diskOffset + 1);
    part(isOpen && size ? "memory" : "behind", offset - diskOffset);
    const facts = make("span", "facts");
    facts.append("on the disk: ", make("b", "", count(onDisk, "row")),
      diskOffset >= 0 ? `, offset ${diskOffset}` : ", no offset");
    if (isOpen && size) {
      const more = staged ? `, ${number(staged)} of no commit yet` : "";
      facts.append(" · ", make("b", "gone", `in memory only: ${count(size, "row")}${more}`),
        offset > diskOffset ? `, up to ${offset}` : "");
    } else if (offset > diskOffset) {
      facts.append(" · ", make("b", "", "that offset is behind"), `: what was written is up to ${offset}`);
    }
    facts.append(` · ${partition(lane)} ends at ${number(end)}`);
    box.append(head, bar, facts);
    return box;
  };

  const isOf = (event, lane) => lane === event[LANE] || lane === event[FROM];
  const drawMoment = () => {
    const event = rows[at];
    if (!event) {
      ["#event", "#stores", "#inputs"].forEach((name) => one(name).replaceChildren());
      return;
    }
    drawEvent(event);
    const stores = data.lanes.map((_, lane) => [lane, momentOf(lane, event[SEQ])])
      .filter(([lane, found]) => found && !hiddenPlaces.has(place(lane)) &&
        (found[1] || found[2] || found[5] >= 0))
      .sort((a, b) => isOf(event, b[0]) - isOf(event, a[0]) || b[1][1] - a[1][1] || a[0] - b[0]);
    one("#stores").replaceChildren(...(stores.length
      ? [make("h2", "", "What a crash would leave, and what it would take"),
        ...stores.map(([lane, found]) => drawStore(lane, found, event))] : []));
    const inputs = Object.keys(data.committed).filter((name) => level(data.ends, name, event[SEQ]));
    one("#inputs").replaceChildren(...(inputs.length ? [make("h2", "", "Inputs"), ...inputs.map((name) => {
      const [end, committed] = [level(data.ends, name, event[SEQ]), level(data.committed, name, event[SEQ])];
      const box = make("div", "store");
      const head = make("p");
      head.append(make("b", "", name), make("span", "state", `committed ${number(committed)} of ${number(end)}`));
      const bar = make("div", "bar");
      const piece = make("i", "disk");
      piece.style.width = `${committed / Math.max(end, 1) * 100}%`;
      bar.append(piece);
      box.append(head, bar);
      return box;
    })] : []));
  };

  // Moving.
  const go = (row, centre) => {
    at = Math.max(Math.min(row, rows.length - 1), 0);
    slider.value = String(at);
    const [top, seen] = [y(at) - ROW / 2, view.clientHeight];
    if (centre) {
      view.scrollTop = Math.max(top - seen * 0.6, 0);
    } else if (top < view.scrollTop + ROW) {
      view.scrollTop = Math.max(top - ROW * 2, 0);
    } else if (top + ROW * 2 > view.scrollTop + seen) {
      view.scrollTop = top + ROW * 3 - seen;
    }
    draw();
    drawCursor();
    drawMoment();
    const event = rows[at];
    slider.setAttribute("aria-valuetext", event ? `event ${event[SEQ]}, ${event[WORDS]}` : "nothing is shown");
  };
  const reach = (sequence) => {
    if (!rowOf.has(sequence) || hiddenPlaces.has(place(bySequence.get(sequence)[LANE]))) {
      few = false;
      hiddenGroups.clear();
      hiddenPlaces.clear();
      press();
      refilter();
    }
    go(rowOf.get(sequence), true);
  };
  const next = (side) => {
    for (let row = at + side; row >= 0 && row < rows.length; row += side) {
      if (rows[row][MATTERS]) { return row; }
    }
    return at;
  };
  const moves = {
    ArrowDown: () => at + 1, ArrowRight: () => at + 1, ArrowUp: () => at - 1, ArrowLeft: () => at - 1,
    PageDown: () => at + 20, PageUp: () => at - 20, Home: () => 0, End: () => rows.length - 1,
    n: () => next(1), p: () => next(-1),
  };
  document.addEventListener("keydown", (event) => {
    const move = moves[event.key];
    const inside = event.target === view || event.target === slider;
    if (!move || event.ctrlKey || event.metaKey || event.altKey || (!inside && event.key.length > 1)) { return; }
    event.preventDefault();
    go(move(), false);
    one("#live").textContent = rows[at] ? rows[at][WORDS] : "";
  });
  slider.addEventListener("input", () => go(Number(slider.value), true));
  map.addEventListener("pointerdown", (event) => {
    const share = (event.offsetX - 8) / Math.max(map.clientWidth - 16, 1);
    go(Math.round(share * (rows.length - 1)), true);
    slider.focus();
  });
  view.addEventListener("scroll", draw, { passive: true });

  // The selection of events.
  const press = () => {
    one("#few").setAttribute("aria-pressed", String(few));
    one("#all").setAttribute("aria-pressed", String(!few));
    document.querySelectorAll(".chips button").forEach((chip) => chip.setAttribute("aria-pressed", String(!chip.isOff())));
  };
  const choose = (what) => { few = what; press(); refilter(); };
  one("#few").addEventListener("click", () => choose(true));
  one("#all").addEventListener("click", () => choose(false));
  const chips = (box, names, hidden, value) => names.forEach((name) => {
    const chip = make("button", "", name);
    chip.type = "button";
    chip.isOff = () => hidden.has(value(name));
    chip.addEventListener("click", () => {
      if (!hidden.delete(value(name))) { hidden.add(value(name)); }
      press();
      refilter();
    });
    box.append(chip);
  });
  const groups = [...new Set(events.map((event) => word(event[GROUP])))].sort();
  chips(one("#groups"), groups, hiddenGroups, (name) => data.words.indexOf(name));
  const places = [...new Set(data.lanes.map((_, lane) => place(lane)))];
  chips(one("#places"), places, hiddenPlaces, (name) => name);
  if (one("#show")) { one("#show").addEventListener("click", () => { reach(data.found); view.focus(); }); }

  // The theme is the system's until the user chooses one. Browsers may forbid storage on file://.
  const theme = one("#theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const repaint = () => {
    theme.textContent = isDark() ? "Light" : "Dark";
    drawMap();
    drawCursor();
  };
  try { root.dataset.theme = localStorage.getItem("streamproof-theme") || root.dataset.theme || ""; }
  catch (ignored) { /* The theme stays the system's. */ }
  theme.hidden = false;
  theme.setAttribute("aria-label", "Switch between the light and the dark theme");
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("streamproof-theme", root.dataset.theme); } catch (ignored) { /* As above. */ }
    repaint();
  });
  system.addEventListener("change", repaint);

  window.addEventListener("resize", () => { layOut(); drawMap(); go(at, false); });
  window.addEventListener("beforeprint", () => { printing = true; refilter(); });
  window.addEventListener("afterprint", () => { printing = false; refilter(); });

  one("#bench").hidden = false;
  press();
  refilter();
  repaint();
})();
