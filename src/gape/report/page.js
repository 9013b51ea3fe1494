"use strict";

// All data is in one JSON element. Texts are inserted as text nodes, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const last = data.rounds.length - 1;

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
const make = (name, attributes = {}, ...children) => filled(document.createElement(name), attributes, children);
const draw = (name, attributes, ...children) => filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

// The number of rounds for which each sample has been unchanged.
const ages = [];
data.rounds.forEach((round, t) => {
  ages.push(round.text.map((_, i) => (t && round.scale[i] === 0 ? ages[t - 1][round.parent[i]] + 1 : 0)));
});

function votesInWords(votes) {
  const sigmas = data.sigma ? ` (${(votes / data.sigma).toFixed(1)}σ)` : "";
  return `${votes} ${votes === 1 ? "vote" : "votes"}${sigmas}`;
}

function ageInWords(t, i) {
  const age = ages[t][i];
  if (t && age === t) return "unchanged since the start";
  return age ? `unchanged for ${age} round${age === 1 ? "" : "s"}` : t ? "new in this round" : "from the start";
}

function quote(id, content) {
  const label = data.labels && data.tagged ? [make("span", { class: "label" }, data.labels[id])] : [];
  return make("span", { class: "quote" }, ...label, ...(content || [data.pictured ? picture(data.texts[id]) : data.texts[id]]));
}

function picture(url) {
  if (!url) return "not on this page";
  const caption = captionOf(url);
  const image = make("img", { class: "picture", src: url, alt: caption || "synthetic sample" });
  return caption ? make("span", { class: "captioned" }, image, caption) : image;
}

function captionOf(url) {
  return decodeURIComponent(url.split("#")[1] || "");
}

/* ---- lineage: the ancestors of a sample, from the start ---- */

// Mark the words that are new compared with the parent, by the longest common subsequence.
function changed(before, after) {
  const a = before.split(/\s+/), b = after.split(/(\s+)/).filter((part) => part !== "");
  const isSpace = (part) => /^\s+$/.test(part);
  const words = b.filter((part) => !isSpace(part));
  if (a.length * words.length > 400000) return [after];
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(words.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = words.length - 1; j >= 0; j--)
      common[i][j] = a[i] === words[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  const kept = new Set();
  for (let i = 0, j = 0; i < a.length && j < words.length; ) {
    if (a[i] === words[j]) { kept.add(j); i++; j++; }
    else if (common[i + 1][j] >= common[i][j + 1]) i++;
    else j++;
  }
  if (kept.size < words.length / 4) return [after];  // mostly new: marking it would not help
  const parts = [];  // runs of old or new words, with the spaces between them
  let index = -1, fresh = false;
  for (const part of b) {
    // A space is new if both of its neighbours are.
    fresh = isSpace(part) ? fresh && !kept.has(index + 1) : !kept.has(++index);
    const previous = parts[parts.length - 1];
    if (previous && previous.fresh === fresh) previous.text += part;
    else parts.push({ text: part, fresh });
  }
  return parts.map(({ text, fresh: isNew }) => (isNew ? make("mark", {}, text) : text));
}

function ancestors(t, i) {
  const steps = [];
  for (; t > 0; i = data.rounds[t].parent[i], t--) {
    const round = data.rounds[t];
    steps.push({ round: t, text: round.text[i], scale: data.scales[round.scale[i]], votes: round.votes[i] });
  }
  steps.push({ round: 0, text: data.rounds[0].text[i] });
  return steps.reverse();
}

function lineage(t, i) {
  const list = make("ol", { class: "lineage" });
  const steps = ancestors(t, i);
  for (let at = 0; at < steps.length; ) {
    const step = steps[at], stays = [];
    let end = at + 1;
    while (end < steps.length && steps[end].scale === 0) stays.push(steps[end++]);
    let caption = step.round ? `Round ${step.round}: varied at scale ${+step.scale.toPrecision(3)}, ${votesInWords(step.votes)}` : "Start";
    if (stays.length) {
      const rounds = stays.length === 1 ? `round ${stays[0].round}` : `rounds ${stays[0].round} to ${stays[stays.length - 1].round}`;
      caption += `; kept in ${rounds}, ${stays.length > 1 ? "finally " : ""}${votesInWords(stays[stays.length - 1].votes)}`;
    }
    const content = step.round && data.isText ? changed(data.texts[steps[at - 1].text], data.texts[step.text]) : undefined;
    list.append(make("li", {}, make("p", { class: "meta" }, caption), quote(step.text, content)));
    at = end;
  }
  return list;
}

/* ---- theme ---- */

const theme = byId("theme");
function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  theme.textContent = isDark() ? "Light" : "Dark";
}
theme.addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme());
setTheme();

/* ---- map ---- */

function bucket(value, edges) {
  const index = edges.findIndex((edge) => value < edge);
  return index < 0 ? edges.length : index;
}

function startMap() {
  const map = byId("plane"), slider = byId("round"), colour = byId("colour"), panel = byId("shown"), key = byId("key");
  const positions = data.map.rounds.map(([xs, ys], t) => new Map(data.rounds[t].drawn.map((i, n) => [i, [xs[n], 10000 - ys[n]]])));
  const beneath = draw("g", {}), ways = draw("g", {}), points = draw("g", {});
  map.append(beneath, ways, points);
  // Screen pixels in map units.
  const pixels = (count) => (count * 10000) / map.clientWidth;
  // Two-dimensional samples are drawn with their own axes.
  for (const [at, name] of data.map.ticks ? data.map.ticks[0] : []) {
    beneath.append(draw("line", { class: "grid", x1: at, x2: at, y1: 0, y2: 10000 }));
    beneath.append(label(name, { x: at + pixels(4), y: 10000 - pixels(6) }));
  }
  for (const [at, name] of data.map.ticks ? data.map.ticks[1] : []) {
    beneath.append(draw("line", { class: "grid", x1: 0, x2: 10000, y1: 10000 - at, y2: 10000 - at }));
    beneath.append(label(name, { x: pixels(5), y: 10000 - at - pixels(4) }));
  }
  const [rx, ry] = data.map.private || [[], []];
  rx.forEach((x, n) => beneath.append(draw("circle", { class: "private", cx: x, cy: 10000 - ry[n], r: 55 })));
  let shown = null, pinned = false, playing = 0;

  function label(text, position) {
    const element = draw("text", { class: "tick", ...position }, text);
    element.style.fontSize = `${pixels(12)}px`;
    return element;
  }
  function level(t, i) {
    if (colour.value === "age") return bucket(ages[t][i], [1, 2, 3, 4, 6]);
    return t ? bucket(data.rounds[t].votes[i], data.edges) : 0;
  }

  function showKey() {
    const votes = data.edges.map((edge, n) => {
      const next = data.edges[n + 1];
      return next === undefined ? `${edge} or more` : next > edge + 1 ? `${edge} to ${next - 1}` : `${edge}`;
    });
    votes.unshift(data.edges.length ? `fewer than ${data.edges[0]} ${data.edges[0] === 1 ? "vote" : "votes"}` : "any number of votes");
    const names = colour.value === "age" ? ["new", "1 round", "2", "3", "4 or 5", "6 or more"] : votes;
    const used = +slider.value || colour.value === "age" ? names : ["no votes before the first round"];
    key.replaceChildren(...used.map((name, n) => make("li", {}, make("span", { class: `swatch s${n}` }), name)));
  }

  function show(i) {
    const t = +slider.value;
    const selected = [...points.children].find((circle) => circle.index === i);
    for (const circle of points.children) circle.classList.toggle("shown", circle === selected);
    points.append(selected);  // on top of the others
    shown = i;
    const caption = !last ? "" : [t ? votesInWords(data.rounds[t].votes[i]) : "start", ageInWords(t, i)].join(" · ");
    panel.replaceChildren(make("p", { class: "meta" }, caption), quote(data.rounds[t].text[i]));
    if (pinned && ages[t][i] < t) panel.append(make("h3", {}, "Lineage"), lineage(t, i));
  }

  function paint() {
    const t = +slider.value, round = data.rounds[t];
    byId("turn").textContent = t ? `round ${t}` : "start";
    slider.setAttribute("aria-valuetext", t ? `round ${t} of ${last}` : "start");
    pinned = false;
    ways.replaceChildren();
    const circles = round.drawn.map((i) => {
      const [x, y] = positions[t].get(i);
      const from = t ? positions[t - 1].get(round.parent[i]) : undefined;
      const size = round.drawn.length > 150 ? 5 : 6.5, url = data.pictured && data.texts[round.text[i]];
      const circle = draw(url ? "g" : "circle", { class: `point s${level(t, i)}`, ...(url ? {} : { r: pixels(size) }) });
      if (url) {
        const half = pixels(2 * size), edge = half + pixels(1.5);
        circle.append(draw("rect", { x: -edge, y: -edge, width: 2 * edge, height: 2 * edge }));
        circle.append(draw("image", { href: url, x: -half, y: -half, width: 2 * half, height: 2 * half }));
      }
      circle.index = i;
      const [fx, fy] = from || [x, y];
      circle.style.transform = `translate(${fx}px, ${fy}px)`;
      if (from && (fx !== x || fy !== y)) ways.append(draw("line", { class: "way", x1: fx, y1: fy, x2: x, y2: y }));
      return circle;
    });
    points.replaceChildren(...circles);
    requestAnimationFrame(() => requestAnimationFrame(() => circles.forEach((circle) => {
      const [x, y] = positions[t].get(circle.index);
      circle.style.transform = `translate(${x}px, ${y}px)`;
    })));
    showKey();
    // Show the sample with the most votes first.
    show(round.drawn.reduce((best, i) => (t && round.votes[i] > round.votes[best] ? i : best), round.drawn[0]));
  }

  function nearest(event) {
    const box = map.getBoundingClientRect(), unit = 10000 / box.width;
    const x = (event.clientX - box.left) * unit, y = (event.clientY - box.top) * unit;
    let best = null, gap = (24 * unit) ** 2;
    for (const [i, [px, py]] of positions[+slider.value]) {
      const squared = (px - x) ** 2 + (py - y) ** 2;
      if (squared < gap) [best, gap] = [i, squared];
    }
    return best;
  }

  slider.addEventListener("input", paint);
  colour.addEventListener("change", paint);
  map.addEventListener("pointermove", (event) => {
    const i = nearest(event);
    if (!pinned && i !== shown && i !== null) show(i);
  });
  map.addEventListener("click", (event) => {
    const i = nearest(event);
    pinned = i !== null;
    if (pinned) show(i);
  });
  map.addEventListener("keydown", (event) => {
    const drawn = data.rounds[+slider.value].drawn;
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    pinned = true;
    show(drawn[(drawn.indexOf(shown) + step + drawn.length) % drawn.length]);
  });
  const play = byId("play");
  const stop = () => { clearInterval(playing); playing = 0; play.textContent = "Play"; };
  play.addEventListener("click", () => {
    if (playing) return stop();
    slider.value = +slider.value === last ? 0 : slider.value;
    paint();
    play.textContent = "Pause";
    playing = setInterval(() => {
      slider.value = +slider.value + 1;
      paint();
      if (+slider.value === last) stop();
    }, 1100);
  });
  paint();
}

/* ---- samples ---- */

function startSamples() {
  const STEP = 20;
  const search = byId("search"), sort = byId("sort"), label = byId("label"), list = byId("samples"), more = byId("more");
  const round = data.rounds[last];
  const all = round.text.map((id, i) => ({ i, id, text: data.texts[id], votes: last ? round.votes[i] : 0, age: ages[last][i] }));
  all.forEach((sample) => { sample.low = `${data.pictured ? captionOf(sample.text) : sample.text} ${data.labels ? data.labels[sample.id] : ""}`.toLowerCase(); });
  const orders = {
    votes: (a, b) => b.votes - a.votes,
    fewest: (a, b) => a.votes - b.votes,
    oldest: (a, b) => b.age - a.age || b.votes - a.votes,
    newest: (a, b) => a.age - b.age || b.votes - a.votes,
    longest: (a, b) => b.text.length - a.text.length,
    text: (a, b) => a.text.localeCompare(b.text),
  };
  let limit = STEP;

  function item({ i, id, votes }) {
    const caption = last ? `${votesInWords(votes)} · ${ageInWords(last, i)}` : "";
    const button = make("button", { type: "button", "aria-expanded": "false" }, quote(id), make("span", { class: "meta" }, caption));
    const entry = make("li", {}, button);
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      if (open) entry.lastChild.remove();
      else entry.append(lineage(last, i));
    });
    return entry;
  }

  function refresh() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = label ? label.value : "";
    const matches = all.filter(({ low, id }) => words.every((word) => low.includes(word)) && (!wanted || data.labels[id] === wanted));
    matches.sort(orders[sort.value]);
    list.replaceChildren(...matches.slice(0, limit).map(item));
    byId("matches").textContent = `${matches.length.toLocaleString("en")} of ${all.length.toLocaleString("en")}`;
    more.hidden = matches.length <= limit;
    more.textContent = `Show ${Math.min(STEP, matches.length - limit)} more`;
  }

  const restart = () => { limit = STEP; refresh(); };
  search.addEventListener("input", restart);
  sort.addEventListener("change", restart);
  if (label) label.addEventListener("change", restart);
  more.addEventListener("click", () => { limit += STEP; refresh(); });
  refresh();
}

if (data.map) startMap();
startSamples();
