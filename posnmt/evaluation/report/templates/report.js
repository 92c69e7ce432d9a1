// The page's script: the parts of it are joined into one module. This part: what the others share, downloads, and what
// the points of figures say.

/** An element with properties and children. Text is never read as HTML. */
function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** The same for parts of figures, which have attributes. */
function svgElement(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** A name within a sentence: where it is written from right to left, what follows keeps its place. */
const isolated = (name) => (/[\u0590-\u08ff\ufb1d-\ufefc]/.test(name) ? `\u2068${name}\u2069` : name);

/** The bytes packed into the element with this id: base64 of gzip. */
async function unpackedBytes(id) {
  const letters = atob(document.getElementById(id).textContent);
  const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The text packed into the element with this id, in UTF-8. */
const unpacked = async (id) => new TextDecoder().decode(await unpackedBytes(id));

/** Let the browser save a text, or bytes, as a file. */
function save(name, type, content) {
  const address = URL.createObjectURL(new Blob([content], { type: `${type};charset=utf-8` }));
  element("a", { href: address, download: name }).click();
  // Some browsers begin to read only after the click is over.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** A button that saves something; screen readers hear of what. */
function saveButton(words, what, press) {
  const button = element("button", { type: "button", className: "save", ariaLabel: `${words}: ${what}` }, words);
  button.addEventListener("click", press);
  return button;
}

/** A figure as an SVG file by itself, in the page's light colours. */
function figureFile(svg) {
  const light = [...document.styleSheets[0].cssRules].find((rule) => rule.selectorText === ":root").style;
  const copy = svg.cloneNode(true);
  for (const point of copy.querySelectorAll(".point")) point.remove();
  const [, , width, height] = copy.getAttribute("viewBox").split(/\s+/);
  copy.setAttribute("width", `${width}pt`);
  copy.setAttribute("height", `${height}pt`);
  const text = new XMLSerializer().serializeToString(copy);
  const plain = text.replace(/var\((--[\w-]+)\)/g, (_, name) => light.getPropertyValue(name).trim());
  return `<?xml version="1.0" encoding="utf-8"?>\n${plain}\n`;
}

// The files for print, which are packed together: figures as PDF, tables for LaTeX.
const printNames = new Set(document.getElementById("packed-print")?.dataset.names.split(" "));
let printFiles;

/** Unpack the files for print: a line of JSON has their names and lengths, and their contents follow. */
async function unpackPrint() {
  const bytes = await unpackedBytes("packed-print");
  let start = bytes.indexOf(10) + 1;
  const lengths = Object.entries(JSON.parse(new TextDecoder().decode(bytes.subarray(0, start))));
  return new Map(lengths.map(([name, length]) => [name, bytes.subarray(start, (start += length))]));
}

/** Save a file for print; all are unpacked when the first is wanted. */
async function savePrint(name, type) {
  printFiles ??= await unpackPrint();
  save(name, type, printFiles.get(name));
}

/** The button of a table for LaTeX, if the page has it. */
const latexButtons = (name, what) =>
  printNames.has(`${name}.tex`) ? [saveButton("LaTeX", what, () => savePrint(`${name}.tex`, "text/x-tex"))] : [];

/** The buttons of a figure: the figure itself, and its numbers as a table. */
function figureButtons(figure) {
  const { name } = figure.dataset;
  const table = document.querySelector(`table[data-plain][data-name="${CSS.escape(name)}"]`);
  const buttons = [saveButton("SVG", name, () => save(`${name}.svg`, "image/svg+xml", figureFile(figure.querySelector("svg"))))];
  if (printNames.has(`${name}.pdf`)) buttons.push(saveButton("PDF", name, () => savePrint(`${name}.pdf`, "application/pdf")));
  buttons.push(...latexButtons(name, `numbers of ${name}`));
  if (table) buttons.push(saveButton("CSV", `numbers of ${name}`, () => save(`${name}.csv`, "text/csv", tableFile(table))));
  return buttons;
}

for (const figure of document.querySelectorAll("figure[data-name]")) {
  figure.append(element("p", { className: "tools" }, ...figureButtons(figure)));
}

const everything = document.getElementById("save-results");
everything?.append(
  saveButton("Save all results", "results.json", async () => {
    save("results.json", "application/json", await unpacked("packed-results"));
  }),
);

// A sentence to cite. It stays selected, for browsers that do not let the page copy it.
const citation = document.getElementById("citation");
if (citation) {
  const answer = (words) => Object.assign(button, { textContent: words, ariaLabel: words });
  const button = saveButton("Copy", "the sentence to cite", async () => {
    getSelection().selectAllChildren(citation);
    await navigator.clipboard.writeText(citation.textContent).then(
      () => answer("Copied"),
      () => answer("Selected: copy it by keyboard"),
    );
  });
  citation.after(" ", button);
}

const tip = element("div", { className: "tip", role: "tooltip", hidden: true });
document.body.append(tip);

/** Let a point say its text, beside it where the pointer or the keyboard is on it. */
function tell(point, text) {
  point.replaceChildren();
  point.dataset.tip = text;
  for (const [name, value] of [["role", "img"], ["aria-label", text], ["tabindex", -1]]) point.setAttribute(name, value);
}

/** Let the keyboard reach the points of a figure: they are one stop of the Tab key, and arrows go from point to point. */
function reachable(svg) {
  const first = svg.querySelector(".point");
  if (!first) return;
  svg.setAttribute("role", "group");
  first.setAttribute("tabindex", 0);
}

for (const point of document.querySelectorAll(".point")) tell(point, point.textContent);
for (const svg of document.querySelectorAll("figure svg")) reachable(svg);

function showTip(point) {
  tip.textContent = point.dataset.tip;
  tip.hidden = false;
  const at = point.getBoundingClientRect();
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  tip.style.left = `${Math.max(4, Math.min(at.left + at.width / 2 - width / 2, document.documentElement.clientWidth - width - 4))}px`;
  tip.style.top = `${at.top - height - 4 < 0 ? at.bottom + 4 : at.top - height - 4}px`;
}

document.addEventListener("pointerover", ({ target }) => {
  const point = target.closest?.(".point");
  if (point) showTip(point);
  else if (target !== tip) tip.hidden = true;
});
document.addEventListener("focusin", ({ target }) => {
  if (target.matches(".point")) showTip(target);
  else tip.hidden = true;
});
document.addEventListener("focusout", () => (tip.hidden = true));
document.addEventListener("keydown", (event) => {
  const { key, target } = event;
  if (key === "Escape") tip.hidden = true;
  if (!target.matches?.(".point") || event.ctrlKey || event.altKey || event.metaKey) return;
  const points = [...target.closest("svg").querySelectorAll(".point")];
  const at = points.indexOf(target);
  const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: points.length - 1 }[key];
  if (next === undefined) return;
  event.preventDefault();
  if (!points[next]) return;
  target.setAttribute("tabindex", -1);
  points[next].setAttribute("tabindex", 0);
  points[next].focus();
});
addEventListener(
  "scroll",
  () => {
    // A point that gets the focus may have scrolled the page.
    const focused = document.activeElement;
    if (!tip.hidden && focused.matches(".point") && focused.dataset.tip === tip.textContent) showTip(focused);
    else tip.hidden = true;
  },
  { passive: true },
);
