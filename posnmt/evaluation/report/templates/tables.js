// Tables: sorted by any column, and saved as CSV.

// What a cell may say of itself beside its text, as further columns of the CSV.
const BESIDE = ["low", "high", "deviation", "mark"];
const byLetters = new Intl.Collator("en", { numeric: true });

/** What a cell is sorted by: a number, a text, or null where it has nothing. */
function sortKey(cell) {
  const figure = cell.dataset.value ?? cell.dataset.sort;
  if (figure !== undefined) return Number(figure);
  const text = cell.textContent.trim();
  return text === "" || text === "–" ? null : text;
}

/** Below 0 where `one` comes first; cells with nothing come last whichever way the others go. */
function compareKeys(one, other, sign) {
  if (one === null || other === null) return (one === null) - (other === null);
  if (typeof one === "number" && typeof other === "number") return sign * (one - other);
  return sign * byLetters.compare(one, other);
}

/** Sort a table's rows by a column; direction "none" restores their first order. */
function sortTable(body, first, column, direction) {
  const sign = direction === "descending" ? -1 : 1;
  const keyed = first.map((row) => [row, sortKey(row.cells[column])]);
  if (direction !== "none") keyed.sort((one, other) => compareKeys(one[1], other[1], sign));
  body.append(...keyed.map(([row]) => row));
}

/** Make a button of each column's heading: ascending, descending, as it was. */
function makeSortable(table) {
  const body = table.tBodies[0];
  const first = [...body.rows];
  const next = { none: "ascending", ascending: "descending", descending: "none" };
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = element("button", { type: "button", className: "sort" });
    button.append(...heading.childNodes);
    heading.append(button);
    heading.ariaSort = "none";
    button.addEventListener("click", () => {
      const direction = next[heading.ariaSort];
      for (const other of headings) other.ariaSort = "none";
      heading.ariaSort = direction;
      sortTable(body, first, column, direction);
    });
  });
}

/** What stands in a cell, on one line. */
function words(cell) {
  const copy = cell.cloneNode(true);
  for (const end of copy.querySelectorAll("br")) end.replaceWith(" ");
  return copy.textContent.replace(/\s+/g, " ").trim();
}

/** A table as CSV in the order shown: figures in full precision, and what stands beside them as columns of their own. */
function tableFile(table) {
  const rows = [...table.tBodies[0].rows].map((row) => [...row.cells]);
  const columns = [...table.tHead.rows[0].cells].map((heading, column) => ({
    heading: words(heading),
    beside: BESIDE.filter((name) => rows.some((cells) => name in cells[column].dataset)),
  }));
  const lines = [columns.flatMap(({ heading, beside }) => [heading, ...beside.map((name) => `${heading} ${name}`)])];
  for (const cells of rows) {
    lines.push(
      columns.flatMap(({ beside }, column) => {
        const { value, ...others } = cells[column].dataset;
        const shown = sortKey(cells[column]) === null ? "" : words(cells[column]);
        return [value ?? shown, ...beside.map((name) => others[name] ?? "")];
      }),
    );
  }
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return lines.map((line) => `${line.map(quoted).join(",")}\n`).join("");
}

/** Give a table with one row of headings its buttons. */
function equip(table) {
  makeSortable(table);
  const press = () => save(`${table.dataset.name}.csv`, "text/csv", tableFile(table));
  const what = table.caption.textContent.trim();
  const ofFigure = document.querySelector(`figure[data-name="${CSS.escape(table.dataset.name)}"]`);
  const latex = ofFigure ? [] : latexButtons(table.dataset.name, what); // a figure has it among its own
  table.parentElement.after(element("p", { className: "tools" }, saveButton("CSV", what, press), ...latex));
}

for (const table of document.querySelectorAll("table[data-plain]")) equip(table);
