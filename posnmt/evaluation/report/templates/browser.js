// The example browser: controls, one page of sentences, and the address that leads back to them.

const PAGE = 20;
// Longer texts scroll by themselves; letters.
const LONG = 3_000;
const TYPING_PAUSE = 150; // milliseconds
const ADDRESS = "#examples?";
const SEEN = new Map([[true, " · seen in training"], [false, " · unseen in training"], [null, " · seen in some trainings"]]);
// The direction that an order begins with; that of the others is ascending.
const DESCENDING = ["difference", "disagreement", "long"];

const browser = document.getElementById("browser");

class ExampleBrowser {
  constructor(data) {
    this.data = data;
    this.form = browser.querySelector("form");
    this.list = document.getElementById("example-list");
    this.status = document.getElementById("example-status");
    this.paging = browser.querySelector(".paging");
    this.controls = [...this.form.elements].filter((control) => control.name);
    this.start = this.wanted();
    this.rows = [];
    this.page = 1;
    this.listen();
  }

  /** The state of the controls. */
  wanted() {
    const value = (control) => (control.type === "checkbox" ? control.checked : control.value);
    return Object.fromEntries(this.controls.map((control) => [control.name, value(control)]));
  }

  listen() {
    let waiting;
    this.form.addEventListener("input", ({ target }) => {
      if (target.id === "example-bin") this.takeBin(target.value);
      if (target.name === "order") {
        this.form.elements.direction.value = DESCENDING.includes(target.value) ? "descending" : "ascending";
      }
      clearTimeout(waiting);
      const typed = target.type === "search" || target.type === "number";
      waiting = setTimeout(() => this.search(), typed ? TYPING_PAUSE : 0);
    });
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("reset", () => setTimeout(() => this.search()));
    this.paging.addEventListener("click", ({ target }) => {
      const pages = { first: 1, previous: this.page - 1, next: this.page + 1, last: Infinity };
      if (target.dataset.page) this.turn(pages[target.dataset.page]);
    });
    document.getElementById("example-page").addEventListener("change", ({ target }) => this.turn(Number(target.value)));
    // Where arrows mean something else they keep that meaning.
    browser.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const taken = event.target.closest("input, select, .long") || event.altKey || event.ctrlKey || event.metaKey;
      if (step && !taken) {
        event.preventDefault();
        this.turn(this.page + step);
      }
    });
    addEventListener("hashchange", () => this.follow());
  }

  takeBin(value) {
    if (value === "own") return;
    [this.form.elements.first.value, this.form.elements.last.value] = value.split("-");
  }

  /** Set the controls from the address, if it is one of ours, and go there. */
  follow() {
    if (!location.hash.startsWith(ADDRESS)) return;
    const given = new URLSearchParams(location.hash.slice(ADDRESS.length));
    for (const control of this.controls) {
      let value = given.get(control.name) ?? this.start[control.name];
      if (control.type === "number" && !/^\d*$/.test(value)) value = "";
      if (control.type === "checkbox") control.checked = String(value) === "true";
      else control.value = value;
      // A choice that there is not.
      if (control.selectedIndex === -1) control.value = this.start[control.name];
    }
    this.search(Number(given.get("page")) || 1);
    document.getElementById("examples").focus();
  }

  /** Keep in the address what was changed from the start. */
  remember() {
    const changed = Object.entries(this.wanted()).filter(([name, value]) => value !== this.start[name]);
    if (this.page > 1) changed.push(["page", this.page]);
    const ours = location.hash.startsWith(ADDRESS);
    if (changed.length || ours) history.replaceState(null, "", ADDRESS + new URLSearchParams(changed));
  }

  /** Find the sentences anew, and show a page of them. */
  search(page = 1) {
    const wanted = this.wanted();
    this.showWhatApplies(wanted);
    const text = this.form.elements.text;
    let fault = "";
    try {
      this.rows = matching(this.data, wanted);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      this.rows = [];
      fault = `This is no regular expression: ${error.message.replace(/^Invalid regular expression: /, "")}.`;
    }
    text.ariaInvalid = String(fault !== "");
    this.show(page, fault);
  }

  /** Hide the controls that the chosen order has no use for, and name the bin that the lengths are. */
  showWhatApplies(wanted) {
    for (const part of this.form.querySelectorAll("[data-for]")) {
      part.hidden = !part.dataset.for.split(" ").includes(wanted.order);
    }
    const bin = document.getElementById("example-bin");
    bin.value = `${wanted.first}-${wanted.last}`;
    if (bin.selectedIndex === -1) bin.value = "own";
  }

  get pages() {
    return Math.max(1, Math.ceil(this.rows.length / PAGE));
  }

  /** Another page of the same sentences; its beginning comes into view. */
  turn(page) {
    this.show(page);
    if (this.list.getBoundingClientRect().top < 0) this.list.scrollIntoView();
  }

  show(page, fault = "") {
    this.page = Math.min(Math.max(Math.trunc(page) || 1, 1), this.pages);
    const begin = (this.page - 1) * PAGE;
    const shown = this.rows.slice(begin, begin + PAGE);
    const wanted = this.wanted();
    this.list.replaceChildren(...shown.map((row) => this.example(row, wanted)));
    const [count, all] = [this.rows.length, this.data.numbers.length].map((figure) => figure.toLocaleString("en"));
    const range = shown.length ? `; ${begin + 1} to ${begin + shown.length} shown` : "";
    this.status.textContent = fault || `${count} of ${all} sentences match${range}`;
    this.status.classList.toggle("fault", fault !== "");
    this.paging.hidden = this.pages === 1;
    document.getElementById("example-page").value = this.page;
    document.getElementById("example-page").max = this.pages;
    document.getElementById("example-pages").textContent = this.pages.toLocaleString("en");
    for (const button of this.paging.querySelectorAll("button")) {
      const back = button.dataset.page === "first" || button.dataset.page === "previous";
      // Not `disabled`, which would take the focus away from a button that was just pressed.
      button.ariaDisabled = String(this.page === (back ? 1 : this.pages));
    }
    this.remember();
  }

  /** One sentence with all that was made of it. */
  example(row, wanted) {
    const { data } = this;
    const [source, reference, ...outputs] = data.texts[row];
    const seen = data.seen === null ? "" : SEEN.get(data.seen[row]);
    const about = `length ${data.lengths[row]}${seen}`;
    const title = element("h3", {}, `Sentence ${data.numbers[row] + 1} `, element("span", { className: "note" }, about));
    const [language, target] = data.languages;
    const texts = element("dl", {}, this.line("Source", "", [source], language), this.line("Reference", "", [reference], target));
    outputs.forEach((output, system) => {
      const name = element("span", { className: "system" }, data.systems[system].name);
      name.style.setProperty("--series", `var(--series-${data.systems[system].colour})`);
      texts.append(this.line(name, this.scores(row, system), this.marked(row, system, output, wanted), target));
    });
    return element("article", { className: "example" }, title, texts);
  }

  scores(row, system) {
    const figure = ({ title, shown, scores }) => `${title}\u00a0${(scores[system][row] / 10 ** (shown + 1)).toFixed(shown)}`;
    return this.data.metrics.map(figure).join(" · ");
  }

  /** A system's output as what is put on the page, with its differences marked. */
  marked(row, system, output, wanted) {
    if (wanted.mark === "nothing" || wanted.mark === String(system)) return [output];
    const texts = this.data.texts[row];
    const before = wanted.mark === "reference" ? texts[1] : texts[Number(wanted.mark) + 2];
    const runs = difference(before, output, this.data.byCharacter, wanted.missing);
    if (runs === null) return [output, element("span", { className: "note" }, " (too long to mark differences)")];
    const tags = { added: "ins", missing: "del" };
    return runs.map(({ kind, text }) => (kind === "same" ? text : element(tags[kind], {}, text)));
  }

  /** What a text is, and the text in its language, if that is known. */
  line(name, scores, parts, language) {
    const text = element("div", { dir: "auto", className: "text", ...(language && { lang: language }) }, ...parts);
    if (text.textContent === "") text.append(element("span", { className: "note" }, "(empty)"));
    if (text.textContent.length > LONG) {
      text.classList.add("long");
      text.tabIndex = 0;
      text.role = "group";
      text.ariaLabel = typeof name === "string" ? name : name.textContent;
    }
    const term = element("dt", {}, name, element("span", { className: "note" }, scores));
    return element("div", { className: "line" }, term, element("dd", {}, text));
  }
}

/** Rows of tables by length lead to the sentences of their bin. */
function linkBins() {
  const bins = [...document.querySelectorAll("#example-bin option[data-bin]")];
  for (const heading of document.querySelectorAll('table[data-name$="-by-length"] tbody th.bin')) {
    const [first, last] = bins[Number(heading.dataset.sort)].value.split("-");
    const address = ADDRESS + new URLSearchParams({ first, ...(last && { last }) });
    const link = element("a", { href: address, title: "Examples of this length" }, ...heading.childNodes);
    heading.append(link);
    // The address does not change, and yet the reader wants to go there.
    link.addEventListener("click", () => link.hash === location.hash && dispatchEvent(new Event("hashchange")));
  }
}

async function openBrowser() {
  const status = document.getElementById("example-status");
  try {
    const shown = new ExampleBrowser(JSON.parse(await unpacked("packed-examples")));
    if (location.hash.startsWith(ADDRESS)) shown.follow();
    else shown.search();
  } catch (error) {
    status.textContent = `The sentences could not be unpacked: ${error.message}`;
    status.classList.add("fault");
    throw error;
  }
}

if (browser) {
  browser.hidden = false;
  // On a phone the controls would fill the first screen.
  if (matchMedia("(max-width: 40rem)").matches) browser.querySelector(".folding").open = false;
  linkBins();
  // The sentences are unpacked when they are about to be seen, or asked for.
  const about = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      about.disconnect();
      openBrowser();
    },
    { rootMargin: "800px" },
  );
  if (location.hash.startsWith(ADDRESS)) openBrowser();
  else about.observe(browser);
  addEventListener("hashchange", () => {
    if (location.hash.startsWith(ADDRESS)) browser.scrollIntoView();
  });
}
