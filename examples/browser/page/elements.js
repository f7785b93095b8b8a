// Small helpers of the page.

/** An element with properties and children. */
export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export function sizeText(bytes) {
  return bytes < 1e5 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

export function percent(share) {
  return `${Math.round(100 * share)} %`;
}

/** The English name of a language, for its code. */
export function languageName(code) {
  try {
    return new Intl.DisplayNames("en", { type: "language" }).of(code);
  } catch {
    return code;
  }
}

/**
 * Arrow keys, Home and End move among *buttons*, of which one can be reached by Tab.
 *
 * @param {(number: number) => void} choose is called with the number of the button that is chosen.
 */
export function arrowKeys(container, buttons, choose) {
  container.onkeydown = (event) => {
    const now = buttons.indexOf(document.activeElement);
    const steps = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };
    let next;
    if (event.key in steps) next = now + steps[event.key];
    else if (event.key === "Home") next = 0;
    else if (event.key === "End") next = buttons.length - 1;
    if (now < 0 || next === undefined) return;
    event.preventDefault();
    next = Math.max(0, Math.min(buttons.length - 1, next));
    buttons[next].focus();
    choose(next);
  };
  buttons.forEach((button, number) => button.addEventListener("click", () => choose(number)));
}
