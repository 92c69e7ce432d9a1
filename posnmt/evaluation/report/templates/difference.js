// In what two texts differ, word by word, or character by character where words are not set off by blanks.

// Above this many pairs of words the comparison would hold up the page.
const MOST_PAIRS = 4_000_000;
const graphemes = "Segmenter" in Intl ? new Intl.Segmenter("en", { granularity: "grapheme" }) : null;

/** The pieces of a text, each with the blanks before it; a last piece without a word holds blanks at the end. */
function pieces(text, byCharacter) {
  if (byCharacter) {
    const characters = graphemes ? Array.from(graphemes.segment(text), (found) => found.segment) : [...text];
    return characters.map((word) => ({ space: "", word }));
  }
  return Array.from(text.matchAll(/(\s*)([\p{L}\p{M}\p{N}]+|[^\s\p{L}\p{M}\p{N}]|$)/gu), ([, space, word]) => ({
    space,
    word,
  })).filter(({ space, word }) => space || word);
}

/**
 * What to do with the pieces of two texts, in order: ["same", piece], ["missing", piece of `before`] or ["added", piece
 * of `after`], by a longest common subsequence. Null where the texts are too long for it.
 */
function aligned(before, after) {
  let start = 0;
  const shorter = Math.min(before.length, after.length);
  while (start < shorter && before[start].word === after[start].word) start++;
  let end = 0;
  while (end < shorter - start && before.at(-1 - end).word === after.at(-1 - end).word) end++;
  const rows = before.length - start - end;
  const columns = after.length - start - end;
  if (rows * columns > MOST_PAIRS) return null;
  // longest[row, column]: how long a subsequence the rest of both texts from there on have in common.
  const width = columns + 1;
  const longest = new Uint32Array((rows + 1) * width);
  for (let row = rows - 1; row >= 0; row--) {
    for (let column = columns - 1; column >= 0; column--) {
      const here = row * width + column;
      longest[here] =
        before[start + row].word === after[start + column].word
          ? longest[here + width + 1] + 1
          : Math.max(longest[here + width], longest[here + 1]);
    }
  }
  const steps = after.slice(0, start).map((piece) => ["same", piece]);
  let row = 0;
  let column = 0;
  while (row < rows || column < columns) {
    const here = row * width + column;
    if (row < rows && column < columns && before[start + row].word === after[start + column].word) {
      steps.push(["same", after[start + column]]);
      row++;
      column++;
    } else if (row < rows && (column === columns || longest[here + width] >= longest[here + 1])) {
      steps.push(["missing", before[start + row++]]);
    } else {
      steps.push(["added", after[start + column++]]);
    }
  }
  steps.push(...after.slice(after.length - end).map((piece) => ["same", piece]));
  return steps;
}

/**
 * `after` as runs of text, each the `same` as in `before` or `added`, and if wanted what of `before` is `missing`.
 * Without what is missing the runs make up `after` exactly. Null where the texts are too long.
 */
function difference(before, after, byCharacter, withMissing) {
  const steps = aligned(pieces(before, byCharacter), pieces(after, byCharacter));
  if (steps === null) return null;
  const runs = [];
  const put = (kind, text) => {
    if (text && runs.at(-1)?.kind === kind) runs.at(-1).text += text;
    else if (text) runs.push({ kind, text });
  };
  for (const [kind, { space, word }] of steps) {
    if (kind === "missing" && !withMissing) continue;
    // Nothing parts a first word from the missing one that stood before it.
    if (kind !== "missing" && runs.length === 1 && runs[0].kind === "missing" && !space && !byCharacter) put("same", " ");
    put(runs.at(-1)?.kind === kind ? kind : "same", space);
    put(kind, word);
  }
  return runs;
}
