// Which of the sentences are looked at, and in what order: no page in here, only data.

/** A regular expression that finds a text as it is written. */
function literally(text) {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

/** The columns of a sentence's texts that a search looks in: "any", "source", "reference", "outputs" or a system. */
function searched(field, systems) {
  const outputs = Array.from({ length: systems }, (_, system) => system + 2);
  return { any: [0, 1, ...outputs], source: [0], reference: [1], outputs }[field] ?? [Number(field) + 2];
}

/** For each sentence whether a text is found in it; throws a SyntaxError where an expression is none. */
function finder(data, { text, field, expression, matchCase }) {
  const pattern = new RegExp(expression ? text : literally(text), matchCase ? "u" : "iu");
  const columns = searched(field, data.systems.length);
  return (row) => columns.some((column) => pattern.test(data.texts[row][column]));
}

/** What the sentences are ordered by: a function of a sentence. */
function orderKey(data, { order, metric, system, other }) {
  const scores = data.metrics[Number(metric)]?.scores;
  const disagreement = (row) => Math.max(...scores.map((each) => each[row])) - Math.min(...scores.map((each) => each[row]));
  return {
    number: (row) => row,
    length: (row) => data.lengths[row],
    score: (row) => scores[system][row],
    difference: (row) => scores[system][row] - scores[other][row],
    disagreement,
    long: (row) => data.lengths[row] * disagreement(row),
  }[order];
}

/**
 * The sentences that are wanted, by their places in the data, in the order that is wanted; equal ones stay in order.
 *
 * `wanted` is the state of the controls: texts of inputs, and true or false of boxes.
 */
function matching(data, wanted) {
  const first = wanted.first === "" ? 0 : Number(wanted.first);
  const last = wanted.last === "" ? Infinity : Number(wanted.last);
  const found = wanted.text === "" ? () => true : finder(data, wanted);
  const training = (row) => !wanted.training || data.seen[row] === (wanted.training === "seen");
  const rows = [];
  data.lengths.forEach((length, row) => {
    if (first <= length && length <= last && training(row) && found(row)) rows.push(row);
  });
  const sign = wanted.direction === "descending" ? -1 : 1;
  const keys = new Float64Array(data.lengths.length);
  const key = orderKey(data, wanted);
  for (const row of rows) keys[row] = key(row);
  return rows.sort((one, other) => sign * (keys[one] - keys[other]) || one - other);
}
