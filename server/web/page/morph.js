// This file owns how a view changes in place: existing elements keep the focus, the scroll position and the typed text.

// handlers lists the properties that h sets for events.
const handlers = ["onclick", "oninput", "onchange", "onkeydown", "onsubmit", "onfocus", "onblur", "onmouseenter", "onmouseleave"];

const keyOf = (node) => node.dataset?.key;
const alike = (a, b) => a.nodeName === b.nodeName && keyOf(a) === keyOf(b) && a.type === b.type;

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
    if (!found || !alike(found, want)) {
      parent.insertBefore(want, at);
      continue;
    }
    if (found === at) at = at.nextSibling;
    else parent.insertBefore(found, at);
    if (!want.alive) become(found, want);
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
  for (const { name } of [...node.attributes]) {
    if (name !== "style" && name !== "open" && !want.hasAttribute(name)) node.removeAttribute(name);
  }
  for (const { name, value } of want.attributes) {
    if (name !== "style" && node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  // The policy of the page forbids the attribute style, but not its properties.
  if (node.style && node.style.cssText !== want.style.cssText) node.style.cssText = want.style.cssText;
  for (const name of handlers) if (node[name] !== want[name]) node[name] = want[name];
  morph(node, [...want.childNodes]);
  if (node.matches("select, input") && node !== document.activeElement && node.value !== want.value) node.value = want.value;
}
