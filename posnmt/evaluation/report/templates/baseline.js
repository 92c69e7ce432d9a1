// Differences of all systems from the baseline that the reader picks: a small panel each, with whiskers for intervals.

const compared = document.getElementById("difference-controls");
// Of a panel, in units of its picture: the outer size, and the edges of the plot.
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [320, 170, 40, 314, 8, 132];
const LETTER = 5.6;

/** A difference with its sign. */
function signed(value, decimals) {
  const text = Math.abs(value).toFixed(decimals);
  return Number(text) === 0 ? text : `${value < 0 ? "\u2212" : "+"}${text}`;
}

/** Some 3 to 6 round numbers from `low` to `high`. */
function ticks(low, high) {
  const power = 10 ** Math.floor(Math.log10((high - low) / 3));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => (high - low) / each <= 5);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, number) => (first + number) * step);
}

class Differences {
  constructor(results) {
    this.results = results;
    this.panels = document.getElementById("difference-panels");
    const all = { label: "all", n: results.bins.reduce((sum, bin) => sum + bin.n, 0), training: null };
    this.places = [all, ...results.bins].map((place) => ({
      ...place,
      label: place.label.replace(/-$/, " and more").replace("-", "–"),
      tick: place.label.replace(/(.*)-$/, "≥ $1").replace("-", "–"),
    }));
    this.systems = [...compared.elements.baseline.options].map((option) => ({ name: option.value, colour: option.dataset.colour }));
    compared.hidden = false;
    compared.addEventListener("input", () => this.show());
    compared.addEventListener("submit", (event) => event.preventDefault());
    this.show();
  }

  /** [difference, low, high] of a system from the baseline at each place, or null where there is none. */
  figures(system, baseline, measure) {
    for (const pair of this.results.differences) {
      const places = [pair.overall, ...pair.bins].map((place) => place[measure]);
      if (pair.system === system && pair.other === baseline) return places;
      if (pair.system === baseline && pair.other === system) {
        return places.map((place) => place && [-place[0], -place[2], -place[1]]);
      }
    }
  }

  show() {
    const baseline = compared.elements.baseline.value;
    const [{ value, dataset, textContent: title }] = compared.elements.measure.selectedOptions;
    this.decimals = Number(dataset.decimals);
    const better = dataset.better ? `; ${dataset.better}` : "";
    const about = `${title}: difference from ${isolated(baseline)}${better}`;
    document.getElementById("difference-status").textContent = about;
    const others = this.systems
      .filter(({ name }) => name !== baseline)
      .map((system) => ({ ...system, title, figures: this.figures(system.name, baseline, value) }));
    const ends = others.flatMap(({ figures }) => figures.flatMap((figure) => figure ?? []));
    const [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)];
    const margin = (high - low) * 0.06 || 1;
    const range = [low - margin, high + margin];
    this.panels.replaceChildren(...others.map((system) => this.panel(system, range)), this.table(others, about));
    equip(this.panels.querySelector("table"));
  }

  /** Whether n sentences say little of others. */
  few(n) {
    return n > 0 && n < Number(this.panels.dataset.fewest);
  }

  /** A figure in words: the difference, and its interval. */
  words([value, low, high]) {
    return `${signed(value, this.decimals)} (${signed(low, this.decimals)} to ${signed(high, this.decimals)})`;
  }

  panel(system, range) {
    const name = element("span", { className: "system" }, system.name);
    name.style.setProperty("--series", system.colour);
    const overall = element("span", { className: "note" }, ` all: ${this.words(system.figures[0])}`);
    const figure = element("figure", {}, element("figcaption", {}, name, overall), this.picture(system, range));
    return element("div", { className: "panel" }, figure);
  }

  picture({ name, colour, title, figures }, [low, high]) {
    const step = (RIGHT - LEFT) / this.places.length;
    const x = (place) => LEFT + (place + 0.5) * step;
    const y = (value) => BOTTOM - ((value - low) / (high - low)) * (BOTTOM - TOP);
    const picture = svgElement("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      role: "img",
      "aria-label": `${title} of ${isolated(name)}: differences by source length. Their figures are in a table below.`,
    });
    const line = (x1, y1, x2, y2, stroke, width, others = {}) =>
      picture.append(svgElement("line", { x1, y1, x2, y2, stroke, "stroke-width": width, ...others }));
    const write = (text, at, height, anchor) =>
      picture.append(svgElement("text", { x: at, y: height, "text-anchor": anchor, class: "tick" }, text));
    this.places.forEach(({ training }, place) => {
      const fill = { unseen: "var(--unseen)", "partly unseen": "var(--partly)" }[training];
      if (!fill) return;
      picture.append(svgElement("rect", { x: x(place) - step / 2, y: TOP, width: step, height: BOTTOM - TOP, fill }));
    });
    const marks = ticks(low, high);
    const decimals = Math.max(0, -Math.floor(Math.log10(marks[1] - marks[0]) + 1e-9));
    for (const mark of marks) {
      line(LEFT, y(mark), RIGHT, y(mark), "var(--grid)", 0.8);
      write(signed(mark, decimals), LEFT - 5, y(mark) + 3.5, "end");
    }
    line(LEFT, y(0), RIGHT, y(0), "var(--muted)", 1.2);
    line(LEFT + step, TOP, LEFT + step, BOTTOM, "var(--grid)", 1);
    const widest = Math.max(...this.places.map(({ tick, n }) => Math.max(tick.length, n.toLocaleString("en").length)));
    const every = Math.max(1, Math.ceil(((widest + 1) * LETTER) / step));
    write("n", LEFT - 5, BOTTOM + 27, "end");
    this.places.forEach(({ label, tick, n }, place) => {
      if (place % every === 0) {
        write(tick, x(place), BOTTOM + 14, "middle");
        write(n.toLocaleString("en"), x(place), BOTTOM + 27, "middle");
      }
      const figure = figures[place];
      if (!figure) return;
      const [value, from, to] = figure;
      const cap = Math.min(4, step / 3);
      line(x(place), y(from), x(place), y(to), colour, 1.6, this.few(n) ? { "stroke-dasharray": "1.6 2.4" } : {});
      for (const end of [from, to]) line(x(place) - cap, y(end), x(place) + cap, y(end), colour, 1.6);
      const fill = this.few(n) || (from <= 0 && 0 <= to) ? "var(--surface)" : colour;
      picture.append(svgElement("circle", { cx: x(place), cy: y(value), r: 3.5, fill, stroke: colour, "stroke-width": 1.6 }));
      const point = svgElement("circle", { cx: x(place), cy: y(value), r: 10, class: "point" });
      tell(point, `${isolated(name)}, ${label}: ${title} ${this.words(figure)}, n = ${n.toLocaleString("en")}`);
      picture.append(point);
    });
    reachable(picture);
    return picture;
  }

  /** All figures of the panels, folded. */
  table(systems, about) {
    const axis = this.panels.dataset.axis;
    const heading = [axis[0].toUpperCase() + axis.slice(1), "n", ...systems.map(({ name }) => name)];
    const rows = this.places.map(({ label, n }, place) => {
      const shown = (text) => (this.few(n) ? `(${text})` : text);
      const cells = systems.map(({ figures }) => {
        const cell = element("td", {}, "–");
        if (figures[place]) {
          const [value, low, high] = figures[place];
          const interval = `${signed(low, this.decimals)} to ${signed(high, this.decimals)}`;
          cell.replaceChildren(shown(signed(value, this.decimals)), element("br"), element("span", { className: "note" }, interval));
          Object.assign(cell.dataset, { value, low, high });
        }
        return cell;
      });
      const first = element("th", { scope: "row", className: "bin" }, label);
      first.dataset.sort = place;
      const count = element("td", {}, n.toLocaleString("en"));
      count.dataset.value = n;
      return element("tr", {}, first, count, ...cells);
    });
    const table = element(
      "table",
      {},
      element("caption", {}, about),
      element("thead", {}, element("tr", {}, ...heading.map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, ...rows),
    );
    table.dataset.name = "differences";
    const scroll = element("div", { className: "scroll", role: "region", ariaLabel: `${about}, table`, tabIndex: 0 }, table);
    const folded = element("details", { className: "data" }, element("summary", {}, "Data"), scroll);
    folded.open = this.panels.querySelector("details")?.open ?? false;
    return folded;
  }
}

if (compared) unpacked("packed-results").then((text) => new Differences(JSON.parse(text)));
