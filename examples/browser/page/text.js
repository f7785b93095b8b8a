// Lines of text. White space and regular expressions are those of Python, as in runtime.py.

const WHITE_SPACE =
  "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const RUNS = new RegExp(`[${WHITE_SPACE}]+`, "u");
const DIGIT = "\\p{Nd}";

/** Every run of white space, line breaks of any kind and NUL as one space. */
export function oneLine(text) {
  return splitWords(text.replaceAll("\0", " ")).join(" ");
}

/** What stands between white space. */
export function splitWords(text) {
  return text.split(RUNS).filter((word) => word !== "");
}

/**
 * Substitutions in JavaScript.
 *
 * @param {[string, string][]} pairs regular expression and replacement, in the syntax of Python.
 * @returns {(text: string) => string} which makes them one after the other.
 */
export function substitutions(pairs) {
  const made = pairs.map(([pattern, replacement]) => [
    new RegExp(javaScriptPattern(pattern), "gu"),
    replacement.replaceAll("$", "$$$$").replace(/\\g<(\d+)>/gu, "$$$1"),
  ]);
  return (text) => made.reduce((line, [pattern, by]) => line.replace(pattern, by), text);
}

/**
 * \d and \s hold characters of all scripts in Python, those of ASCII in JavaScript, which takes no
 * backslash before a character that needs none.
 */
function javaScriptPattern(pattern) {
  const classes = { "\\d": DIGIT, "\\s": WHITE_SPACE };
  let inside = false; // of brackets
  return pattern.replace(/\\.|[[\]]/gsu, (found) => {
    if (found === "[" || found === "]") inside = found === "[";
    if (found in classes) return inside ? classes[found] : `[${classes[found]}]`;
    return /^\\[!"#%&',:;<=>@`~ ]/u.test(found) ? found[1] : found;
  });
}
