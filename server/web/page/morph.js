// This file owns how a view changes in place: existing elements keep the focus, the scroll position and the typed text.

// handlers lists the properties that h sets for events.
const handlers = ["onclick", "oninput", "onchange", "onkeydown", "onsubmit", "onfocus", "onblur", "onmouseenter", "onmouseleave"];

const keyOf = (node) => node.dataset?.key ?? node.key;
const alike = (a, b) => a.nodeName === b.nodeName && keyOf(a) === keyOf(b) && a.type === b.type;

// later returns a wanted child that is made only if the element with this key is missing or has another sign. Lists of hundreds of rows
// use it, because few rows change at once. The sign contains everything that the row shows.
export const later = (key, sign, make) => ({ key, sign, make });

// made returns the element of a wanted child.
const made = (want) => (want.make ? Object.assign(want.make(), { key: want.key, sign: want.sign }) : want);

// full returns an element with its children that are made later.
function full(node) {
  for (const one of [node, ...(node.querySelectorAll?.("tbody, ul") ?? [])]) if (one.wanted) morph(one, one.wanted);
  return node;
}

// morph gives an element the wanted children. An existing child with the same key, or the same tag at the same place, is
// changed and stays in the document. A wanted child with the property alive is inserted as it is, and never changed.
export function morph(parent, wanted) {
  const keys = new Set(wanted.map(keyOf).filter(Boolean)), old = new Map();
  for (const node of [...parent.childNodes]) {
    if (keyOf(node) && !keys.has(keyOf(node))) node.remove();
    else if (keyOf(node)) old.set(keyOf(node), node);
  }
  let at = parent.firstChild;
  for (const want of wanted) {
    const found = want.alive ? want.parentNode === parent && want : keyOf(want) ? old.get(keyOf(want)) : at && alike(at, want) && at;
    const same = found && (want.alive || (want.make && found.sign === want.sign)), next = same ? found : made(want);
    if (!found || !alike(found, next)) {
      parent.insertBefore(full(next), at);
      continue;
    }
    if (found === at) at = at.nextSibling;
    else parent.insertBefore(found, at);
    if (same) continue;
    become(found, next);
    found.sign = next.sign;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// become changes an element so that it equals the wanted one.
function become(node, want) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.data !== want.data) node.data = want.data;
    return;
  }
  if (want.nodeName === "TD" && !want.firstElementChild && node.isEqualNode(want)) return; // most cells, and without a handler
  for (const { name } of [...node.attributes]) {
    if (name !== "style" && name !== "open" && !want.hasAttribute(name)) node.removeAttribute(name);
  }
  for (const { name, value } of want.attributes) {
    if (name !== "style" && node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  // The policy of the page forbids the attribute style, but not its properties.
  if (node.style && node.style.cssText !== want.style.cssText) node.style.cssText = want.style.cssText;
  for (const name of handlers) if (node[name] !== want[name]) node[name] = want[name];
  morph(node, want.wanted ?? [...want.childNodes]);
  if (node.matches("select, input") && node !== document.activeElement && node.value !== want.value) node.value = want.value;
}
