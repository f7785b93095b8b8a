// Lines of text. White space and regular expressions are those of Python, as in the runtime.

export const WHITE_SPACE =
  "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const RUNS = new RegExp(`[${WHITE_SPACE}]+`, "u");
const CONTROL = /[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]/gu; // that are not white space
export const SPACE = "\u2581"; // begins a word

/** Every run of white space, line breaks of any kind and NUL as one space. */
export function oneLine(text) {
  return text.replaceAll("\0", " ").split(RUNS).filter(Boolean).join(" ");
}

export function withoutControls(text, by = "") {
  return text.replace(CONTROL, by);
}

/** The rule "nfc" of the runtime, for a line before it is cut. */
export function plain(line) {
  const spaced = withoutControls(line, " ").replaceAll(SPACE, " ");
  return oneLine(spaced.replace(/[\xad\u2060\ufeff]/gu, "")).normalize("NFC");
}
