// Lines of text. White space and regular expressions are those of Python, as in the runtime.

export const WHITE_SPACE =
  "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const RUNS = new RegExp(`[${WHITE_SPACE}]+`, "u");
const ENDS = new RegExp(`^[${WHITE_SPACE}]+|[${WHITE_SPACE}]+$`, "gu");
const CONTROL = /[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]/gu; // that are not white space
export const SPACE = "\u2581"; // begins a word

/** Every run of white space, line breaks of any kind and NUL as one space. */
export function oneLine(text) {
  return splitWords(text.replaceAll("\0", " ")).join(" ");
}

/** What stands between white space. */
export function splitWords(text) {
  return text.split(RUNS).filter((word) => word !== "");
}

export function withoutControls(text, by = "") {
  return text.replace(CONTROL, by);
}

/** The rule "nfc" of the runtime, for a line before it is cut. */
export function plain(line) {
  return oneLine(withoutControls(line, " ").replaceAll(SPACE, " ")).normalize("NFC");
}

/**
 * The normalisation of punctuation, as pieces.py of the runtime makes it.
 *
 * @param rules of punctuation.json.
 * @param {string} language of the text.
 * @returns {(text: string) => string}
 */
export function punctuation(rules, language) {
  const [code] = language.split(/[-_]/u);
  const ofLanguage = (part) =>
    Object.entries(part).find(([codes]) => codes.split(" ").includes(code))?.[1] ?? part[""] ?? [];
  const pairs = [rules["every language"], ofLanguage(rules.quotes), ofLanguage(rules.numbers)];
  const made = pairs.flat().map(([pattern, replacement]) => [
    new RegExp(javaScriptPattern(pattern), "gu"),
    replacement.replaceAll("$", "$$$$").replace(/\\g<(\d+)>/gu, "$$$1"),
  ]);
  return (text) => {
    const shown = [...text].map((one, at, all) => visible(all[at - 1], one)).join("");
    const stripped = shown.replace(ENDS, "");
    return oneLine(made.reduce((line, [pattern, by]) => line.replace(pattern, by), stripped));
  };
}

/** What stays of a character; the joiners stay behind a letter that is not Latin. */
function visible(before, character) {
  if (/[\p{Cc}\p{Cs}\p{Co}]/u.test(character)) return " ";
  if (!/\p{Cf}/u.test(character)) return character;
  const isInWord = /(?!\p{Script=Latin})[\p{L}\p{M}]/u.test(before ?? " ");
  return isInWord && /[\u200c\u200d]/u.test(character) ? character : "";
}

/**
 * \d and \s hold characters of all scripts in Python, those of ASCII in JavaScript, which takes no
 * backslash before a character that needs none.
 */
function javaScriptPattern(pattern) {
  const classes = { "\\d": "\\p{Nd}", "\\s": WHITE_SPACE };
  let inside = false; // of brackets
  return pattern.replace(/\\.|[[\]]/gsu, (found) => {
    if (found === "[" || found === "]") inside = found === "[";
    if (found in classes) return inside ? classes[found] : `[${classes[found]}]`;
    return /^\\[!"#%&',:;<=>@`~ ]/u.test(found) ? found[1] : found;
  });
}
