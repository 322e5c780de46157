"use strict";
// Texts of runs are only ever set as text: nothing here makes markup of them.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const index = Object.fromEntries(data.columns.map((name, at) => [name, at]));
  const text = (at) => data.texts[at];
  const CHUNK = 20, BRIEF = 240, MOST_PRINTED = 2000;
  const runs = data.runs.map((row, at) => ({ row, at, text: null }));
  const of = (run, name) => run.row[index[name]];
  const byId = (id) => document.getElementById(id);

  function element(tag, className, content) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (content !== undefined && content !== null) made.textContent = content;
    return made;
  }
  function withRole(tag, role, className) {  // a table that is laid out as a grid stays one to a reader
    const made = element(tag, className);
    made.setAttribute("role", role);
    return made;
  }
  const figure = (value, digits) =>
    value === null ? "" : value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
  const percent = (value) => (value === null ? null : figure(100 * value, 1) + " %");
  const holdsText = { null: "", 0: "does not hold", 1: "holds" };

  const soon = window.requestIdleCallback || ((act) => setTimeout(act));

  // A list of any length: rows stand in groups, and only those near the window are filled.
  class LongList {
    constructor(table, draw, rowHeight) {
      this.table = table; this.draw = draw; this.rowHeight = rowHeight; this.items = []; this.groups = [];
      this.watch = new IntersectionObserver((seen) => {
        for (const { target, isIntersecting, boundingClientRect: at } of seen) {
          target.wanted = isIntersecting;
          if (!isIntersecting) this.empty(target);
          else if (at.top < innerHeight && at.bottom > 0) this.fill(target);
          else soon(() => target.wanted && this.fill(target));
        }
      }, { rootMargin: "1200px" });
    }
    show(items) {
      this.watch.disconnect();
      for (const group of this.groups) group.remove();
      this.items = items; this.groups = [];
      for (let first = 0; first < items.length; first += CHUNK) {
        const group = withRole("tbody", "rowgroup");
        group.first = first; group.filled = false;
        group.size = Math.min(CHUNK, items.length - first) * this.rowHeight();
        this.hold(group); this.groups.push(group);
      }
      this.table.append(...this.groups);
      for (const group of this.groups) this.watch.observe(group);
    }
    hold(group) {
      group.replaceChildren(); group.style.height = group.size + "px"; group.filled = false;
    }
    fill(group) {
      if (group.filled) return;
      const rows = [];
      for (const item of this.items.slice(group.first, group.first + CHUNK)) rows.push(...this.draw(item));
      group.replaceChildren(...rows); group.style.height = "";
      group.style.containIntrinsicSize = "auto " + group.size + "px"; group.filled = true;
    }
    empty(group) {
      if (!group.filled) return;
      if (group.contains(document.activeElement)) return;
      group.size = group.offsetHeight; this.hold(group);
    }
    fillAll() {
      this.watch.disconnect();
      for (const group of this.groups) if (group.first < MOST_PRINTED) this.fill(group); else group.remove();
      const more = this.items.length - MOST_PRINTED;
      if (more <= 0) return;
      const group = withRole("tbody", "rowgroup"), line = withRole("tr", "row"), place = withRole("td", "cell");
      place.textContent = figure(more, 0) + " more are not printed.";
      line.append(place); group.append(line); this.table.append(group); this.groups.push(group);
    }
    watchAgain() { this.show(this.items); }
  }

  // One run: its line, and what is below it when it is open.
  const open = new Set();
  function cell(className, label, content) {
    const made = withRole("td", "cell", className);
    if (content) made.textContent = content;
    made.dataset.label = label;
    return made;
  }
  function drawRun(run) {
    const line = withRole("tr", "row", "run");
    const prompt = cell("prompt", "Prompt"), button = element("button", "open");
    button.type = "button"; button.setAttribute("aria-expanded", open.has(run.at));
    const brief = element("span", "brief", (of(run, "prompt") || of(run, "path")).slice(0, BRIEF));
    brief.dir = "auto"; button.append(brief); prompt.append(button);
    const answer = cell("answer", "Answer"), said = element("span", "brief", (of(run, "answer") || of(run, "why")).slice(0, BRIEF));
    said.dir = "auto"; answer.append(said);
    if (of(run, "cut")) answer.append(element("span", "bad", "cut off"));
    if (of(run, "truncated")) answer.append(element("span", "bad", " prompt not read whole"));
    const model = cell("model", "Model");
    model.append(element("bdi", "", text(of(run, "model"))));
    const state = text(of(run, "state")), holds = of(run, "holds"), chosen = of(run, "chosen");
    const verdict = cell("state", "Verdict"), expected = cell("holds", "Expectation");
    verdict.append(element("span", state === "holds" ? "good" : "bad", state));
    expected.append(element("span", holds === 0 ? "bad" : "good", holdsText[holds]));
    if (chosen !== null) expected.append(element("span", "dim", " " + percent(chosen)));
    line.append(prompt, answer, model, cell("number", "Tokens", figure(of(run, "tokens"), 0)),
      cell("number", "Seconds", figure(of(run, "seconds"), 2)), verdict, expected);
    line.run = run;
    return open.has(run.at) ? [line, drawMore(run)] : [line];
  }
  function drawMore(run) {
    const line = withRole("tr", "row", "more"), place = withRole("td", "cell"), state = text(of(run, "state"));
    const facts = [["file", of(run, "path")]];
    if (data.folders.length > 1) facts.push(["of", data.folders[of(run, "folder")]]);
    facts.push(["verdict", state + (of(run, "why") ? ": " + of(run, "why") : "")]);
    if (of(run, "holds") !== null) facts.push(["expectation", holdsText[of(run, "holds")] + (of(run, "seen") ? ": " + of(run, "seen") : "")]);
    for (const [name, value] of [
      ["prompt tokens", figure(of(run, "promptTokens"), 0)], ["answer tokens", figure(of(run, "tokens"), 0)],
      ["seconds", figure(of(run, "seconds"), 2)], ["first token after", of(run, "first") === null ? "" : figure(of(run, "first"), 2) + " s"],
      ["tokens a second", figure(of(run, "rate"), 1)],
      ["window", of(run, "window") === null ? "" : figure(of(run, "window"), 0) + " tokens, " + (percent(of(run, "used")) || "not known how much") + " used"],
    ]) if (value) facts.push([name, value]);
    section(place, "Prompt", of(run, "prompt"), of(run, "promptCut"));
    section(place, "Answer", of(run, "answer"), of(run, "answerCut"));
    place.append(list([...facts, ...of(run, "own").map(([name, value]) => [text(name), value])]));
    if (of(run, "messages").length) {
      place.append(element("h3", "", "Messages, and their SHA-256"));
      place.append(list(of(run, "messages").map((pair) => pair.map(text))));
    }
    const shared = data.groups[of(run, "shared")];
    if (shared.length) {
      const rest = element("details");
      rest.append(element("summary", "", "Model and parameters"));
      rest.append(list(shared.map((at) => data.pairs[at].map(text))));
      place.append(rest);
    }
    line.append(place);
    return line;
  }
  function section(place, title, content, whole) {
    if (!content) return;
    place.append(element("h3", "", title));
    const shown = element("pre", "", content);
    shown.dir = "auto"; shown.tabIndex = 0; place.append(shown);
    sayCut(place, whole);
  }
  function sayCut(place, whole) {
    if (whole) place.append(element("p", "dim", "Cut here: it has " + figure(whole, 0) + " characters."));
  }
  function list(pairs) {
    const made = element("dl", "facts");
    for (const [name, value] of pairs) {
      const label = element("dt"), place = element("dd");
      label.append(element("bdi", "", name)); place.append(element("bdi", "", value));
      made.append(label, place);
    }
    return made;
  }

  // Which runs are shown, and in which order.
  const finds = {
    slowest: (run) => of(run, "seconds") !== null,
    cut: (run) => of(run, "cut"),
    truncated: (run) => of(run, "truncated"),
    empty: (run) => of(run, "state") !== null && !of(run, "answer") && of(run, "own").length,
    failed: (run) => of(run, "holds") === 0,
    unverified: (run) => text(of(run, "state")) !== "holds",
    disagree: (run) => of(run, "question"),
  };
  const wanted = { find: "", sort: "", down: false };
  const table = byId("runs");
  const all = new LongList(table, drawRun, () => (matchMedia("(max-width: 48rem)").matches ? 190 : 58));
  function haystack(run) {
    run.text ??= [of(run, "prompt"), of(run, "answer"), of(run, "path"), of(run, "why")].join("\n").toLowerCase();
    return run.text;
  }
  function keyOf(run, name) {
    const value = of(run, name);
    return name === "model" || name === "state" ? text(value) : value;
  }
  function update() {
    const search = byId("search").value.toLowerCase(), model = byId("model").value;
    const state = byId("state").value, holds = byId("holds").value;
    let found = runs.filter((run) =>
      (!wanted.find || finds[wanted.find](run)) && (!model || of(run, "model") === +model) &&
      (!state || of(run, "state") === +state) && (!holds || String(of(run, "holds")) === holds) &&
      (!search || haystack(run).includes(search)));
    const name = wanted.sort, turn = wanted.down ? -1 : 1;
    if (name) found.sort((a, b) => {
      const one = keyOf(a, name), other = keyOf(b, name);
      if (one === other) return a.at - b.at;
      if (one === null || other === null) return one === null ? 1 : -1;
      return (typeof one === "string" ? (one < other ? -1 : 1) : one - other) * turn;
    });
    all.show(found);
    byId("count").textContent = figure(found.length, 0) + " of " + figure(runs.length, 0);
    for (const each of document.querySelectorAll("[data-find]")) each.setAttribute("aria-pressed", each.dataset.find === wanted.find);
    for (const each of table.tHead.querySelectorAll("[data-sort]")) {
      if (each.dataset.sort === name) each.closest("th").setAttribute("aria-sort", wanted.down ? "descending" : "ascending");
      else each.closest("th").removeAttribute("aria-sort");
    }
    return found;
  }
  function find(kind) {
    const off = wanted.find === kind;
    for (const id of ["search", "model", "state", "holds"]) byId(id).value = "";
    open.clear();
    Object.assign(wanted, { find: off ? "" : kind, sort: "", down: false });
    if (!off && kind === "slowest") Object.assign(wanted, { sort: "seconds", down: true });
    if (!off && kind === "disagree") wanted.sort = "question";
    const found = update();
    if (!off && found.length && (kind === "slowest" || found.length === 1)) { open.add(found[0].at); all.show(found); }
    byId("all").scrollIntoView();
  }
  function fillSelect(id, name) {
    const counts = new Map();
    for (const run of runs) counts.set(of(run, name), (counts.get(of(run, name)) || 0) + 1);
    for (const [at, count] of [...counts].sort((a, b) => b[1] - a[1])) {
      const option = element("option", "", (text(at) || "not known") + " (" + figure(count, 0) + ")");
      option.value = at; byId(id).append(option);
    }
  }
  fillSelect("model", "model"); fillSelect("state", "state");
  let timer = 0;
  byId("search").addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(update, 120); });
  for (const id of ["model", "state", "holds"]) byId(id).addEventListener("change", update);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").addEventListener("reset", () => setTimeout(() => { Object.assign(wanted, { find: "", sort: "", down: false }); update(); }));
  for (const each of document.querySelectorAll("[data-find]")) each.addEventListener("click", () => find(each.dataset.find));
  table.tHead.addEventListener("click", (event) => {
    const name = event.target.closest("[data-sort]")?.dataset.sort;
    if (!name) return;
    wanted.down = wanted.sort === name ? !wanted.down : name === "tokens" || name === "seconds";
    wanted.sort = name; update();
  });
  table.addEventListener("click", (event) => {
    const line = event.target.closest("tr.run");
    if (!line || String(getSelection())) return;
    const run = line.run, isOpen = open.has(run.at);
    line.querySelector(".open").setAttribute("aria-expanded", !isOpen);
    if (isOpen) { open.delete(run.at); line.nextElementSibling.remove(); }
    else { open.add(run.at); line.after(drawMore(run)); }
  });

  // Two folders side by side.
  function marked(content, units) {
    const place = element("div"); place.dir = "auto";
    if (!units) { place.textContent = content; return place; }
    let at = 0;
    units.forEach((size, turn) => {
      const part = content.slice(at, at + size); at += size;
      if (part) place.append(turn % 2 ? element("mark", "", part) : part);
    });
    return place;
  }
  function fillPair(place, run, name, units) {
    place.append(marked(of(run, name), units));
    sayCut(place, of(run, name + "Cut"));
  }
  function drawPair([first, second, same, firstMarks, secondMarks]) {
    const line = withRole("tr", "row", same ? "pair same" : "pair");
    const prompt = cell("", "Prompt"), one = cell("", data.folders[0]), other = cell("", data.folders[1]);
    fillPair(prompt, runs[first], "prompt");
    fillPair(one, runs[first], "answer", firstMarks);
    if (same) other.append(element("em", "", "the same"));
    else fillPair(other, runs[second], "answer", secondMarks);
    line.append(prompt, one, other);
    return [line];
  }
  let pairs = null;
  function updatePairs() {
    const found = data.sides.filter((pair) => !byId("differ").checked || !pair[2]);
    pairs.show(found);
    byId("pairs-count").textContent = figure(found.length, 0) + " of " + figure(data.sides.length, 0);
  }
  if (data.sides) {
    pairs = new LongList(byId("pairs"), drawPair, () => 90);
    byId("differ").checked = data.sides.length > CHUNK;
    byId("differ").addEventListener("change", updatePairs);
    updatePairs();
  }
  addEventListener("beforeprint", () => { all.fillAll(); pairs?.fillAll(); });
  addEventListener("afterprint", () => { all.watchAgain(); pairs?.watchAgain(); });
  update();
})();
