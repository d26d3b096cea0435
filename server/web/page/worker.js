// One stream for all pages of a browser: more than six would wait for each other for ever.
import { apply, follow, newState, snapshot } from "./state.js";

const state = newState();
const pages = new Set();

onconnect = (e) => {
  const [page] = e.ports;
  pages.add(page);
  page.onmessage = () => pages.delete(page); // it says good-bye
  page.postMessage(snapshot(state));
};

follow((piece) => {
  apply(state, piece);
  for (const page of pages) page.postMessage(piece);
});
