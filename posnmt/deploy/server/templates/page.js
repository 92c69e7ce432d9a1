const MOST = 3;       // models side by side
const AT_A_TIME = 4;  // requests of a model under way
const element = (id) => document.getElementById(id);
const form = element("ask"), source = element("source"), table = element("translations"), stop = element("stop");
let running = null;

function add(parent, name, properties = {}) {
  const child = Object.assign(document.createElement(name), properties);
  parent.append(child);
  return child;
}

const say = (sentence) => { element("status").textContent = sentence; };
const boxes = () => [...document.querySelectorAll("#models input")];

function showModels(models) {
  for (const model of models) {
    const label = add(element("models"), "label");
    const box = add(label, "input", { type: "checkbox", value: model.name });
    box.model = model;
    add(label, "span", { textContent: `${model.name}: ${model.source} to ${model.target}` });
  }
  for (const box of boxes().filter((each) => each.model.source === models[0].source).slice(0, MOST)) box.checked = true;
  limitModels();
}

function limitModels() {
  const chosen = boxes().filter((box) => box.checked).length;
  for (const box of boxes()) box.disabled = !box.checked && chosen >= MOST;
}

// What to know of a line's length beside those that the model was trained on.
function lengthOf(line, model) {
  const trained = model.trained?.source;
  const inParts = line.longest_part === undefined ? "" : ` in ${line.hypotheses[0].parts} parts of at most ${line.longest_part}`;
  const count = `${line.source_subwords} subwords${inParts}`;
  if (!trained) return { text: count, beyond: false };
  const length = line.longest_part ?? line.source_subwords;
  const beyond = length > trained.longest ? "longer" : length < trained.shortest ? "shorter" : "";
  const range = `trained on ${trained.shortest} to ${trained.longest}`;
  return { text: beyond ? `${count}: ${beyond} than any that it was trained on (${trained.shortest} to ${trained.longest})` : `${count}, ${range}`, beyond };
}

const pause = (seconds, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, 1000 * seconds);
  signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); });
});

// One request; a server that is busy says when to ask again.
async function ask(text, model, signal) {
  for (;;) {
    const key = element("key").value;
    const headers = { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
    const answer = await fetch("v1/translate", { method: "POST", headers, signal, body: JSON.stringify({ text, model: model.name, alignments: model.alignments }) });
    if (answer.status === 403) element("key-control").hidden = false;
    if (![429, 503].includes(answer.status)) return { ok: answer.ok, ...(await answer.json()) };
    await pause(Number(answer.headers.get("Retry-After")) || 1, signal);
  }
}

function showLine(cell, answer, model) {
  cell.replaceChildren();
  if (!answer.ok) {
    add(cell, "span", { className: "text fault", textContent: answer.error });
    return false;
  }
  const line = answer.translations[0].lines[0];
  const text = add(cell, "span", { className: "text", dir: "auto", lang: model.target });
  if (line.source_words && line.hypotheses.length) showLinked(text, line);
  else text.textContent = answer.translations[0].text;
  const length = lengthOf(line, model);
  add(cell, "span", { className: length.beyond ? "note beyond" : "note", textContent: length.text });
  if (line.hypotheses.some((each) => !each.ended)) add(cell, "span", { className: "note beyond", textContent: "cut off at the output limit" });
  return true;
}

// Text with an element for each of its words, whose places count characters as Python does.
function addWords(parent, text, words) {
  const letters = [...text];
  let at = 0;
  const elements = words.map(({ start, end }) => {
    parent.append(letters.slice(at, start).join(""));
    at = end;
    return add(parent, "span", { className: "word", textContent: letters.slice(start, end).join(""), sources: [] });
  });
  parent.append(letters.slice(at).join(""));
  return elements;
}

// Each word of a translation knows the source words that it is linked to, and each source word itself.
function showLinked(cell, line) {
  const [best] = line.hypotheses;
  const words = addWords(cell, best.text, best.words);
  for (const [from, to] of best.alignment) words[to].sources.push(line.source_words[from]);
  const head = cell.closest("tr").cells[0];
  if (head.querySelector(".word")) return;
  head.replaceChildren();
  addWords(head, line.source, line.source_words).forEach((word, number) => { word.sources.push(line.source_words[number]); });
}

function markLinks(word) {
  for (const marked of table.querySelectorAll(".linked")) marked.classList.remove("linked");
  if (!word) return;
  const cell = word.closest("th, td");
  const overlaps = (other) => word.sources.some((a) => other.sources.some((b) => a.start < b.end && b.start < a.end));
  for (const other of word.closest("tr").querySelectorAll(cell.tagName === "TH" ? "td .word" : "th .word")) {
    if (overlaps(other)) other.classList.add("linked");
  }
  if (word.sources.length) word.classList.add("linked");
}

function drawTable(lines, models) {
  const [head, body] = [table.tHead.rows[0], table.tBodies[0]];
  head.replaceChildren();
  body.replaceChildren();
  add(head, "th", { scope: "col", textContent: "Source" });
  models.forEach((model, column) => {
    const cell = add(head, "th", { scope: "col", textContent: `${model.name} ` });
    const save = add(cell, "button", { type: "button", className: "save", textContent: "Save" });
    save.setAttribute("aria-label", `Save the translations of ${model.name}`);
    save.addEventListener("click", () => saveColumn(model, column + 1));
  });
  table.hidden = false;
  return lines.map((line) => {
    const row = add(body, "tr");
    add(row, "th", { scope: "row", className: "text", textContent: line, dir: "auto" });
    return models.map((model) => {
      const cell = add(row, "td", { className: line.trim() ? "waiting" : "" });
      cell.dataset.model = model.name;
      return cell;
    });
  });
}

function saveColumn(model, column) {
  const lines = [...table.tBodies[0].rows].map((row) => row.cells[column].querySelector(".text:not(.fault)")?.textContent ?? "");
  const url = URL.createObjectURL(new Blob([lines.map((line) => `${line}\n`).join("")], { type: "text/plain" }));
  add(document.body, "a", { href: url, download: `${model.name}.txt` }).click();
  document.body.lastElementChild.remove();
  URL.revokeObjectURL(url);
}

async function translate() {
  running?.abort();
  const models = boxes().filter((box) => box.checked).map((box) => box.model);
  const lines = source.value.replace(/\n$/, "").split("\n");
  if (!models.length || !source.value.trim()) {
    say(models.length ? "There is no text to translate." : "Choose a model.");
    return;
  }
  const control = running = new AbortController();
  stop.removeAttribute("aria-disabled");
  const cells = drawTable(lines, models);
  const total = lines.filter((line) => line.trim()).length * models.length;
  let done = 0, failed = 0;
  const progress = () => say(`${done} of ${total} translations${failed ? `, ${failed} of them failed` : ""}`);
  progress();
  const work = async (model, column, numbers) => {
    for (const number of numbers) {
      if (control.signal.aborted) return;
      const cell = cells[number][column];
      const answer = await ask(lines[number], model, control.signal);
      cell.className = "";
      failed += showLine(cell, answer, model) ? 0 : 1;
      done += 1;
      progress();
    }
  };
  const numbers = lines.flatMap((line, number) => line.trim() ? [number] : []);
  const all = models.flatMap((model, column) => {
    const left = numbers.values();  // shared: each request takes the next line
    return Array.from({ length: AT_A_TIME }, () => work(model, column, left));
  });
  try {
    await Promise.all(all);
  } catch (error) {
    if (running === control) say(control.signal.aborted ? `Stopped after ${done} of ${total} translations` : `The server did not answer: ${error.message}`);
    control.abort();
  }
  if (running === control) {
    running = null;
    stop.setAttribute("aria-disabled", "true");
  }
}

async function open(file) {
  try {
    source.value = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer()).replace(/\r\n/g, "\n");
    say(`${file.name}: ${source.value.replace(/\n$/, "").split("\n").length} lines`);
  } catch {
    say(`${file.name} is not a text in UTF-8`);
  }
}

form.addEventListener("submit", (event) => { event.preventDefault(); translate(); });
for (const kind of ["pointerover", "click"]) table.addEventListener(kind, (event) => markLinks(event.target.closest(".word")));
table.addEventListener("pointerleave", () => markLinks(null));
stop.addEventListener("click", () => running?.abort());
element("models").addEventListener("change", limitModels);
element("file").addEventListener("change", (event) => event.target.files[0] && open(event.target.files[0]));
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); translate(); }
  if (event.key === "Escape") running?.abort();
});
for (const [kind, over] of [["dragenter", true], ["dragover", true], ["dragleave", false], ["drop", false]]) {
  source.addEventListener(kind, (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    source.classList.toggle("over", over);
    if (kind === "drop") open(event.dataTransfer.files[0]);
  });
}
showModels(await (await fetch("v1/models")).json());
